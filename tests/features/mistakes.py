"""Features with deliberate mistakes, and right ones beside them; a plugin file, and a module of the tests.

All are variants of `Length`: the length of a text divided by the mean length of the training texts.
"""

import random
import re
import time

import numpy as np
import pandas as pd

from pricekit import plugin

LARGE = 1_000
"""More rows than this are a large call."""

WRONG_IN_CHECKS = {}
"""The check that finds each mistake, by class."""


def feature(check=None):
    """Register a class under its name, as a mistake that a check finds if one is named."""

    def register(kind):
        if check is not None:
            WRONG_IN_CHECKS[kind] = check
        return plugin.feature(re.sub("(?<!^)([A-Z])", r"-\1", kind.__name__).lower())(kind)

    return register


def column(values):
    return np.asarray(values, np.float64).astype(np.float32).reshape(-1, 1)


def numbers(table, name="weight"):
    return pd.to_numeric(table.frame[name], errors="coerce").fillna(0).to_numpy(np.float64)


def lengths(table):
    return table.text.str.len().to_numpy(np.float64)


class Length(plugin.Feature):
    names = ("length",)

    def fit(self, table):
        return {"mean": max(1.0, float(lengths(table).mean()))}

    def transform(self, table, state):
        return column(lengths(table) / state["mean"])


@feature()
class Right(Length):
    """A right one, with a column."""

    columns = ("weight",)

    def transform(self, table, state):
        return column(lengths(table) / state["mean"] + numbers(table))


learned = {}


@feature("the same in a new process")
class GlobalState(Length):
    def fit(self, table):
        learned.update(super().fit(table))
        return {}

    def transform(self, table, state):
        return super().transform(table, {"mean": 1.0} | learned)


@feature("the same in a new process")
class Hashes(Length):
    def transform(self, table, state):
        return column([1 + hash(text) % 1000 / 997.1 for text in table.text])


@feature("the same in a new process")
class OrderOfASet(Length):
    def fit(self, table):
        return {"words": list(set(" ".join(table.text).split()))[:5]}

    def transform(self, table, state):
        return column(
            [sum(n for n, word in enumerate(state["words"]) if word in text) for text in table.text]
        )


@feature("the same in large calls")
class SortsLarge(Length):
    def transform(self, table, state):
        values = super().transform(table, state)
        return np.sort(values, axis=0) if len(table) > LARGE else values


@feature("the same in large calls")
class ReversesLarge(Length):
    def transform(self, table, state):
        values = super().transform(table, state)
        return np.ascontiguousarray(values[::-1]) if len(table) > LARGE else values


@feature("the same in large calls")
class CapsLarge(Length):
    """Wrong for the largest values of a large call alone."""

    def transform(self, table, state):
        values = super().transform(table, state)
        return values.clip(max=np.sort(values[:, 0])[-9]) if len(table) > LARGE else values


@feature("the same in large calls")
class CachesByPosition(Length):
    def __init__(self):
        self.cached = None

    def transform(self, table, state):
        if len(table) <= LARGE:
            return super().transform(table, state)
        if self.cached is None or len(self.cached) < len(table):
            self.cached = super().transform(table, state)
        return self.cached[: len(table)].copy()


@feature()
class KeepsTheTable(Length):
    """Right, because one thread at a time computes."""

    def transform(self, table, state):
        self.texts = table.text.tolist()
        return column([len(self.texts[row]) / state["mean"] for row in range(len(table))])


@feature("state survives JSON")
class RefusesItsState(Length):
    def check_state(self, state):
        raise ValueError(f"unknown values: {', '.join(state)}")


@feature()
class ReusesItsMemory(Length):
    """Right, because the columns are copied."""

    memory = np.zeros((1 << 14, 1), np.float32)

    def transform(self, table, state):
        out = self.memory[: len(table)]
        out[:] = super().transform(table, state)
        return out


@feature("the same in large calls")
class ChangesTextsOfLarge(Length):
    def transform(self, table, state):
        values = super().transform(table, state)
        if len(table) > LARGE:
            table.text[:] = "cheap"
        return values


@feature("the same in large calls")
class ChangesTheFrameOfLarge(Right):
    def transform(self, table, state):
        values = super().transform(table, state)
        if len(table) > LARGE:
            table.frame["weight"] = "0"
        return values


@feature("does not modify the table")
class ChangesIds(Length):
    def transform(self, table, state):
        table.ids[:] = 7
        return super().transform(table, state)


@feature("a row alone equals the row in a batch")
class MeanOfTheCall(Length):
    def transform(self, table, state):
        return column(lengths(table) / max(1.0, lengths(table).mean()) if len(table) else [])


