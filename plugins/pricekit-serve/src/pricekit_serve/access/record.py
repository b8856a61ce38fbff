"""What is kept of requests and connections: numbers in the metrics, and lines in the log."""

from __future__ import annotations

import asyncio
import logging
import secrets
from http import HTTPStatus
from typing import Any

from starlette.types import Scope

from pricekit.plugin import counted, logger, shorten
from pricekit_serve.metrics import Metrics

QUIET = frozenset({"/metrics", "/v2/health/live", "/v2/health/ready"})
"""Addresses that are asked all the time, and logged only as details."""
GONE = 499
"""The status in the log if the connection ended before the request was complete."""
_INCOMPLETE = (408, GONE)
"""Statuses of requests that were never complete. Thousands cost a client nothing, so they share lines of the log."""
_SECONDS = 10
"""Time between two lines of the same kind."""
ANSWER_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def new_request_id() -> str:
    """Return an id for a request that has none."""
    return secrets.token_hex(8)


class Record:
    """Counts and logs requests and connections."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._untold: dict[str, int] = {}

    def request(self, scope: Scope, status: int, seconds: float, request_id: str, failure: str) -> None:
        """Keep a request whose head was complete, and its answer."""
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
        """Keep a request whose head was never complete, and the answer with which its connection ends."""
        self._metrics.answered("other", status, seconds)
        facts = {"request_id": request_id, "status": status, "milliseconds": round(1000 * seconds, 2)}
        self.rarely(_incomplete(status), f"a connection ends with {status}: {message}", facts)

    def opened(self, connections: int) -> None:
        """Show how many connections are open."""
        self._metrics.connections(connections)

    def closed(self, reason: str, message: str) -> None:
        """Keep that the server closed a connection without an answer."""
        self._metrics.closed(reason)
        self.rarely(f"connections closed ({reason})", message, {"reason": reason})

    def rarely(self, kind: str, message: str, facts: dict[str, Any], level: int = logging.INFO) -> None:
        """Log a message, unless one of its kind was logged just now; then count it, and log the number later."""
        if kind in self._untold:
            self._untold[kind] += 1
            return
        self._untold[kind] = 0
        logger.log(level, message, extra={"facts": facts})
        asyncio.get_running_loop().call_later(_SECONDS, self._tell, kind)

    def tell(self) -> None:
        """Log the numbers of all messages that were only counted."""
        for kind in list(self._untold):
            self._tell(kind)

    def _tell(self, kind: str) -> None:
        if not (number := self._untold.pop(kind, 0)):
            return
        self._untold[kind] = 0
        logger.info(f"{kind}: {number:,} more in {_SECONDS} seconds", extra={"facts": {"more": number}})
        asyncio.get_running_loop().call_later(_SECONDS, self._tell, kind)


def _incomplete(status: int) -> str:
    phrase = "the connection ended" if status == GONE else HTTPStatus(status).phrase
    return f"incomplete requests ({status}, {phrase})"
