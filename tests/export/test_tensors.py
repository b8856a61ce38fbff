"""Intermediate tensors of graphs: their ranges, and the first difference between two graphs."""

import numpy as np
import pytest

from pricekit.export import tensors
from pricekit.export.tensors import first_difference, peaks, worst_piece
from pricekit.predict.ort import load_cpu
from tests.export.graphs import chain, rows


def test_the_first_node_that_differs_is_found():
    one = chain(("Mul", "a"), ("Add", "b"), ("Exp", None), a=2.0, b=1.0)
    two = chain(("Mul", "a"), ("Add", "b"), ("Exp", None), a=2.0, b=1.2)
    assert first_difference(one, two, rows([1.0, 2.0]), 1e-3).name == "Add_1"
    assert first_difference(one, one, rows([1.0, 2.0]), 1e-3) is None


def test_only_the_tensors_of_a_few_rows_are_in_memory(monkeypatch):
    graph, held = chain(("Abs", None), ("Mul", "two"), two=2.0), []
    batch = {**rows(*([n, -n] for n in (3.0, 9.0, 1.0, 5.0, 7.0))), "input_ids": np.ones((5, 128), np.int64)}
    real = tensors._open

    def opened(model, kinds):
        run = real(model, kinds)
        return lambda piece: held.append(len(piece["features"])) or run(piece)

    monkeypatch.setattr(tensors, "_open", opened)
    assert peaks(graph, [batch])[0]["price"] == 18
    assert held == [2, 2, 1]


@pytest.mark.parametrize(("row", "price"), [(0, 2.0), (3, np.nan), (4, np.inf), (4, 0.5)])
def test_the_worst_piece_is_where_prices_are_furthest_apart(row, price):
    batch = {"input_ids": np.ones((5, 128), np.int64), "features": np.arange(5)[:, None]}
    found = np.full(5, 1.1)
    found[row] = price
    assert row in worst_piece(batch, np.ones(5), found)["features"]
    assert len(worst_piece(batch, np.ones(5), found[:, None])["features"]) == 2


def test_peaks_are_the_largest_of_all_batches():
    graph = chain(("Mul", "a"), ("Log", None), a=-3.0)
    found, _ = peaks(graph, [rows([1.0, -2.0]), rows([4.0, 5.0])])
    assert found["features"] == 5.0
    assert found["t0"] == 15.0
    assert found["t1"] == np.inf  # the logarithm of a negative number


def test_the_run_that_measures_peaks_also_prices_the_rows():
    graph = chain(("Mul", "a"), ("Exp", None), a=0.5)
    batches = [rows([1.0, 2.0], [3.0, 0.0]), rows([4.0, 5.0])]
    _, price = peaks(graph, batches)
    assert [price(batch).tolist() for batch in batches] == [
        load_cpu(graph)(batch).tolist() for batch in batches
    ]
