"""Importance over a table: how much worse a model gets without a feature or a line, and the effects of words.

The values of a feature, the lines with one label or the cells of one column change rows (permutation importance); the
growth of the metric is the importance. The effects of words are means over explanations of some rows.
"""

from __future__ import annotations

import html
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pricekit.answers.evaluate import usable_rows, warn_of_training_rows
from pricekit.errors import DataError
from pricekit.evaluation.held_out import HELD_OUT, HeldOut, read_held_out, was_refitted
from pricekit.evaluation.scores import MIN_ROWS, metric_of, score_interval
from pricekit.features.fit import some_rows
from pricekit.features.preprocess import Inputs
from pricekit.insight.explanations import Explanation, explain_rows, others_read
from pricekit.insight.parts import Cells, label_of
from pricekit.io.log import logger
from pricekit.io.progress import tracked, use_reporter_here
from pricekit.io.record import kind_of
from pricekit.metrics import Metric
from pricekit.options import ImportanceOptions, columns_over, refuse_reading_options
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, source_name
from pricekit.table.decisions import cells_of
from pricekit.table.table import Formats
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
"""Returns the inputs of a part of the rows, by its number, after a permutation, by its number."""


@dataclass(frozen=True, repr=False, eq=False)
class Importance:
    """What a model's prices for the rows of a table depend on.

    Attributes:
        rows: the number of rows.
        metric: whose increase is measured.
        score: the metric of the rows as they are.
        features: the engineered features, the largest increase first: `feature`, of vectors the name of their column;
            `increase`, by how much the metric grows when its values change rows; `low` and `high`, its 95% interval,
            NaN without scipy or with too few rows.
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


def measure_importance(reader: ModelReader, table: Any, options: ImportanceOptions) -> Importance:
    """Measure what a model's prices depend on; see `pricekit.Model.importance`."""
    metric = metric_of([reader.path], options["metric"])
    parts = judged_parts(reader, table, options)
    baseline = baseline_of(parts, metric, options["repeats"])
    importance = Importance(
        rows=len(baseline.terms),
        metric=metric,
        score=baseline.score,
        features=permute_features(baseline),
        lines=permute_lines(baseline),
        words=word_effects(explain_some(parts)),
    )
    unknown = any(frame["low"].isna().any() for frame in importance._frames.values())
    if unknown and importance.rows >= MIN_ROWS:
        logger.warning("the intervals are omitted: they need scipy (pip install scipy)")
    return importance


@dataclass(frozen=True)
class JudgedRows:
    """Rows with the model that prices them; a cross-validation has some for each fold.

    Attributes:
        predictor: the model.
        table: the rows, with prices.
        columns: the columns of the table that the model reads.
    """

    predictor: Predictor
    table: Table
    columns: Columns

    @cached_property
    def inputs(self) -> list[Inputs]:
        """The inputs of each member."""
        return self.predictor.prepare(self.table)

    @cached_property
    def predicted(self) -> np.ndarray:
        """The price of each row, float32 (N,)."""
        return self.predictor.price(self.inputs)


def judged_parts(reader: ModelReader, table: Any, options: Mapping[str, Any]) -> list[JudgedRows]:
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
        refuse_reading_options(options)
        return _held_out(reader)
    predictor = reader.open()
    rows = usable_rows(predictor, table, options)
    warn_of_training_rows(reader.path, source_name(table), rows)
    columns = columns_over(predictor.columns, options)
    return [JudgedRows(predictor, rows.take(_chosen(len(rows))), columns)]


