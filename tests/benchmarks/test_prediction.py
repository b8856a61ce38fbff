"""The prediction benchmark, with a tiny run."""

import json

import numpy as np
import pandas as pd
import prediction_speed
import pytest
from speed import prediction as bench
from speed.prediction import measure

from pricekit.errors import BundleError, ConfigError, ExportError


@pytest.mark.examples
def test_every_engine_and_peer_prices_all_rows(run, catalog, monkeypatch):
    written = {}
    monkeypatch.setattr(bench, "interleaved", _noting(bench.interleaved, written))
    found = measure(run, catalog, 40, ["fp32", "int8"], ["loop"], 1)
    names = {line.name for line in found.files}
    assert {"ort-cpu, fp32", "ort-cpu, int8", "plain ONNX Runtime loop, fp32"} <= names
    assert any(name.startswith("auto (") and name.endswith("), fp32") for name in names)
    assert {line.name for line in found.model} >= {"ort-cpu, fp32", "torch eager, fp32"}
    for line in (*found.model, *found.files):
        assert line.rows_per_second > 0
        assert line.times > 0
    assert found.files[0].times == 1.0
    assert found.facts["rows"] == 40
    assert {line.share for line in found.model} == {0.0}  # `bag` has no linear layers
    reference = written["ort-cpu, fp32"]
    assert len(reference) == 40
    for name, prices in written.items():
        assert prices == pytest.approx(reference, rel=0.05 if "int8" in name else 1e-4), name


def _noting(interleaved, written):
    """Also keep the files that each contender writes."""

    def noted(contenders, repeats, **more):
        for name, run in contenders.items():
            cells = [cell.cell_contents for cell in run.__closure__ or ()]
            for out in (
                cell for cell in cells if getattr(cell, "suffix", "") == ".csv" and cell.stem == "out"
            ):
                run()
                written[name] = pd.read_csv(out)["price"].to_numpy(np.float64)
        return interleaved(contenders, repeats, **more)

    return noted


def test_the_script_prints_tables_or_json(capsys, run, catalog, monkeypatch):
    asked = []

    def measured(*arguments):
        asked.append(arguments)
        lines = [
            bench.Line("ort-cpu, fp32", 1234.5, 0.5, 1.0),
            bench.Line("openvino, fp32", 1000.0, 0.4, 1.2),
        ]
        return bench.Measured(lines, lines, {"rows": 20.0, "machine": "2 CPU threads"})

    monkeypatch.setattr(bench, "measure", measured)
    arguments = [str(run), str(catalog), "--rows", "20", "--repeats", "1", "--precision", "fp32"]
    prediction_speed.main(arguments)
    out = capsys.readouterr().out
    assert "file to file" in out
    assert "1,234.5" in out
    prediction_speed.main([*arguments, "--json", "--peer", "loop"])
    assert json.loads(capsys.readouterr().out)["facts"]["rows"] == 20
    assert asked == [(run, catalog, 20, ["fp32"], [], 1), (run, catalog, 20, ["fp32"], ["loop"], 1)]


def test_a_pipeline_does_not_support_every_backbone(run, catalog, raises):
    with raises(ConfigError):
        measure(run, catalog, 20, ["fp32"], ["pipeline"], 1)


def test_a_precision_that_fails_is_logged_and_left_out(run, catalog, monkeypatch, caplog, raises):
    def export(path, out, *, precision):
        raise ExportError("it overflows")

    monkeypatch.setattr(bench, "export_run", export)
    with raises(ExportError):
        measure(run, catalog, 20, ["fp16"], [], 1)
    assert "fp16 is left out: it overflows" in caplog.text


@pytest.mark.examples
def test_an_engine_that_cannot_load_the_graph_is_logged_and_left_out(run, catalog, monkeypatch, caplog):
    load = bench.Predictor.load

    def careful(path, engine):
        if engine == "ort-cpu":
            raise BundleError("the graph has an operation that is unknown here")
        return load(path, engine)

    monkeypatch.setattr(bench.Predictor, "load", careful)
    assert measure(run, catalog, 1, ["fp32"], ["loop"], 1).files  # one row is enough
    assert "ort-cpu, fp32, is left out: the graph has an operation that is unknown" in caplog.text
