"""Which network addresses a download may connect to.

A link in a table may name a machine that only this network reaches: a metadata service, a router, a database. So only
public addresses are allowed, and the networks that the variable `PRICEKIT_IMAGES_ALLOW` of the environment names. A
bundle cannot change that.
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pricekit.plugin import ConfigError
from pricekit_images.unusable import UnusableError

ALLOW = "PRICEKIT_IMAGES_ALLOW"
"""The variable: networks separated by commas, such as "10.1.0.0/16, 127.0.0.1"."""

_REFUSED = [
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        "192.88.99.0/24",  # relays to IPv6 (RFC 7526)
        "168.63.129.16/32",  # services of Azure for its own machines
    )
]
"""IPv4 networks for special purposes (RFC 6890)."""
_PUBLIC = IPv6Network("2000::/3")
"""The addresses that are assigned to machines in the public network (RFC 4291, 2.4)."""
_REFUSED_WITHIN = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # tunnels, benchmarks and other protocols (RFC 2928)
        "2001:db8::/32",  # examples (RFC 3849)
        "2002::/16",  # tunnels to IPv4 addresses (RFC 3056)
        "3fff::/20",  # examples (RFC 9637)
    )
]
_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses of IPv4 machines behind a translator (RFC 6052)."""
_ISATAP, _ISATAP_FLAGS = 0x00005EFE, 0x03000000
"""The first half of the interface identifier of a tunnel to an IPv4 address, and bits that may differ (RFC 5214)."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to a machine in the public network.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found in _NAT64:
        found = IPv4Address(int(found) & 0xFFFFFFFF)
    if isinstance(found, IPv4Address):
        return found.is_global and not any(found in network for network in _REFUSED)
    return found.is_global and _is_of_a_public_machine(found)


def _is_of_a_public_machine(address: IPv6Address) -> bool:
    """Return whether an address is a public one that leads to no IPv4 address."""
    tunnel = (int(address) >> 32) & 0xFFFFFFFF & ~_ISATAP_FLAGS == _ISATAP
    refused = tunnel or any(address in network for network in _REFUSED_WITHIN)
    return address in _PUBLIC and address.scope_id is None and not refused


def is_allowed(address: str) -> bool:
    """Return whether a download may connect to an address; raises ConfigError if `ALLOW` lists no networks."""
    given = os.environ.get(ALLOW, "")
    try:
        networks = [ip_network(part.strip()) for part in given.split(",") if part.strip()]
    except ValueError as error:
        raise ConfigError(
            f"{ALLOW} is {given!r}: {error}; expected networks separated by commas, such as 10.1.0.0/16"
        ) from None
    return is_public(address) or any(ip_address(address) in network for network in networks)


def resolve(host: str, port: int) -> str:
    """Return the IP address to connect to.

    Raises:
        UnusableError: the host is unknown, or one of its addresses is not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        again = error.errno == socket.EAI_AGAIN
        raise UnusableError("unknown host", final=not again) from None
    except (UnicodeError, ValueError):
        raise UnusableError("invalid host name") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(map(is_allowed, addresses)):
        raise UnusableError(f"the host is not public, and {ALLOW} does not name its network")
    return addresses[0]
