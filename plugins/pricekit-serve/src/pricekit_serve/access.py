"""What surrounds every request: its id, permission, metrics and log lines, and answers to errors."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pricekit.plugin import ConfigError, PricekitError, counted, describe_failure, logger, printable, shorten
from pricekit_serve.answers import as_json
from pricekit_serve.errors import RequestError
from pricekit_serve.metrics import Metrics
from pricekit_serve.tracing import Tracing

QUIET = frozenset({"/metrics", "/v2/health/live", "/v2/health/ready"})
"""Addresses that probes call all the time; they are logged only at the level DEBUG."""
GONE = 499
"""The status in the log if the connection ended before the request was complete."""
_INCOMPLETE = (408, GONE)
"""Statuses of incomplete requests. A client can send thousands of them at no cost, so they share log lines."""
_SECONDS = 10
"""Time between two shared log lines of the same kind."""
ANSWER_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def new_request_id() -> str:
    """Return an id for a request that has none."""
    return secrets.token_hex(8)


class Record:
    """Counts and logs requests and connections."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._not_logged: dict[str, int] = {}

    def request(self, scope: Scope, status: int, seconds: float, request_id: str, failure: str) -> None:
        """Count and log an answered request."""
        route = getattr(scope.get("endpoint"), "__name__", "other")
        self._metrics.answered(route, status, seconds)
        facts: dict[str, Any] = {"request_id": request_id, "method": scope["method"], "status": status}
        facts |= {"path": shorten(scope["path"], 200), "milliseconds": round(1000 * seconds, 2)}
        if (rows := scope.get("state", {}).get("rows")) is not None:
            facts["rows"] = rows
        message = f"{scope['method']} {facts['path']} {status} {facts['milliseconds']:g} ms"
        message += "" if rows is None else f" {counted(rows, 'row')}"
        quiet = logging.DEBUG if scope["path"] in QUIET and status < 400 else logging.INFO
        level = logging.ERROR if failure else quiet
        message = f"{message}{': ' * bool(failure)}{failure}"
        if status in _INCOMPLETE:
            self.rarely(_incomplete(status), message, facts)
        else:
            logger.log(level, message, extra={"facts": facts})

    def refused(self, status: int, message: str, seconds: float, request_id: str) -> None:
        """Count and log a connection that ends with an error because the head of its request was unusable."""
        self._metrics.answered("other", status, seconds)
        facts = {"request_id": request_id, "status": status, "milliseconds": round(1000 * seconds, 2)}
        self.rarely(_incomplete(status), f"a connection ends with {status}: {message}", facts)

    def opened(self, connections: int) -> None:
        """Show how many connections are open."""
        self._metrics.connections(connections)

    def closed(self, reason: str, message: str) -> None:
        """Count and log a connection that the server closed without an answer."""
        self._metrics.closed(reason)
        self.rarely(f"connections closed ({reason})", message, {"reason": reason})

    def rarely(self, kind: str, message: str, facts: dict[str, Any], level: int = logging.INFO) -> None:
        """Log a message, unless one of its kind was logged just now: then count it, and log the number later."""
        if kind in self._not_logged:
            self._not_logged[kind] += 1
            return
        self._not_logged[kind] = 0
        logger.log(level, message, extra={"facts": facts})
        asyncio.get_running_loop().call_later(_SECONDS, self._tell, kind)

    def tell(self) -> None:
        """Log how many messages of each kind were only counted."""
        for kind in list(self._not_logged):
            self._tell(kind)

    def _tell(self, kind: str) -> None:
        if not (number := self._not_logged.pop(kind, 0)):
            return
        self._not_logged[kind] = 0
        logger.info(f"{kind}: {number:,} more in {_SECONDS} seconds", extra={"facts": {"more": number}})
        asyncio.get_running_loop().call_later(_SECONDS, self._tell, kind)


def _incomplete(status: int) -> str:
    phrase = "the connection ended" if status == GONE else HTTPStatus(status).phrase
    return f"incomplete requests ({status}, {phrase})"


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


_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Access:
    """Middleware: every request gets an id, and is counted and logged; every error becomes a JSON answer.

    An answer that comes before the end of the body closes the connection: a client could send the rest for ever.

    Args:
        app: what answers.
        permission: decides who is answered.
        record: counts and logs requests.
        tracing: makes a span for each request.
        stopping: whether the server ends soon; answers then end their connections, so that no request is on its way
            when the server closes them.
    """

    def __init__(
        self,
        app: ASGIApp,
        permission: Permission,
        record: Record,
        tracing: Tracing,
        stopping: Callable[[], bool],
    ) -> None:
        self._app, self._permission, self._record, self._tracing = app, permission, record, tracing
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._tracing.request(scope) as finish:
            status, failure = await self._answer(scope, receive, send)
            finish(status, failure)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> tuple[int, str]:
        """Answer a request; return the status, and the cause of a failure, "" if there is none."""
        began, status = time.perf_counter(), 0
        headers = Headers(scope=scope)
        request_id = _request_id(headers.get("x-request-id", ""))
        body_is_incomplete = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_part() -> Message:
            nonlocal body_is_incomplete
            message = await receive()
            if problem := scope.get("state", {}).get("problem"):
                raise problem
            if message["type"] == "http.request":
                body_is_incomplete = message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(ANSWER_HEADERS | {"x-request-id": request_id})
                if body_is_incomplete or self._stopping():
                    headers["connection"] = "close"
            await send(message)

        failure = ""
        try:
            self._permission.check(scope["path"], headers)
            await self._app(scope, receive_part, send_with_headers)
        except ClientDisconnect:
            status = GONE
        except asyncio.CancelledError:
            failure = "the server ended before the answer was complete"
            self._record.request(scope, status, time.perf_counter() - began, request_id, failure)
            raise
        except Exception as error:  # no request ends the server, and no client sees a traceback
            answer, failure = _answer(error, request_id)
            if not status:
                await answer(scope, receive, send_with_headers)
        self._record.request(scope, status, time.perf_counter() - began, request_id, failure)
        return status, failure


def _request_id(header: str) -> str:
    """Return the id in the header of a client or a proxy if it is harmless, else a new one."""
    return header if _REQUEST_ID.fullmatch(header) else new_request_id()


def _answer(error: Exception, request_id: str) -> tuple[Response, str]:
    """Return the answer to an error, and its cause for the log if it is the server's fault."""
    if isinstance(error, RequestError):
        content = error.content() | {"request_id": request_id}
        return Response(as_json(content), error.status, error.headers, "application/json"), ""
    what = "the model cannot price this request" if isinstance(error, PricekitError) else "the server failed"
    content = {"error": f"{what}; its log has the cause", "request_id": request_id}
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    line = "" if place is None else f" (line {place.tb_lineno} of {place.tb_frame.f_code.co_filename})"
    cause = str(error) if isinstance(error, PricekitError) else f"{type(error).__name__}: {error}{line}"
    return Response(as_json(content), 500, media_type="application/json"), shorten(cause, 1000)


async def refuse(request: Request, error: Exception) -> Response:
    """Turn the errors of the routes, for unknown addresses and methods, into those of this server."""
    assert isinstance(error, HTTPException)
    texts = {404: "there is nothing at this address; /openapi.json describes the others"}
    texts[405] = f"this address does not answer {request.method}"
    raise RequestError(error.status_code, texts.get(error.status_code, error.detail), headers=error.headers)
