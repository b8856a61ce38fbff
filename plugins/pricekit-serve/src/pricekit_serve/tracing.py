"""Spans of OpenTelemetry, if its API is installed and a program has configured a provider of tracers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

Finish = Callable[[int, str], None]
"""Receives the HTTP status of an answer, and the cause of a failure, "" if there is none."""


class Tracing:
    """Makes a span for each request, if tracing is configured when the server is made; otherwise it does nothing."""

    def __init__(self) -> None:
        self._tracer: Any = None
        try:
            from opentelemetry import trace
        except ImportError:
            return
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._tracer = trace.get_tracer("pricekit_serve")

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Finish]:
        """Make the span of a request, as part of the trace that its headers name.

        Names and attributes are those of OpenTelemetry's semantic conventions for HTTP servers.
        """
        if self._tracer is None:
            yield lambda status, failure: None
            return
        from opentelemetry import propagate, trace

        given = {"http.request.method": scope["method"], "url.path": scope["path"], "url.scheme": "http"}
        parent = propagate.extract(dict(Headers(scope=scope)))
        kind = trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(scope["method"], parent, kind=kind, attributes=given) as span:

            def finish(status: int, failure: str) -> None:
                span.set_attributes({"http.response.status_code": status, **_details(scope)})
                if route := getattr(scope.get("route"), "path", ""):
                    span.update_name(f"{scope['method']} {route}")
                if failure or status >= 500:
                    span.set_status(trace.StatusCode.ERROR, failure)

            yield finish


def _details(scope: Scope) -> Mapping[str, str | int]:
    """Return the address and the number of rows of a request, as far as they are known."""
    rows, route = scope.get("state", {}).get("rows"), getattr(scope.get("route"), "path", None)
    found = {"http.route": route, "pricekit.rows": rows}
    return {name: value for name, value in found.items() if value is not None}


def record(name: str, began: int, ended: int, attributes: Mapping[str, str | int]) -> None:
    """Add a part to the span of this request, if it has one; times are nanoseconds since 1970."""
    trace = sys.modules.get(
        "opentelemetry.trace"
    )  # only if `Tracing` has found it; a failing import takes long
    if trace is not None and trace.get_current_span().is_recording():
        tracer = trace.get_tracer("pricekit_serve")
        tracer.start_span(name, start_time=began, attributes=dict(attributes)).end(ended)
