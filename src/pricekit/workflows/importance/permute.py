"""Permutation importance: how much a metric grows when the values of a feature, a line or a column change rows.

The values are permuted among the rows, the rows are priced again, and the metric is computed again (Breiman 2001,
Random forests, section 10; Fisher, Rudin & Dominici 2019, All models are wrong, but many are useful, arXiv:1801.01489).
The increase is the difference of the two metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pricekit.evaluation.scores import score_interval
from pricekit.explanation.attribution import others_read
from pricekit.explanation.parts import Cells, label_of
from pricekit.metrics import Metric
from pricekit.preprocess import Inputs
from pricekit.support.progress import progress, use_reporter
from pricekit.table import Table
from pricekit.workflows.importance.rows import SEED, Share

LEAST_ROWS = 10
"""Lines that fewer rows have are left out."""
MOST_LINES = 20
"""So many lines and columns are measured, the most frequent ones."""
NO_LABEL = "(no label)"
"""The name of the lines without a label."""

Change = Callable[[int, int], list[Inputs]]
"""Returns the inputs of a share, by its number, after a permutation, by its number."""


@dataclass(frozen=True)
class Baseline:
    """The rows and their errors before anything is permuted.

    Attributes:
        shares: the rows with their models; N rows in all.
        metric: how errors are measured.
        repeats: the number of permutations of each feature or line.
        inputs: the model inputs of each share.
        predicted: the prices of each share.
        price: the true prices, float64 (N,).
        weights: of the terms of the metric, float64 (N,).
        terms: of the metric, float64 (N,).
    """

    shares: Sequence[Share]
    metric: Metric
    repeats: int
    inputs: Sequence[list[Inputs]]
    predicted: Sequence[np.ndarray]
    price: np.ndarray
    weights: np.ndarray
    terms: np.ndarray

    @property
    def score(self) -> float:
        """The metric."""
        return float(self.metric.combine(self.terms, self.weights))


def baseline_of(shares: Sequence[Share], metric: Metric, repeats: int) -> Baseline:
    """Price the rows as they are."""
    inputs = [share.predictor.prepare(share.table) for share in shares]
    predicted = [share.predictor.price(each) for share, each in zip(shares, inputs, strict=True)]
    price = np.concatenate([share.table.known_price for share in shares])
    some = [share.table.weight for share in shares]
    weight = (
        None if any(each is None for each in some) else np.concatenate([w for w in some if w is not None])
    )
    terms = metric.terms(np.concatenate(predicted), price)
    return Baseline(shares, metric, repeats, inputs, predicted, price, metric.weights(price, weight), terms)


def permute_features(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each feature column, the largest first; the text and the other columns stay.

    The values change rows in the same way in the inputs of every member that has the column.
    """
    members = [member for share in baseline.shares for member in share.predictor.members]
    names = list(dict.fromkeys(name for member in members for name in member.preprocessor.features.names))
    rows = []
    with progress("permuting features", len(names)) as advance, use_reporter(None):
        for name in names:
            rows.append([name, *_increase(baseline, _of_feature(baseline, name))])
            advance(1)
    return _sorted(pd.DataFrame(rows, columns=["feature", "increase", "low", "high"]))


