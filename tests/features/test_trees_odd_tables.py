"""The features that read columns, on tables without anything to read, or with odd cells."""

from dataclasses import replace

import numpy as np
import pytest

from pricekit.features.fit import fit_features
from pricekit.table import table_of_texts

ODD = {
    "empty": [""] * 40,
    "equal": ["tea"] * 40,
    "all distinct": [f"{n * 7919}x{n * 104729}" for n in range(40)],
    "mixed types": [f"a: {['1', 'x', '1,5', '2.5', ''][n % 5]}\nb: {n}" for n in range(40)],
    "long cells": [f"a: {n} {'word ' * 20_000}\nb: {n} kg" for n in range(12)],
    "three conventions": [f"km: {['1.234,5', '1,234.5', '1 234,5'][n % 3]}" for n in range(40)],
    "long numbers": [f"km: {'9' * 400 if n % 2 else n}" for n in range(40)],
    "control characters": ["a\x1bb: 1\r\nc: 2"] * 40,
    "empty labels": ["\n\n:\n: 3\n"] * 40,
    "fewer rows than folds": ["tea 1", "tea 2", "tea 3"],
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_table_has_finite_columns(name):
    table = table_of_texts(ODD[name])
    price = np.linspace(1, 9, len(table))
    features = ["columns", "trees", "neighbours"]
    fitted, out_of_fold = fit_features(features, {"trees": {"rounds": 5}}, replace(table, price=price))
    others = table_of_texts(["new: 5\nb: 7 furlongs", ODD[name][0], ""])
    assert np.isfinite(fitted.transform(others)).all()
    assert all(np.isfinite(column).all() for column in out_of_fold.values())


def test_cells_that_only_new_rows_have_are_priced_like_the_mean():
    table = table_of_texts([f"tea\ncolour: {['red', 'blue'][n % 2]}" for n in range(60)])
    price = np.where(np.arange(60) % 2, 1.0, 9.0)
    fitted, _ = fit_features(["trees"], {"trees": {"rounds": 50}}, replace(table, price=price))
    found = np.exp(
        fitted.transform(table_of_texts(["tea\ncolour: red", "tea\ncolour: pink", "tea\ncolour: blue"]))
    )
    assert found[0] > found[1] >= found[2]