def _held_out(reader: ModelReader) -> list[JudgedRows]:
    model = reader.path
    held_out = read_held_out(model)
    held_out = held_out.take(_chosen(len(held_out)))
    if refitted := was_refitted(model):
        logger.warning(
            f"after {model} predicted its held-out rows, it was trained on all rows, so the score is too optimistic; "
            "add a table with other rows for the importance on new rows"
        )
    parts = [(reader, held_out)]
    if kind_of(model) == "cross-validation":
        parts = [
            (ModelReader(model / f"fold-{fold}"), held_out.take(np.flatnonzero(held_out.fold == fold)))
            for fold in np.unique(held_out.fold)
        ]
    judged, differences = [], []
    for run, rows in parts:
        predictor = run.open()
        columns = replace(predictor.columns, formats=Formats())  # the texts are as the model reads them
        judged.append(JudgedRows(predictor, table_of(rows, columns), columns))
        differences.append(np.abs(np.log(judged[-1].predicted / rows.predicted)))
    if not refitted and np.median(np.concatenate(differences)) > DIFFERENT:
        logger.warning(
            f"the features of {model} read columns that {HELD_OUT} does not contain, so they are measured as if these "
            "were empty; add the table of the training"
        )
    return judged


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
    cells = {name: pd.Series(pd.array(lines, dtype="str")) for name, lines in texts.items()}
    groups = rows.groups.reset_index(drop=True)
    others = {str(name): groups[name] for name in groups if name not in cells}
    empty = pd.Series(pd.array([""] * len(rows.text), dtype="str"))
    others |= {name: empty for name in columns.others or () if name not in cells and name not in others}
    return Table(
        ids=rows.ids,
        text=rows.text,
        price=rows.price,
        frame=pd.DataFrame(cells | others),
        rows=rows.rows,
        weight=rows.weight,
    )


@dataclass(frozen=True)
class Baseline:
    """The rows and their errors before anything is permuted.

    Attributes:
        parts: the rows with their models; N rows in all.
        metric: how errors are measured.
        repeats: the number of permutations of each feature or line.
        price: the true prices, float64 (N,).
        weights: of the terms of the metric, float64 (N,).
        terms: of the metric, float64 (N,).
    """

    parts: Sequence[JudgedRows]
    metric: Metric
    repeats: int
    price: np.ndarray
    weights: np.ndarray
    terms: np.ndarray

    @property
    def score(self) -> float:
        """The metric."""
        return float(self.metric.combine(self.terms, self.weights))


def baseline_of(parts: Sequence[JudgedRows], metric: Metric, repeats: int) -> Baseline:
    """Price the rows as they are."""
    price = np.concatenate([part.table.known_price for part in parts])
    known = [part.table.weight for part in parts if part.table.weight is not None]
    weight = np.concatenate(known) if len(known) == len(parts) else None
    terms = metric.terms(np.concatenate([part.predicted for part in parts]), price)
    return Baseline(parts, metric, repeats, price, metric.weights(price, weight), terms)


