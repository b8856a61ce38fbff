"""Verification of a graph against its model."""

import numpy as np
import onnx
import pytest
import torch

from pricekit.errors import ExportError
from pricekit.export import verify
from pricekit.export.export import export_run
from pricekit.export.priced_once import PricedOnce
from pricekit.export.verify import Sample, verify_embeddings, verify_graph
from pricekit.nets.inference import torch_embedding, torch_engine
from pricekit.predict.ort import load_cpu
from pricekit.runs.opened import open_run, read_sample


def test_a_graph_that_differs_is_caught(run, bundle, raises):
    """Alter one weight of the model: the verification must fail against the old graph."""
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    checks = verify_graph(
        torch_engine(opened.model), (bundle / "model.onnx").read_bytes(), Sample(inputs, 64)
    ).checks
    assert max(c.difference for c in checks) < 1e-4
    assert {(c.rows, c.length) for c in checks} >= {(1, 1), (64, 17), (32, 64), (2, 17)}
    with torch.no_grad():
        opened.model.heads[0][-1].bias += 0.01
    with raises(ExportError, precision="fp32"):
        verify_graph(torch_engine(opened.model), (bundle / "model.onnx").read_bytes(), Sample(inputs, 64))


def test_a_graph_that_fails_at_a_shape_is_named_with_its_node(run, bundle, raises):
    opened = open_run(run)
    model = onnx.load(bundle / "model.onnx")
    model.graph.node[-1].output[0] = "of_any_batch"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "two"))
    model.graph.node.append(
        onnx.helper.make_node("Reshape", ["of_any_batch", "two"], ["price"], "of_two_rows")
    )
    inputs = opened.preprocessor(read_sample(opened))
    with raises(ExportError, precision="fp32"):
        verify_graph(torch_engine(opened.model), model.SerializeToString(), Sample(inputs, 64))


def test_a_model_that_returns_no_price_fails(run, bundle, raises):
    """At one shape only, and not the first: no comparison with NaN is true."""
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    true = torch_engine(opened.model)

    def price(batch):
        found = true(batch)
        return found * np.nan if batch["input_ids"].shape == (7, 17) else found

    with raises(ExportError, precision="fp32"):
        verify_graph(price, (bundle / "model.onnx").read_bytes(), Sample(inputs, 64))


def test_a_single_sample_row_is_enough(run, bundle):
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened).take(np.array([0])))
    assert verify_graph(
        torch_engine(opened.model), (bundle / "model.onnx").read_bytes(), Sample(inputs, 64)
    ).checks


def test_a_change_of_smape_over_the_limit_is_refused(run, tmp_path, monkeypatch, raises):
    limits = {**verify.LIMITS, "fp16": verify.Limits(2e-2, 1e-9, 2e-2)}
    monkeypatch.setattr(verify, "LIMITS", limits)
    with raises(ExportError, "precision", precision="fp16"):
        export_run(run, tmp_path / "b", precision="fp16")
    assert list(tmp_path.iterdir()) == []


def test_a_price_that_depends_on_other_rows_is_rejected(run, bundle, monkeypatch, raises):
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    graph = (bundle / "model.onnx").read_bytes()
    honest = load_cpu(graph)
    # Few rows are compared with torch: let those pass and alter the large batches alone.
    monkeypatch.setattr(verify, "BATCH_SIZES", (1, 2))
    monkeypatch.setitem(verify.LIMITS, "fp32", verify.Limits(1e-2, 1e-4, 1e-5))
    monkeypatch.setattr(
        verify,
        "load_cpu",
        lambda graph, threads: lambda batch: honest(batch) * (1 + 1e-3 * (len(batch["features"]) > 32)),
    )
    with raises(ExportError, precision="fp32"):
        verify_graph(torch_engine(opened.model), graph, Sample(inputs, 64))


