"""What surrounds every request: its id, permission, what is kept of it, and answers to errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pricekit.plugin import PricekitError, shorten
from pricekit_serve.access.permission import Permission
from pricekit_serve.access.record import ANSWER_HEADERS, GONE, Record, new_request_id
from pricekit_serve.errors import RequestError
from pricekit_serve.models.answers import as_json
from pricekit_serve.tracing import Tracing

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
