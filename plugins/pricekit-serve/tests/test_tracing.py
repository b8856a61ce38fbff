"""Spans of requests, if a program configures OpenTelemetry, and none otherwise."""

import sys

import pytest
from pricekit_serve import app
from starlette.testclient import TestClient

from pricekit.plugin.runners import Predictor

trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch):
    """Configure OpenTelemetry; return the spans that have ended, by name."""
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield lambda: {span.name: span for span in exporter.get_finished_spans()}
    provider.shutdown()


def test_a_request_has_a_span_with_its_parts(spans, served, rows):
    with TestClient(app(served, engine="ort-cpu")) as client:
        client.post("/predict", json={"rows": rows(3)}, headers={"traceparent": PARENT})
    found = spans()
    request = found["POST /predict"]
    assert f"{request.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{request.parent.span_id:016x}" == PARENT.split("-")[2]
    expected = {"http.request.method": "POST", "url.path": "/predict", "http.route": "/predict"}
    expected |= {"http.response.status_code": 200, "pricekit.rows": 3, "url.scheme": "http"}
    assert dict(request.attributes) == expected
    queue, price = found["queue"], found["price"]
    assert queue.parent.span_id == price.parent.span_id == request.context.span_id
    assert request.start_time <= queue.start_time <= queue.end_time
    assert queue.end_time == price.start_time <= price.end_time <= request.end_time
    assert dict(price.attributes) == {"pricekit.model": "shop", "pricekit.rows": 3}
    assert not any("Item Name" in str(span.attributes) for span in found.values())


def test_errors_are_marked(spans, served, monkeypatch, rows):
    def fail(self, given):
        raise ZeroDivisionError("odd")

    with TestClient(app(served, engine="ort-cpu")) as client:
        assert client.post("/predict", content=b"{").status_code == 400
        assert spans()["POST /predict"].status.is_unset
        assert client.get("/nothing").status_code == 404
        assert spans()["GET"].attributes["http.response.status_code"] == 404
        monkeypatch.setattr(Predictor, "price", fail)
        assert client.post("/models/shop/predict", json={"rows": rows(1)}).status_code == 500
    failed = spans()["POST /models/{name}/predict"]
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert "ZeroDivisionError: odd" in failed.status.description


@pytest.mark.parametrize("installed", [True, False])
def test_without_a_provider_there_are_no_spans(served, rows, monkeypatch, installed):
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.delenv("OTEL_PYTHON_TRACER_PROVIDER", raising=False)
    if not installed:
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
    calls = []
    monkeypatch.setattr(sdk.Tracer, "start_span", lambda *args, **kwargs: calls.append(args))
    with TestClient(app(served, engine="ort-cpu")) as client:
        assert client.post("/predict", json={"rows": rows(3)}).status_code == 200
    assert not calls
