"""Which network addresses a download may connect to.

A link in a table may name a machine that only this network reaches: a metadata service, a router, a database. So only
public addresses are allowed, and the networks that the variable `PRICEKIT_IMAGES_ALLOW` of the environment names. A
bundle cannot change that.
"""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from pricekit.errors import ConfigError
from pricekit_images.unusable import UnusableError

ALLOW = "PRICEKIT_IMAGES_ALLOW"
"""The variable: networks separated by commas, such as "10.1.0.0/16, 127.0.0.1"."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""Addresses of IPv4 machines behind a translator (RFC 6052)."""
_COMPATIBLE = IPv6Network("::/96")
"""The same in an older form (RFC 4291, 2.5.5.1)."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to a machine in the public network.

    >>> is_public("93.184.216.34"), is_public("127.0.0.1"), is_public("::ffff:10.0.0.1")
    (True, False, False)
    """
    found = ip_address(address)
    return all(one.is_global and not one.is_multicast for one in (found, *_inside(found)))


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses to which packets for an IPv6 address may go."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


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
