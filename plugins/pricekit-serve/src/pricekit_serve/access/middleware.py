"""What surrounds every request: its id, the token, the log, the metrics, and answers to errors."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pricekit.plugin import PricekitError, counted, logger, shorten
from pricekit_serve.access.token import allows
from pricekit_serve.errors import RequestError
from pricekit_serve.metrics import Metrics
from pricekit_serve.models.answers import as_json
from pricekit_serve.tracing import Tracing

OPEN = frozenset({"/", "/v2/health/live", "/v2/health/ready"})
"""Addresses that need no token: the page, which has no data, and what schedulers ask."""
QUIET = frozenset({"/metrics", "/v2/health/live", "/v2/health/ready"})
"""Addresses that are asked all the time, and logged only as details."""
GONE = 499
"""The status in the log if the client went away before the answer."""
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Access:
    """Middleware: every request gets an id and exactly one line in the log; every error becomes a JSON answer.

    Args:
        app: what answers.
        token: that clients must send; None: all may ask.
        metrics: of the server.
        tracing: makes a span for each request.
        stopping: whether the server ends soon; answers then end their connections, so that no request is on its way
            when the server closes them.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        metrics: Metrics,
        tracing: Tracing,
        stopping: Callable[[], bool],
    ) -> None:
        self._app, self._token, self._metrics, self._tracing = app, token, metrics, tracing
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
        request_id = _request_id(Headers(scope=scope).get("x-request-id", ""))

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS | {"x-request-id": request_id})
                if self._stopping():
                    headers["connection"] = "close"
            await send(message)

        failure = ""
        try:
            if self._token and scope["path"] not in OPEN:
                _check(self._token, Headers(scope=scope).get("authorization", ""))
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = GONE
        except asyncio.CancelledError:
            failure = "the server ended before the answer was complete"
            self._record(scope, status, time.perf_counter() - began, request_id, failure)
            raise
        except Exception as error:  # no request ends the server, and no client sees a traceback
            answer, failure = _answer(error, request_id)
            if not status:
                await answer(scope, receive, send_with_headers)
        self._record(scope, status, time.perf_counter() - began, request_id, failure)
        return status, failure

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str, failure: str) -> None:
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
        logger.log(level, f"{message}{': ' * bool(failure)}{failure}", extra={"facts": facts})


def _request_id(given: str) -> str:
    """Return the id that a client or a proxy gave, if it is harmless, or a new one."""
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _check(token: str, header: str) -> None:
    if not allows(token, header):
        raise RequestError(
            401,
            "this server needs a token: send the header Authorization: Bearer TOKEN",
            headers={"www-authenticate": "Bearer"},
        )


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