def test_every_sample_row_has_the_price_of_the_model(run, bundle, monkeypatch, raises):
    opened = open_run(run)
    sample = read_sample(opened)
    inputs = opened.preprocessor(sample)
    honest = load_cpu((bundle / "model.onnx").read_bytes())
    last = inputs.features[-1]

    def careless(batch):
        """A different price for the only row that is in no shape."""
        return honest(batch) * np.where((batch["features"] == last).all(1), 1.03, 1)

    monkeypatch.setattr(verify, "BATCH_SIZES", (1, 7))
    monkeypatch.setattr(verify, "SINGLE_ROWS", 7)
    monkeypatch.setattr(verify, "load_cpu", lambda graph, threads: careless)
    with raises(ExportError, "precision", precision="fp16"):
        verify_graph(torch_engine(opened.model), b"", Sample(inputs, 64, sample.price), "fp16")


@pytest.mark.parametrize(("precision", "factor"), [("fp32", 1.0005), ("fp16", 1.1), ("int8", 1.5)])
def test_embeddings_that_differ_are_caught(run, tmp_path, precision, factor, raises):
    export_run(run, tmp_path / "b", embeddings=True)
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    batches = [batch for _, batch in verify.sample_batches(inputs)]
    graph = (tmp_path / "b" / "model.onnx").read_bytes()
    vectors = [*map(torch_embedding(opened.model), batches)]
    assert verify_embeddings(vectors, graph, batches, precision) < 1e-5
    vectors[-1] = vectors[-1] * factor
    with raises(ExportError, *(() if precision == "fp32" else ("precision",)), precision=precision):
        verify_embeddings(vectors, graph, batches, precision)
    vectors[-1] = vectors[-1] * np.nan
    with pytest.raises(ExportError):
        verify_embeddings(vectors, graph, batches, precision)


def test_a_batch_of_long_rows_has_fewer_of_them(run):
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    found = {batch["input_ids"].shape for batch in verify.shapes(inputs, 512)}
    assert {(64, 1), (64, 17), (16, 128), (8, 512), (7, 512)} <= found
    assert max(rows * length for rows, length in found) == 8 * 512


@pytest.mark.parametrize("constant", ["rows", "length"])
@pytest.mark.parametrize("size", [2, 7, 10, 64])
def test_a_graph_for_one_number_of_rows_or_tokens_is_refused(run, bundle, constant, size, raises):
    """Of every size: with fewer long rows, each number of rows and each length still occurs in other batches."""
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    honest = load_cpu((bundle / "model.onnx").read_bytes())
    axis = ("rows", "length").index(constant)

    def of_one_size(batch):
        return honest(batch) * (1 if batch["input_ids"].shape[axis] == size else 1.1)

    with raises(ExportError, precision="fp32"):
        verify_graph(
            torch_engine(opened.model), b"", Sample(inputs, 64), engine=PricedOnce(lambda: of_one_size)
        )


def test_only_a_batch_of_many_rows_that_differs_is_refused(run, bundle, raises):
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    honest = load_cpu((bundle / "model.onnx").read_bytes())

    def careless(batch):
        return honest(batch) * (1 + 1e-3 * (len(batch["features"]) == 64))

    with raises(ExportError, precision="fp32"):
        verify_graph(
            torch_engine(opened.model), b"", Sample(inputs, 512), engine=PricedOnce(lambda: careless)
        )


@pytest.mark.parametrize("share", [1.5e-5, 9e-5])
def test_smape_in_float32_may_change_by_rounding_and_not_by_a_shift_of_all_prices(run, bundle, share, raises):
    """Even if all differences have one sign, as on a single row; each price is within its own limit."""
    opened = open_run(run)
    inputs = opened.preprocessor(read_sample(opened))
    engine = load_cpu((bundle / "model.onnx").read_bytes())
    price = np.concatenate([engine(inputs.batch(np.array([row]))) for row in range(len(inputs))]) * 1.5
    shifted = PricedOnce(lambda: lambda batch: engine(batch) * (1 + share))
    if share < 2e-5:
        assert (
            1e-3
            < verify_graph(
                torch_engine(opened.model), b"", Sample(inputs, 64, price), engine=shifted
            ).smape_change
            < 2e-3
        )
    else:
        with raises(ExportError, precision="fp32"):
            verify_graph(torch_engine(opened.model), b"", Sample(inputs, 64, price), engine=shifted)