def permute_lines(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each kind of line, or for each text column, the largest first.

    A line or cell moves among the rows that have one, and features see the change. Columns that are no text columns are
    measured, too, if features read them.
    """
    with use_reporter(None):
        units = list(_units(baseline.shares))
    rows = []
    with progress("permuting lines", len(units)) as advance, use_reporter(None):
        for unit in units:
            found = _increase(baseline, _of_unit(baseline, unit))
            rows.append([unit.name or NO_LABEL, unit.kind, sum(map(len, unit.having)), *found])
            advance(1)
    return _sorted(pd.DataFrame(rows, columns=["line", "kind", "rows", "increase", "low", "high"]))


def permutation(count: int, repeat: int) -> np.ndarray:
    """Return a permutation of the numbers from 0 to count - 1, int64; equal for equal arguments."""
    return np.random.default_rng([SEED, repeat]).permutation(count)


def _increase(baseline: Baseline, change: Change) -> tuple[float, float, float]:
    """Return the mean increase of the metric over the permutations, and its 95% interval (NaN: unknown)."""
    terms = np.stack([_terms(baseline, change, repeat) for repeat in range(baseline.repeats)])
    if (terms == baseline.terms).all():
        return 0.0, 0.0, 0.0
    if baseline.metric.centre == "mean":  # then the order of the two means does not matter
        terms = terms.mean(0, keepdims=True)
    scores = [baseline.metric.combine(each, baseline.weights) for each in terms]
    increase = float(np.mean(scores)) - baseline.score
    try:
        bounds = score_interval(baseline.metric, baseline.weights, terms, baseline.terms)
    except ModuleNotFoundError:
        bounds = None
    return increase, *(bounds or (np.nan, np.nan))


def _terms(baseline: Baseline, change: Change, repeat: int) -> np.ndarray:
    predicted = []
    for number, share in enumerate(baseline.shares):
        changed = change(number, repeat)
        same = all(map(_equal, changed, baseline.inputs[number]))
        predicted.append(baseline.predicted[number] if same else share.predictor.price(changed))
    return baseline.metric.terms(np.concatenate(predicted), baseline.price)


def _equal(one: Inputs, other: Inputs) -> bool:
    tokens = one.tokens is other.tokens or (
        np.array_equal(one.tokens.offsets, other.tokens.offsets)
        and np.array_equal(one.tokens.ids, other.tokens.ids)
    )
    return tokens and np.array_equal(one.features, other.features)


def _of_feature(baseline: Baseline, name: str) -> Change:
    """Return the change that permutes a feature column."""

    def change(number: int, repeat: int) -> list[Inputs]:
        order = permutation(len(baseline.shares[number].table), repeat)
        changed = []
        members = baseline.shares[number].predictor.members
        for member, inputs in zip(members, baseline.inputs[number], strict=True):
            names = member.preprocessor.features.names
            if name in names:
                features, place = inputs.features.copy(), names.index(name)
                features[:, place] = features[order, place]
                inputs = replace(inputs, features=features)
            changed.append(inputs)
        return changed

    return change


@dataclass(frozen=True)
class _Unit:
    """What is permuted: the lines with one label, or the cells of one column.

    Attributes:
        kind: "line" or "column".
        name: the label or the name of the column.
        having: for each share, the numbers of the rows that have one.
        swapped: for each share, returns the rows with what other rows have.
    """

    kind: str
    name: str
    having: Sequence[np.ndarray]
    swapped: Sequence[Callable[[str, np.ndarray], Table]]


def _of_unit(baseline: Baseline, unit: _Unit) -> Change:
    def change(number: int, repeat: int) -> list[Inputs]:
        having, share = unit.having[number], baseline.shares[number]
        donors = np.arange(len(share.table))
        donors[having] = having[permutation(len(having), repeat)]
        return share.predictor.prepare(unit.swapped[number](unit.name, donors))

    return change


def _units(shares: Sequence[Share]) -> list[_Unit]:
    """Return the lines and columns to permute, the most frequent first."""
    others = others_read(shares[0].table, shares[0].columns, shares[0].price)
    cells = [Cells(share.table, share.columns, others) for share in shares]
    texts = cells[0].text_columns
    units = []
    if len(texts) == 1:
        lines = [Lines(each, share.table.text.tolist()) for each, share in zip(cells, shares, strict=True)]
        labels = dict.fromkeys(label for each in lines for label in each.labels)
        swapped = [each.swapped for each in lines]
        units = [_Unit("line", label, [each.having(label) for each in lines], swapped) for label in labels]
    for name in (*(texts if len(texts) > 1 else ()), *others):
        filled = [np.flatnonzero(each.filled(name)) for each in cells]
        units.append(_Unit("column", name, filled, [each.swapped for each in cells]))
    counts = Counter({place: sum(map(len, unit.having)) for place, unit in enumerate(units)})
    return [units[place] for place, count in counts.most_common(MOST_LINES) if count >= LEAST_ROWS]


class Lines:
    """The lines of texts by their labels.

    Args:
        cells: the cells of the rows.
        texts: their texts, (N,).

    Attributes:
        labels: the labels, in the order of their first lines; "" for lines without a label.
    """

    def __init__(self, cells: Cells, texts: Sequence[str]) -> None:
        self._cells = cells
        self._lines = [[(_label(line), line) for line in text.split("\n")] for text in texts]
        found = (label for lines in self._lines for label, _ in lines if label is not None)
        self.labels = tuple(dict.fromkeys(found))

    def having(self, label: str) -> np.ndarray:
        """Return the numbers of the rows that have a line with a label, int64 (M,)."""
        found = [any(each == label for each, _ in lines) for lines in self._lines]
        return np.flatnonzero(np.array(found, bool))

    def swapped(self, label: str, donors: np.ndarray) -> Table:
        """Return all rows, each with the lines of a label that another row has, at the place of its own first one.

        Args:
            label: the label.
            donors: for each row, the number of the row whose lines it gets, int (N,).
        """
        texts = []
        for row, donor in enumerate(donors.tolist()):
            texts.append("\n".join(self._with(self._lines[row], self._lines[donor], label)))
        return self._cells.with_texts(texts)

    @staticmethod
    def _with(
        own: Sequence[tuple[str | None, str]], other: Sequence[tuple[str | None, str]], label: str
    ) -> Iterator[str]:
        given = [line for each, line in other if each == label]
        for each, line in own:
            if each != label:
                yield line
            else:
                yield from given
                given = []


def _label(line: str) -> str | None:
    return label_of(line) if line.strip() else None


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    order = np.argsort(-frame["increase"].to_numpy(np.float64), kind="stable")
    return frame.iloc[order].reset_index(drop=True)
