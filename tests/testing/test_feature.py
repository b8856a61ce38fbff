"""The checks of a feature: built-in features pass, and each check detects a faulty one."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pricekit.features import catalog
from pricekit.features.neighbours import Neighbours
from pricekit.plugin import Columns, read_frame
from pricekit.testing import CheckFailed, check_feature
from tests.features import mistakes
from tests.features.mistakes import WRONG_IN_CHECKS


class Right:
    """The length of a text, and its length relative to the mean of the training texts."""

    names = ("length", "relative")

    def fit(self, table):
        return {"mean": float(table.text.str.len().mean())}

    def transform(self, table, state):
        length = table.text.str.len().to_numpy(np.float64)
        return np.column_stack([length, length / state["mean"]]).astype(np.float32)


class UsesPrice(Right):
    """For a text with a digit, the mean price of such training rows; for others 0."""

    names = ("price_of_kind",)
    uses_price = True

    def fit(self, table, price):
        assert price.dtype == np.float64
        assert table.price is None
        digit = table.text.str.contains(r"\d").to_numpy(bool)
        return {"mean": float(price[digit].mean())}

    def transform(self, table, state):
        digit = table.text.str.contains(r"\d").to_numpy(bool)
        return np.where(digit, state["mean"], 0.0).astype(np.float32)[:, None]


class Continues(UsesPrice):
    """A feature whose mean moves towards that of more rows."""

    def update(self, table, price, state):
        return {"mean": (state["mean"] + float(price.mean())) / 2}

    @classmethod
    def changed(cls, update):
        return type("Changed", (cls,), {"update": update})


class Blind(Right):
    """Raises if the table contains a price."""

    def fit(self, table):
        assert table.price is None
        return super().fit(table)


class Weight:
    """A column of the file; values that are not numbers become 0."""

    names = ("weight",)
    columns = ("weight",)

    def fit(self, table):
        return {}

    def transform(self, table, state):
        cells = table.frame["weight"].tolist()
        return np.array([[float(c) if c.isdecimal() else 0.0] for c in cells], np.float32).reshape(-1, 1)


class Numeric(Weight):
    """A column of numbers, as from a Parquet file."""

    def transform(self, table, state):
        cells = table.frame["weight"].fillna(0)
        return np.log1p(cells.to_numpy(np.float32))[:, None]


def changed(**parts):
    return type("Wrong", (Right,), parts)


def plus(block, extra):
    return (block + np.asarray(extra)).astype(np.float32)


def transforming(change):
    """Right, with its columns changed by a function of (columns, table, state)."""
    return changed(transform=lambda self, t, s: change(Right.transform(self, t, s), t, s))


class KeepsOutside(Right):
    def fit(self, table):
        self.mean = float(table.text.str.len().mean())
        return {}

    def transform(self, table, state):
        return super().transform(table, {"mean": getattr(self, "mean", 1.0)})


class WritesIntoTable(Right):
    def fit(self, table):
        table.frame["length"] = table.text.str.len()
        return super().fit(table)


class ImportsInside(Right):
    def transform(self, table, state):
        from torch.nn import functional

        assert functional
        return super().transform(table, state)


def from_a_file():
    """Load a plugin file as `--plugin` does."""
    path = Path(__file__).with_name("imports_torch.py")
    spec = spec_from_file_location("pricekit_file_imports_torch", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Length()


def inverse_of_shortest(self, table):
    return {"mean": 1 / int(table.text.str.len().min())}


WEIGHTS = read_frame(
    pd.DataFrame({"catalog_content": ["tea", "rice", "", "oil"], "weight": ["12", "", "1e9", "½ kg"]}),
    Columns(price=None),
)

WRONG: dict[str, list] = {
    "has transform": [
        changed(transform=None),
        changed(__init__=lambda s: sys.exit(3)),
        changed(__init__=lambda s, options: None),
        changed(Options=dict),
    ],
    "names its columns": [
        changed(names=["a", "b"]),
        changed(names=("a", "a")),
        changed(names=()),
    ],
    "state is JSON": [
        changed(fit=lambda s, t: {"mean": np.ones(2)}),
        changed(fit=lambda s, t: {"mean": float("nan")}),
        changed(fit=lambda s, t: None),
    ],
    "state survives JSON": [
        changed(
            fit=lambda s, t: {1: 2.0},
            transform=lambda s, t, state: np.full((len(t), 2), state.get(1, 0), np.float32),
        ),
    ],
    "state holds everything that fit learned": [KeepsOutside],
    "finite float32 for ordinary texts": [
        transforming(lambda x, t, s: x.astype(np.float64)),
        transforming(lambda x, t, s: x[:, :1]),
        transforming(lambda x, t, s: x.tolist()),
    ],
    "finite float32 for unseen texts": [
        transforming(lambda x, t, s: np.where(x == 0, np.nan, x)),
    ],
    "finite float32 when fitted on difficult texts": [changed(fit=inverse_of_shortest)],
    "accepts a table without rows": [transforming(lambda x, t, s: plus(x, len(t.text.iloc[0])))],
    "a row alone equals the row in a batch": [
        transforming(lambda x, t, s: plus(x, -x.mean(0))),
    ],
    "independent of the row order": [
        transforming(lambda x, t, s: plus(x, np.arange(len(t))[:, None])),
    ],
    "deterministic": [
        transforming(lambda x, t, s: plus(x, np.random.default_rng().random())),
        changed(fit=lambda s, t: {"mean": np.random.default_rng().random()}),
        transforming(lambda x, t, s: plus(x, s.update(n=s.get("n", 0) + 1) or s["n"])),
    ],
    "does not modify the table": [WritesIntoTable],
    "fit does not see the price": [
        changed(fit=lambda s, t: {"mean": 1.0 if t.price is None else float(t.price[0])}),
        changed(fit=lambda s, t: {"mean": float(t.frame.get("price", [1])[0])}),
    ],
    "transform does not see the price": [
        transforming(lambda x, t, s: x if t.price is None else plus(x, t.price[:, None])),
    ],
    "update learns from more rows": [
        Continues.changed(lambda s, t, p, state: state.update(mean=1.0) or state),
        Continues.changed(lambda s, t, p, state: {}),
        type("Unpriced", (Right,), {"update": lambda s, t, p, state: state}),
    ],
    "module imports no torch": [from_a_file],
    "runs without torch": [ImportsInside],
}
for kind, check in WRONG_IN_CHECKS.items():
    WRONG.setdefault(check, []).append(kind)


def named(make, name):
    return next(check for check in check_feature(make) if check.name == name)


def each(**features):
    """All checks of all features; each module is imported only once, because that takes a second."""
    imported = {
        "balanced20",
        "optimized22",
        "ultra25",
        "blind",
        "uses_price",
        "continues",
        "weight",
        "of_a_table",
        "numeric",
        "right_beside_mistakes",
        "column_if_there",
    }
    return [
        pytest.param(check, id=f"{name}: {check}")
        for name, found in features.items()
        for check in (found if isinstance(found, list) else check_feature(found))
        if not (
            name in imported
            and ("imports no torch" in check.name or check.name == "the same in a new process")
        )
    ]


@pytest.mark.parametrize(
    "check",
    each(
        fast15=catalog.Fast15,
        balanced20=catalog.Balanced20,
        optimized22=catalog.Optimized22,
        ultra25=catalog.Ultra25,
        neighbours=lambda: Neighbours(Neighbours.Options(k=2)),
        right=Right,
        blind=Blind,
        uses_price=UsesPrice,
        continues=Continues,
        weight=Weight,
        of_a_table=check_feature(Weight, WEIGHTS),
        numeric=Numeric,
        right_beside_mistakes=mistakes.Right,
    ),
)
def test_a_correct_feature_passes(check):
    check()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        pytest.param(name, make, id=f"{name}-{make.__name__}{number if make.__name__ == 'Wrong' else ''}")
        for name, makes in WRONG.items()
        for number, make in enumerate(makes)
    ],
)
def test_a_faulty_feature_fails_its_check(name, make, raises):
    with raises(CheckFailed):
        named(make, name)()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_feature(Right)}


def test_a_missing_column_is_named(raises):
    table = read_frame(pd.DataFrame({"catalog_content": ["tea"], "grams": ["1"]}), Columns(price=None))
    with raises(CheckFailed):
        next(check for check in check_feature(Weight, table) if check.name == "deterministic")()


def test_torch_can_be_imported_after_the_block():
    import torch.nn

    finders = list(sys.meta_path)
    for feature in (Right, ImportsInside):
        check = named(feature, "runs without torch")
        if feature is Right:
            check()
        else:
            with pytest.raises(CheckFailed):
                check()
        assert sys.modules["torch"] is torch
        assert sys.modules["torch.nn"] is torch.nn
        assert sys.meta_path == finders
