"""Importance over a table: how much worse a model gets without a feature or a line, and the effects of words.

The values of a feature, the lines with one label or the cells of one column change rows (permutation importance); the
growth of the metric is the importance. The effects of words are means over explanations of some rows.
"""

from __future__ import annotations

import html
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from pricekit.answers.evaluate import refuse_options, usable_rows, warn_of_training_rows
from pricekit.errors import DataError
from pricekit.evaluation.held_out import HELD_OUT, HeldOut, read_held_out, was_refitted
from pricekit.evaluation.scores import MIN_ROWS, metric_of, score_interval
from pricekit.features.fit import some_rows
from pricekit.features.preprocess import Inputs
from pricekit.insight.explanations import Explanation, explain_rows, others_read
from pricekit.insight.parts import Cells, label_of
from pricekit.io.log import logger
from pricekit.io.progress import tracked, use_reporter_here
from pricekit.metrics import Metric
from pricekit.options import ImportanceOptions, columns_over
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, source_name
from pricekit.wording import counted, printable, shorten

SHOWN = 15
"""Rows of each frame in a notebook and on a terminal."""
MOST_ROWS = 2000
"""Larger tables are sampled to this number of rows, with a fixed seed."""
SEED = 0
DIFFERENT = 0.01
"""Held-out rows whose log prices differ so much, in the median, from those of their run lack columns that it read."""
LEAST_ROWS = 10
"""Lines that fewer rows have are left out."""
MOST_LINES = 20
"""So many lines and columns are measured, the most frequent ones."""
NO_LABEL = "(no label)"
"""The name of the lines without a label."""
EXPLAINED = 200
"""The number of rows that are explained: a random sample with a fixed seed."""
LEAST_ROWS_OF_A_WORD = 5
"""Words that fewer rows have are left out."""
MOST_WORDS = 50
LEVEL = 0.95
"""Of the intervals of words."""

Change = Callable[[int, int], list[Inputs]]
"""Returns the inputs of a share, by its number, after a permutation, by its number."""


