"""What was measured is cached until the machine or a library changes."""

from pricekit.engines import record, timing
from pricekit.engines.choose import open_engine

VOCABULARY = 500


def test_another_version_of_a_library_is_measured_again(graph, monkeypatch):
    measured, speeds = [], timing.speeds
    monkeypatch.setattr(timing, "speeds", lambda *given: measured.append(1) or speeds(*given))
    for _ in range(2):
        open_engine("auto", graph, VOCABULARY)
    before, version = len(measured), record.metadata.version
    record._library_versions.cache_clear()
    monkeypatch.setattr(
        record.metadata, "version", lambda name: "99.0" if name == "onnxruntime" else version(name)
    )
    open_engine("auto", graph, VOCABULARY)
    record._library_versions.cache_clear()
    assert 0 < before < len(measured)


def test_a_cache_that_cannot_be_written_is_a_warning(graph, logged):
    graph.cache.parent.mkdir(exist_ok=True)
    graph.cache.write_text("a file")
    assert open_engine("auto", graph, VOCABULARY).name == "ort-cpu"
    assert "cannot be cached" in logged()
