"""Who may ask: clients with the token, or without one, those that a page of another site has not sent."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from starlette.datastructures import Headers

from pricekit.plugin import ConfigError, describe_failure, printable, shorten
from pricekit_serve.errors import RequestError

VARIABLE = "PRICEKIT_TOKEN"
OPEN = frozenset({"/", "/v2/health/live", "/v2/health/ready"})
"""Addresses that everyone may ask: the page, which has no data, and what schedulers ask."""
_SHORTEST = 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::\d*)?")


def read_token(file: str | Path | None) -> str | None:
    """Return the token in a file, or else that of the environment; None without both.

    Raises:
        ConfigError: the file cannot be read, or others can read it; or the token is too short or not printable ASCII.
    """
    given = os.environ.get(VARIABLE) if file is None else _content(Path(file))
    if given is None:
        return None
    token = given.strip()
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable() and " " not in token):
        raise _useless(file)
    return token


def _useless(file: str | Path | None) -> ConfigError:
    expected = f"has no token of at least {_SHORTEST} letters, digits and signs"
    example = "such as the output of openssl rand -hex 32"
    if file is None:
        return ConfigError(
            f"the environment variable {VARIABLE} {expected}; set it to one, {example}, or unset {VARIABLE} to serve "
            "without a token"
        )
    return ConfigError(f"the token file {file} {expected}; write one, {example}", parameters=("token_file",))


def _content(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if os.name == "posix" and mode & _OTHERS:
                raise ConfigError(
                    f"others can access the token file {file} (mode {stat.S_IMODE(mode):o}); allow only its owner: "
                    f"chmod 600 {file}",
                    parameters=("token_file",),
                )
            return stream.read(10_000)
    except (OSError, UnicodeDecodeError) as error:
        reason = describe_failure(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"the token file {file} cannot be read: {reason}", parameters=("token_file",)
        ) from None


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach an address on which a server listens."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


class Permission:
    """Decides which requests are answered.

    A browser on a machine that reaches the server may show a page of anybody. With DNS rebinding, the page reads
    answers under its own name, and without it, it can still send requests. So a server without a token answers only
    to IP addresses and the names that it knows, and no request that a page of another site sends.

    Args:
        token: that clients must send; None: no token.
        hosts: names by which clients may call a server without a token; None: any.
    """

    def __init__(self, token: str | None, hosts: Iterable[str] | None) -> None:
        self._token = token
        self._names = None if hosts is None else {host.lower() for host in hosts if _address(host) is None}

    def check(self, path: str, headers: Headers) -> None:
        """Raise RequestError if a request for an address may not be answered."""
        if path in OPEN:
            return
        if self._token is not None:
            self._check_token(headers.get("authorization", ""))
        elif self._names is not None:
            self._check_names(headers, self._names)

    def _check_token(self, header: str) -> None:
        """Compare in a time that shows nothing of the token."""
        scheme, _, given = header.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), (self._token or "").encode())
        if not (same and scheme.lower() == "bearer"):
            raise RequestError(
                401,
                "this server needs a token: send the header Authorization: Bearer TOKEN",
                headers={"www-authenticate": "Bearer"},
            )

    def _check_names(self, headers: Headers, known: set[str]) -> None:
        called = headers.getlist("host")
        for authority in called:
            if (name := _name(authority)) not in known and _address(name) is None:
                raise RequestError(
                    421,
                    f"this server does not know the name {shorten(printable(name), 100)!r}; call it by its IP "
                    "address, or give it the name when it starts",
                )
        for origin in headers.getlist("origin"):
            authority = origin.partition("://")[2]
            if authority not in called and _name(authority) not in known - {"localhost"}:
                raise RequestError(403, "a page of another site has sent this request")


def _name(authority: str) -> str:
    """Return the host of an authority without its port."""
    found = _AUTHORITY.fullmatch(authority.strip())
    return found["host"].lower().removesuffix(".") if found else authority


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