@dataclass(frozen=True, repr=False, eq=False)
class Importance:
    """What a model's prices for the rows of a table depend on.

    Attributes:
        rows: the number of rows.
        metric: whose increase is measured.
        score: the metric of the rows as they are.
        features: the engineered features, the largest increase first: `feature`; `increase`, by how much the metric
            grows when the feature's values change rows; `low` and `high`, its 95% interval, NaN without scipy or with
            too few rows.
        lines: the same for lines of the text, or for columns: `line`, its label or the name of the column; `kind`,
            "line" or "column"; `rows` that have one; `increase`, `low`, `high`.
        words: words of explained rows, the largest sum of contributions first: `word`; `rows` that have it; `factor`,
            the geometric mean of what it multiplies the price by; `low` and `high`, its 95% interval over the rows;
            `size`, its mean absolute contribution to the log price.
    """

    rows: int
    metric: Metric
    score: float
    features: pd.DataFrame
    lines: pd.DataFrame
    words: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit importance --json` prints them; None for an unknown bound."""
        frames = {
            name: frame.astype(object).where(frame.notna(), None).to_dict("records")
            for name, frame in self._frames.items()
        }
        return {"rows": self.rows, "metric": self.metric.name, "score": self.score, **frames}

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @property
    def _frames(self) -> dict[str, pd.DataFrame]:
        return {"features": self.features, "lines": self.lines, "words": self.words}

    def __repr__(self) -> str:
        largest = [
            f"{shorten(printable(name), 20)} {self.metric.write(increase, self.score, sign=True)}"
            for frame, column in ((self.features, "feature"), (self.lines, "line"))
            for name, increase in zip(frame[column][:2], frame["increase"], strict=False)
        ]
        score = f"{self.metric.title} {self.metric.write(self.score)}"
        return f"Importance({counted(self.rows, 'row')}, {score}; {', '.join(largest)})"

    def _repr_html_(self) -> str:
        score = f"{html.escape(self.metric.title)} {self.metric.write(self.score)}"
        shown = (
            f"<h4>{name}</h4>"
            + frame.head(SHOWN).to_html(index=False, border=0, na_rep="", float_format="{:.4g}".format)
            for name, frame in self._frames.items()
        )
        return f"<p>{counted(self.rows, 'row')}, {score}</p>" + "".join(shown)


def measure_importance(
    reader: ModelReader,
    table: Any,
    options: ImportanceOptions,
) -> Importance:
    """Measure what a model's prices depend on; see `pricekit.Model.importance`."""
    judged_by = metric_of([reader.path], options["metric"])
    shares = shares_of(reader, table, options)
    baseline = baseline_of(shares, judged_by, options["repeats"])
    found = Importance(
        rows=len(baseline.terms),
        metric=judged_by,
        score=baseline.score,
        features=permute_features(baseline),
        lines=permute_lines(baseline),
        words=word_effects(explain_some(shares)),
    )
    unknown = any(frame["low"].isna().any() for frame in (found.features, found.lines, found.words))
    if unknown and found.rows >= MIN_ROWS:
        logger.warning("the intervals are omitted: they need scipy (pip install scipy)")
    return found


@dataclass(frozen=True)
class Share:
    """Rows with the model that prices them; a cross-validation has one for each fold.

    Attributes:
        predictor: the model.
        table: the rows, with prices.
        columns: the columns of the table that the model reads.
    """

    predictor: Predictor
    table: Table
    columns: Columns

    def price(self, rows: Table) -> np.ndarray:
        """Return the price of each row of a table, float32 (N,)."""
        return self.predictor.prices(rows)


def shares_of(reader: ModelReader, table: Any, options: Mapping[str, Any]) -> list[Share]:
    """Return the rows of a table, or the held-out rows of a model, with the models that price them.

    Args:
        reader: of a bundle, a run or an ensemble; without a table also of a cross-validation.
        table: a file or a frame with prices; None: the held-out rows.
        options: options for reading the table.

    Raises:
        ConfigError: options without a table.
        DataError: there are no held-out rows, fewer than two rows, or the table cannot be used.
        BundleError, PluginError: the model cannot be opened.
    """
    if table is None:
        refuse_options(options)
        return _held_out(reader)
    predictor = reader.open()
    rows = usable_rows(predictor, table, options)
    warn_of_training_rows(reader.path, source_name(table), rows)
    columns = columns_over(predictor.columns, options)
    return [Share(predictor, rows.take(_chosen(len(rows))), columns)]


def _held_out(reader: ModelReader) -> list[Share]:
    model = reader.path
    held_out = read_held_out(model)
    held_out = held_out.take(_chosen(len(held_out)))
    if was_refitted(model):
        logger.warning(
            f"after {model} predicted its held-out rows, it was trained on all rows, so the score is too optimistic; "
            "add a table with other rows for the importance on new rows"
        )
    shares, different = [], []
    for fold in np.unique(held_out.fold):
        folder = model / f"fold-{fold}"
        rows = held_out.take(np.flatnonzero(held_out.fold == fold)) if folder.is_dir() else held_out
        predictor = ModelReader(folder).open() if folder.is_dir() else reader.open()
        share = Share(predictor, table_of(rows, predictor.columns), predictor.columns)
        different.append(np.abs(np.log(share.price(share.table) / rows.predicted)))
        shares.append(share)
        if rows is held_out:
            break
    if not was_refitted(model) and np.median(np.concatenate(different)) > DIFFERENT:
        logger.warning(
            f"the features of {model} read columns that {HELD_OUT} does not contain, so they are measured as if these "
            "were empty; add the table of the training"
        )
    return shares


def _chosen(count: int) -> np.ndarray:
    """Return the numbers of the rows that are judged, ascending; raises DataError."""
    if count < 2:
        raise DataError(
            f"there {'is' if count == 1 else 'are'} only {counted(count, 'row')} with a price; importance needs at "
            "least 2, because it exchanges values between rows",
            parameters=("table",),
            rows=count,
        )
    if count > MOST_ROWS:
        logger.info(
            f"importance is measured on a random sample of {MOST_ROWS:,} of the {counted(count, 'row')}"
        )
    return some_rows(count, MOST_ROWS)


def table_of(rows: HeldOut, columns: Columns) -> Table:
    """Return held-out rows as a table with the text columns of a model and the columns that group the rows."""
    names = columns.text
    texts = {names[0]: rows.text.tolist()} if len(names) == 1 else cells_of(rows.text.tolist(), names)
    cells = {name: pd.Series(pd.array(found, dtype="str")) for name, found in texts.items()}
    groups = rows.groups.reset_index(drop=True)
    others = {str(name): groups[name] for name in groups if name not in cells}
    return Table(
        ids=rows.ids,
        text=rows.text,
        price=rows.price,
        frame=pd.DataFrame(cells | others),
        rows=rows.rows,
        weight=rows.weight,
    )


def cells_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Divide texts that consist of lines "column: cell" into the cells of their columns; "" for a blank cell.

    Args:
        texts: as the table reader joins several text columns, (N,).
        names: the columns, in their order.

    Example:
        >>> cells_of(["name: Tea\\nnotes: Mild\\nFresh"], ["name", "category", "notes"])
        {'name': ['Tea'], 'category': [''], 'notes': ['Mild\\nFresh']}
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for text in texts:
        cells: dict[str, list[str]] = {name: [] for name in names}
        left, current = list(names), names[0]
        for line in text.split("\n"):
            begun = next((name for name in left if line.startswith(f"{name}: ")), None)
            if begun is not None:
                left, current = left[left.index(begun) + 1 :], begun
                line = line.removeprefix(f"{begun}: ")
            cells[current].append(line)
        for name, lines in cells.items():
            found[name].append("\n".join(lines))
    return found


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
    known = [share.table.weight for share in shares if share.table.weight is not None]
    weight = np.concatenate(known) if len(known) == len(shares) else None
    terms = metric.terms(np.concatenate(predicted), price)
    return Baseline(shares, metric, repeats, inputs, predicted, price, metric.weights(price, weight), terms)


def permute_features(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each feature column, the largest first; the text and the other columns stay.

    The values change rows in the same way in the inputs of every member that has the column.
    """
    members = [member for share in baseline.shares for member in share.predictor.members]
    names = list(dict.fromkeys(name for member in members for name in member.preprocessor.features.names))
    with tracked("permuting features", names) as each, use_reporter_here(None):
        rows = [[name, *_increase(baseline, _of_feature(baseline, name))] for name in each]
    return _sorted(rows, ["feature"])


def permute_lines(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each kind of line, or for each text column, the largest first.

    A line or cell moves among the rows that have one, and features see the change. Columns that are no text columns are
    measured, too, if features read them.
    """
    with use_reporter_here(None):
        units = _units(baseline.shares)
    rows = []
    with tracked("permuting lines", units) as each, use_reporter_here(None):
        for unit in each:
            found = _increase(baseline, _of_unit(baseline, unit))
            rows.append([unit.name or NO_LABEL, unit.kind, sum(map(len, unit.having)), *found])
    return _sorted(rows, ["line", "kind", "rows"])


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
        same = all(map(_same_inputs, changed, baseline.inputs[number]))
        predicted.append(baseline.predicted[number] if same else share.predictor.price(changed))
    return baseline.metric.terms(np.concatenate(predicted), baseline.price)


def _same_inputs(one: Inputs, other: Inputs) -> bool:
    each = ((given.tokens.offsets, given.tokens.ids, given.features) for given in (one, other))
    return all(map(np.array_equal, *each))


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
        parts: for each share, what returns the rows with lines or cells of other rows.
    """

    kind: str
    name: str
    having: Sequence[np.ndarray]
    parts: Sequence[Cells | Lines]


def _of_unit(baseline: Baseline, unit: _Unit) -> Change:
    def change(number: int, repeat: int) -> list[Inputs]:
        having, share = unit.having[number], baseline.shares[number]
        donors = np.arange(len(share.table))
        donors[having] = having[permutation(len(having), repeat)]
        return share.predictor.prepare(unit.parts[number].swapped(unit.name, donors))

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
        units = [_Unit("line", label, [each.having(label) for each in lines], lines) for label in labels]
    for name in (*(texts if len(texts) > 1 else ()), *others):
        filled = [np.flatnonzero(each.filled(name)) for each in cells]
        units.append(_Unit("column", name, filled, cells))
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
        self._lines = [
            [(label_of(line) if line.strip() else None, line) for line in text.split("\n")] for text in texts
        ]
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
        for own, donor in zip(self._lines, donors.tolist(), strict=True):
            given, lines = [line for each, line in self._lines[donor] if each == label], list[str]()
            for each, line in own:
                if each != label:
                    lines.append(line)
                else:
                    lines += given
                    given = []
            texts.append("\n".join(lines))
        return self._cells.with_texts(texts)


def _sorted(rows: list[list[Any]], names: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*names, "increase", "low", "high"])
    order = np.argsort(-frame["increase"].to_numpy(np.float64), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def explain_some(shares: Sequence[Share]) -> list[Explanation]:
    """Explain `EXPLAINED` rows, or all of fewer."""
    counts = [len(share.table) for share in shares]
    total = sum(counts)
    chosen = np.sort(np.random.default_rng(SEED).permutation(total)[:EXPLAINED])
    found: list[Explanation] = []
    for share, start in zip(shares, np.cumsum([0, *counts]), strict=False):
        inside = chosen[(chosen >= start) & (chosen < start + len(share.table))] - start
        if len(inside):
            found += explain_rows(share.table.take(inside), share.columns, share.price)
    return found


def word_effects(explanations: Iterable[Explanation]) -> pd.DataFrame:
    """Return the words of at least `LEAST_ROWS_OF_A_WORD` rows, those with the largest sums of contributions first.

    A word that stands several times in a row contributes the sum. Columns: `word`, case-folded; `rows`; `factor`, the
    geometric mean over its rows; `low` and `high`, its 95% interval over them by Student's t distribution of the log
    factor, NaN without scipy; `size`, the mean absolute contribution to the log price.

    Args:
        explanations: one for each row.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for explanation in explanations:
        own: dict[str, float] = defaultdict(float)
        for word in explanation.words():
            # A phrase of a single word is one; phrases that were not divided are none.
            if word.kind == "word" or (word.kind == "phrase" and not any(map(str.isspace, word.text))):
                own[word.text.casefold()] += word.log
        for text, log in own.items():
            logs[text].append(log)
    rows = [[word, *_effect(np.array(own))] for word, own in logs.items() if len(own) >= LEAST_ROWS_OF_A_WORD]
    frame = pd.DataFrame(rows, columns=["word", "rows", "factor", "low", "high", "size"])
    order = np.argsort(-(frame["rows"] * frame["size"]).to_numpy(np.float64), kind="stable")
    return frame.iloc[order[:MOST_WORDS]].reset_index(drop=True)


def _effect(logs: np.ndarray) -> tuple[int, float, float, float, float]:
    """Return rows, factor, low, high and size from the contributions of a word, (R,)."""
    mean, spread = float(logs.mean()), float(logs.std(ddof=1)) / np.sqrt(len(logs))
    try:
        from scipy.stats import t

        margin = float(t.ppf((1 + LEVEL) / 2, len(logs) - 1)) * spread
    except ModuleNotFoundError:
        margin = np.nan
    factor, low, high = np.exp([mean, mean - margin, mean + margin]).tolist()
    return len(logs), factor, low, high, float(np.abs(logs).mean())
