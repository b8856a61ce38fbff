"""Access: a server with a token answers clients that send it; one without refuses pages of other sites."""

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
"""Addresses that are open to everyone: the page, which contains no data, and the health of the server."""
_LEAST_CHARACTERS = 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::\d*)?")


def read_token(file: str | Path | None) -> str | None:
    """Return the token in a file, or else that of the environment; None without both.

    Raises:
        ConfigError: the file cannot be read, or others can read it; or the token is too short or not printable ASCII.
    """
    content = os.environ.get(VARIABLE) if file is None else _content(Path(file))
    if content is None:
        return None
    token = content.strip()
    if len(token) < _LEAST_CHARACTERS or not (token.isascii() and token.isprintable() and " " not in token):
        raise _unusable(file)
    return token


def _unusable(file: str | Path | None) -> ConfigError:
    expected = f"has no token of at least {_LEAST_CHARACTERS} letters, digits and signs"
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
    """Return whether only programs on this machine can reach a server that listens on this host."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


class Permission:
    """Decides which requests are answered.

    Any web page in a browser near the server can send it requests, and with DNS rebinding it can also read the answers.
    So a server without a token refuses unknown names in `Host`, and requests from pages of other sites.

    Args:
        token: that clients must send; None: no token.
        hosts: names by which clients may call a server without a token, besides IP addresses; None: any.
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
        """Raise RequestError for a wrong token; the comparison takes the same time for all tokens."""
        scheme, _, token = header.partition(" ")
        same = hmac.compare_digest(token.strip().encode(), (self._token or "").encode())
        if not (same and scheme.lower() == "bearer"):
            raise RequestError(
                401,
                "this server needs a token: send the header Authorization: Bearer TOKEN",
                headers={"www-authenticate": "Bearer"},
            )

    def _check_names(self, headers: Headers, names: set[str]) -> None:
        hosts = headers.getlist("host")
        for authority in hosts:
            if (name := _name(authority)) not in names and _address(name) is None:
                raise RequestError(
                    421,
                    f"this server does not know the name {shorten(printable(name), 100)!r}; call it by its IP "
                    "address, or give it the name when it starts",
                )
        for origin in headers.getlist("origin"):
            authority = origin.partition("://")[2]
            if authority not in hosts and _name(authority) not in names - {"localhost"}:
                raise RequestError(403, "a page of another site has sent this request")


def _name(authority: str) -> str:
    """Return the host of an authority without its port."""
    match = _AUTHORITY.fullmatch(authority.strip())
    return match["host"].lower().removesuffix(".") if match else authority


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