def permute_features(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each feature, the largest first; the text and the other columns stay.

    The values change rows in the same way in the inputs of every member that has the feature. Columns that are parts
    of one whole change rows together.
    """
    members = [wholes for part in baseline.parts for wholes in _wholes(part.predictor)]
    distinct = list(dict.fromkeys(whole for wholes in members for whole in wholes))
    with tracked("permuting features", distinct) as each, use_reporter_here(None):
        rows = [[name, *_increase(baseline, _of_feature(baseline, name))] for name in each]
    return _sorted(rows, ["feature"])


def permute_lines(baseline: Baseline) -> pd.DataFrame:
    """Return the increase for each kind of line, or for each text column, the largest first.

    A line or cell moves among the rows that have one, and features see the change. Columns that are no text columns are
    measured, too, if features read them.
    """
    with use_reporter_here(None):
        units = _units(baseline.parts)
    rows = []
    with tracked("permuting lines", units) as each, use_reporter_here(None):
        for unit in each:
            increase = _increase(baseline, _of_unit(baseline, unit))
            rows.append([unit.name or NO_LABEL, unit.kind, unit.count, *increase])
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
    for number, part in enumerate(baseline.parts):
        changed = change(number, repeat)
        same = all(map(_same_inputs, changed, part.inputs))
        predicted.append(part.predicted if same else part.predictor.price(changed))
    return baseline.metric.terms(np.concatenate(predicted), baseline.price)


def _same_inputs(one: Inputs, other: Inputs) -> bool:
    each = ((inputs.tokens.offsets, inputs.tokens.ids, inputs.features) for inputs in (one, other))
    return all(map(np.array_equal, *each))


def _wholes(predictor: Predictor) -> list[list[str]]:
    """Return for each member what each of its feature columns is a part of."""
    return [list(member.preprocessor.features.wholes.values()) for member in predictor.members]


def _of_feature(baseline: Baseline, name: str) -> Change:
    """Return the change that permutes the columns of a feature."""
    wholes = [_wholes(part.predictor) for part in baseline.parts]

    def change(number: int, repeat: int) -> list[Inputs]:
        part = baseline.parts[number]
        order = permutation(len(part.table), repeat)
        changed = list(part.inputs)
        for member, names in enumerate(wholes[number]):
            if places := [place for place, whole in enumerate(names) if whole == name]:
                inputs = changed[member]
                changed[member] = inputs.with_column(places, inputs.features[order][:, places])
        return changed

    return change


@dataclass(frozen=True)
class _Unit:
    """What is permuted: the lines with one label, or the cells of one column.

    Attributes:
        kind: "line" or "column".
        name: the label or the name of the column.
        cells: for each part of the rows, what returns them with lines or cells of other rows.
    """

    kind: str
    name: str
    cells: Sequence[Cells | Lines]

    @cached_property
    def having(self) -> list[np.ndarray]:
        """For each part, the numbers of the rows that have one."""
        return [np.flatnonzero(each.filled(self.name)) for each in self.cells]

    @property
    def count(self) -> int:
        """The number of rows that have one."""
        return sum(map(len, self.having))


def _of_unit(baseline: Baseline, unit: _Unit) -> Change:
    def change(number: int, repeat: int) -> list[Inputs]:
        having, part = unit.having[number], baseline.parts[number]
        donors = np.arange(len(part.table))
        donors[having] = having[permutation(len(having), repeat)]
        return part.predictor.prepare(unit.cells[number].swapped(unit.name, donors))

    return change


def _units(parts: Sequence[JudgedRows]) -> list[_Unit]:
    """Return the lines and columns to permute, the most frequent first."""
    first = parts[0]
    others = others_read(first.table, first.columns, first.predictor.prices)
    cells = [Cells(part.table, part.columns, others) for part in parts]
    texts = cells[0].text_columns
    units = []
    if len(texts) == 1:
        lines = [Lines(each, part.table.text.tolist()) for each, part in zip(cells, parts, strict=True)]
        labels = dict.fromkeys(label for each in lines for label in each.labels)
        units = [_Unit("line", label, lines) for label in labels]
    units += [_Unit("column", name, cells) for name in (*(texts if len(texts) > 1 else ()), *others)]
    units.sort(key=lambda unit: -unit.count)
    return [unit for unit in units[:MOST_LINES] if unit.count >= LEAST_ROWS]


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
        labels = (label for lines in self._lines for label, _ in lines if label is not None)
        self.labels = tuple(dict.fromkeys(labels))

    def filled(self, label: str) -> np.ndarray:
        """Return which rows have a line with a label, bool (N,)."""
        return np.array([any(each == label for each, _ in lines) for lines in self._lines], bool)

    def swapped(self, label: str, donors: np.ndarray) -> Table:
        """Return all rows, each with the lines of a label that another row has, at the place of its own first one.

        Args:
            label: the label.
            donors: for each row, the number of the row whose lines it gets, int (N,).
        """
        texts = []
        for own, donor in zip(self._lines, donors.tolist(), strict=True):
            new, lines = [line for each, line in self._lines[donor] if each == label], list[str]()
            for each, line in own:
                if each != label:
                    lines.append(line)
                else:
                    lines += new
                    new = []
            texts.append("\n".join(lines))
        return self._cells.with_texts(texts)


def _sorted(rows: list[list[Any]], names: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*names, "increase", "low", "high"])
    return frame.sort_values("increase", ascending=False, kind="stable", ignore_index=True)


def explain_some(parts: Sequence[JudgedRows]) -> list[Explanation]:
    """Explain `EXPLAINED` rows, or all of fewer."""
    ends = np.cumsum([len(part.table) for part in parts])
    chosen = np.sort(np.random.default_rng(SEED).permutation(ends[-1])[:EXPLAINED])
    explanations: list[Explanation] = []
    for part, end, rows in zip(
        parts, ends, np.split(chosen, np.searchsorted(chosen, ends[:-1])), strict=True
    ):
        if len(rows):
            table = part.table.take(rows - (end - len(part.table)))
            explanations += explain_rows(table, part.columns, part.predictor.prices)
    return explanations


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