@feature("a row alone equals the row in a batch")
class Ranks(Length):
    def transform(self, table, state):
        return column(table.text.str.len().rank())


@feature("a row alone equals the row in a batch")
class Positions(Length):
    def transform(self, table, state):
        return column(np.arange(len(table)))


@feature("a row alone equals the row in a batch")
class Ids(Length):
    def transform(self, table, state):
        return column(table.ids)


@feature("a row alone equals the row in a batch")
class RowNumbers(Length):
    def transform(self, table, state):
        return column(table.row_numbers)


@feature("a row alone equals the row in a batch")
class Previous(Length):
    """The length of the text before."""

    def transform(self, table, state):
        return column(table.text.str.len().shift(1).fillna(0))


@feature("a row alone equals the row in a batch")
class Counts(Length):
    """How often a text occurs in the call."""

    def transform(self, table, state):
        return column(table.text.str[:1].map(table.text.str[:1].value_counts()))


@feature("deterministic")
class Random(Length):
    def transform(self, table, state):
        return column([random.random() for _ in table.text])


@feature("deterministic")
class Clock(Length):
    def transform(self, table, state):
        return super().transform(table, state) + np.float32(time.perf_counter() % 1)


@feature("deterministic")
class ChangesItsState(Length):
    def transform(self, table, state):
        state["mean"] += 1
        return super().transform(table, state)


@feature("deterministic")
class RandomFit(Length):
    def fit(self, table):
        return {"mean": 1 + random.random()}


@feature("state holds everything that fit learned")
class KeepsInSelf(Length):
    mean = 1.0

    def fit(self, table):
        self.mean = super().fit(table)["mean"]
        return {}

    def transform(self, table, state):
        return super().transform(table, {"mean": self.mean})


@feature("finite float32 for unseen texts")
class NotFinite(Length):
    def transform(self, table, state):
        values = super().transform(table, state)
        values[table.text.str.contains("NaN").to_numpy(bool)] = np.nan
        return values


@feature("finite float32 for unseen texts")
class Overflows(Length):
    def transform(self, table, state):
        with np.errstate(over="ignore"):
            return column(np.exp(lengths(table) / 50))


@feature("finite float32 for unseen texts")
class Raises(Length):
    def transform(self, table, state):
        return column([len(text) / text.index("@") if "NaN" in text else len(text) for text in table.text])


@feature("accepts a table without rows")
class NeedsARow(Length):
    def transform(self, table, state):
        return column([len(table.text[0]) if n == 0 else len(text) for n, text in enumerate(table.text)]) + (
            0 * len(table.text[0])
        )


@feature("finite float32 for ordinary texts")
class Undeclared(Length):
    def transform(self, table, state):
        return column(numbers(table))


@feature("finite float32 for ordinary texts")
class UndeclaredAttribute(Length):
    def transform(self, table, state):
        return column(pd.to_numeric(table.frame.weight, errors="coerce").fillna(0))


@feature("finite float32 for ordinary texts")
class TwoColumnsOneName(Length):
    def transform(self, table, state):
        return np.hstack([super().transform(table, state)] * 2)


@feature("finite float32 for ordinary texts")
class Double(Length):
    def transform(self, table, state):
        return super().transform(table, state).astype(np.float64)


@feature("names its columns")
class ColumnsInAText(Length):
    columns = "weight"


@feature("names its columns")
class OtherLogPrice(Length):
    log_price = "log_price"


@feature("optional members are spelt right")
class UsesPrices(Length):
    uses_prices = True


@feature("optional members are spelt right")
class UsePrice(Length):
    use_price = True


@feature("optional members are spelt right")
class Column(Length):
    column = ("weight",)


@feature("optional members are spelt right")
class ReadsFile(Length):
    reads_file = True


@feature("fit does not see the price")
class FitsToPrices(Length):
    def fit(self, table):
        return {"mean": 2.0 if table.price is None else 1 + float(table.price.mean())}


@feature("transform does not see the price")
class ReadsPrices(Length):
    def transform(self, table, state):
        return super().transform(table, state) if table.price is None else column(table.price)


@feature("state is JSON")
class StateOfArrays(Length):
    def fit(self, table):
        return {"lengths": lengths(table)}


@feature("state survives JSON")
class KeysOfNumbers(Length):
    def fit(self, table):
        return {len(text): 1.0 for text in table.text}

    def transform(self, table, state):
        return column([state.get(len(text), 0.0) for text in table.text])


@feature("reads only declared columns")
class ColumnIfThere(Length):
    """Without a declaration there never is one, so all values are right, and the author wonders."""

    def transform(self, table, state):
        return super().transform(table, state) + column(numbers(table) if "weight" in table.frame else [0.0])
