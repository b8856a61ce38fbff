"""Predictors whose prices are formulas of their features and texts."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from pricekit.answers.importance import JudgedRows, baseline_of
from pricekit.features.preprocess import Inputs
from pricekit.metrics import SMAPE
from pricekit.predict.predictor import Predictor
from pricekit.table import Columns, read_usable
from pricekit.text.tokens import Tokens

COLUMNS = Columns(("text",), "price", None)


def member(names, features, prices, weight=1.0, columns=COLUMNS):
    """A member with the features that `features(table)` returns, (N, K); `prices(features, tokens)` are its prices.

    The tokens of a text are a single one: its length.
    """

    def prepare(table):
        tokens = Tokens(table.text.str.len().to_numpy(np.int32), np.arange(len(table) + 1))
        return Inputs(tokens, np.asarray(features(table), np.float32).reshape(len(table), len(names)), 0)

    prepare.features = SimpleNamespace(names=names, wholes={name: name for name in names})
    prepare.columns = columns
    return SimpleNamespace(
        preprocessor=prepare, prices=lambda inputs: prices(inputs.features, inputs.tokens.ids), weight=weight
    )


def share(frame, *members, columns=COLUMNS):
    """The rows of a frame, priced by members."""
    rows, _ = read_usable(frame, columns, notices=lambda _: None)
    return JudgedRows(Predictor(members), rows, columns)


def measured(*shares, metric=SMAPE, repeats=3):
    """The errors of shares before a permutation."""
    return baseline_of(shares, metric, repeats)


def table(count=60, seed=0):
    """Rows of which a line states the logarithm of the price; other lines state nothing."""
    rng = np.random.default_rng(seed)
    size = rng.normal(2, 1, count)
    texts = [f"Item Name: Tea {n}\nSize: {each:.6f}\nplain" for n, each in enumerate(size)]
    return pd.DataFrame({"text": texts, "price": np.exp(size)})


def sizes(rows):
    """The number that the line Size states, and the length of the text."""
    found = rows.text.str.extract(r"Size: (\S+)", expand=False).fillna("1").astype(float)
    return np.stack([found, rows.text.str.len()], axis=1)
