"""Metrics and log lines of requests and connections."""

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
