"""A connection whose heads of requests have limits: of their bytes, and of the time until they are complete."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from pricekit.plugin import logger
from pricekit_serve.models.answers import as_json

HEAD_BYTES = 65_536
"""The most bytes of the lines before a body. More may come at once, up to asyncio's 256 KiB."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which httptools parses without any limit, with limits.

    Args:
        timeout: seconds in which the head of a request must be complete.
        given: arguments of uvicorn.
    """

    def __init__(self, timeout: float, **given: Any) -> None:
        super().__init__(**given)
        self._timeout, self._head_bytes = timeout, 0
        self._begun, self._complete = False, False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request, as long as after an answer."""
        super().connection_made(transport)
        self._expect(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and refuse those that go on without completing a head or a part of a body."""
        self._complete = False
        super().data_received(data)
        self._head_bytes = 0 if self._complete else self._head_bytes + len(data)
        if self._head_bytes <= HEAD_BYTES or self.transport.is_closing():
            return
        if self._answering():  # reading goes on after the answer
            self.flow.pause_reading()
        else:
            self._refuse(431, f"the head of the request has over {HEAD_BYTES:,} bytes")

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        super().on_message_begin()
        self._begun = True
        self._expect(self._timeout)

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        self._begun, self._complete = False, True
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hand over a part of a body."""
        self._complete = True
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request."""
        del msg
        self._refuse(400, "this is no HTTP request")

    def _expect(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _answering(self) -> bool:
        """Return whether an earlier request of this connection has no whole answer yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        self._timer = None
        if self._answering():
            self._expect(self._timeout)
        elif self._begun:
            self._refuse(408, f"the head of the request was not complete within {self._timeout:g} seconds")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and end the connection: what follows cannot be understood."""
        request_id = secrets.token_hex(8)
        logger.info(
            f"a connection ends with {status}: {message}", extra={"facts": {"request_id": request_id}}
        )
        content = as_json({"error": message, "request_id": request_id})
        head = (
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head.encode() + content)
        self.transport.close()
