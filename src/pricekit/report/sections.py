"""What a report is about, and its sections, in their order: for rows with prices and for a table without them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from babel import Locale, UnknownLocaleError

import pricekit
from pricekit.answers.evaluate import columns_of, predicted_rows, products_among, released_shares, usable_rows
from pricekit.answers.insight import comparables_of, explain_prices
from pricekit.errors import ConfigError, PricekitError
from pricekit.evaluation.comparison import Comparison, compare_folders
from pricekit.evaluation.groups import OTHER, ErrorReport, Group, amount, find_errors
from pricekit.evaluation.held_out import (
    HeldOut,
    count_shared_rows,
    read_held_out,
    report_refit,
)
from pricekit.evaluation.scores import (
    Scores,
    constant_score,
    facts_of,
    goal_of,
    metric_of,
    released_cells,
    scores_of,
)
from pricekit.evaluation.table_report import TableReport, profile_table
from pricekit.features.fit import some_rows
from pricekit.insight.comparables import FAR, FAR_CELLS, MOST_COMPARED, Comparables, compare_rows
from pricekit.insight.explanations import Explanation, Factor, explain_rows, name_of
from pricekit.insight.products import Products, products_of
from pricekit.io.log import logger
from pricekit.io.record import kind_of
from pricekit.metrics import Metric
from pricekit.options import (
    columns_over,
    read_options_of,
    refuse_reading_options,
    rows_without_prices,
)
from pricekit.plots import (
    DecileDisplay,
    GroupDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    ResidualDisplay,
    SurestDisplay,
)
from pricekit.plots.predictions import Judged, coverage_of
from pricekit.predict.members import table_of
from pricekit.predict.predictor import Predictor
from pricekit.report.page import (
    MOST_CHARACTERS,
    MOST_LINES,
    Block,
    Figure,
    Figures,
    Paragraph,
    Piece,
    Product,
    ProductList,
    Section,
    Summary,
    TableBlock,
    picture,
    sections_from,
)
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, source_name
from pricekit.table.currency import measure_of
from pricekit.table.read import column_names
from pricekit.table.table import Formats
from pricekit.wording import counted, printable, shorten

MOST_ROWS = 200_000
"""Larger tables are sampled to this number of rows, with a fixed seed."""

MOST_INDEXED = 100_000
"""Rows of the training table that are indexed, to be compared with."""


@dataclass(frozen=True)
class Subject:
    """A model and the rows that the report is about.

    Attributes:
        reader: of a bundle, a run, an ensemble or a cross-validation.
        facts: the content of its manifest, `run.json` or `cv.json`.
        metric: that counts.
        rows: with true and predicted prices.
        held_out: whether these are the held-out rows of the model.
        table: the report on the table; None without a table.
        comparison: with other models; None without any.
        notes: sentences on how the rows were chosen.
        products: with known prices, to compare the worst rows with; None without any.
    """

    reader: ModelReader
    facts: Mapping[str, Any]
    metric: Metric
    rows: HeldOut
    held_out: bool
    table: TableReport | None
    comparison: Comparison | None
    notes: Sequence[str] = ()
    products: Products | None = None

    @property
    def path(self) -> Path:
        """The folder of the model."""
        return self.reader.path

    @property
    def currency(self) -> str | None:
        """The currency and unit of the prices; None if the training table did not show one."""
        return measure_of(self.facts)

    @cached_property
    def scores(self) -> Scores:
        """The scores of the rows."""
        return scores_of(self.rows, self.metric)

    @cached_property
    def constant(self) -> float:
        """The score of the best constant price for the rows."""
        return constant_score(self.rows, self.rows, self.metric)

    @property
    def is_better(self) -> bool:
        """Whether the model is better than a constant price, beyond chance."""
        return max(self.scores.interval or (self.scores.metrics[self.metric.name],)) < self.constant

    @cached_property
    def errors(self) -> ErrorReport:
        """The errors of the rows and of groups of them."""
        return find_errors(self.rows, None, self.metric)

    @property
    def worst(self) -> pd.DataFrame:
        """The rows with the largest errors, see `error_table`."""
        return self.errors.rows.head(WORST)

    @cached_property
    def compared(self) -> list[Comparables]:
        """What the worst rows are compared with; empty without products."""
        return [] if self.products is None else compare_rows(self.worst, self.products, self.currency)

    def predictor(self, row: int) -> Predictor:
        """Open the model that predicted a row: of a cross-validation, the run of its fold."""
        folder = self.path / f"fold-{self.rows.fold[row]}"
        return ModelReader(folder).open() if folder.is_dir() else self.reader.open()


def subject_of(
    reader: ModelReader, table: Any, options: Mapping[str, Any], against: Sequence[Path] = ()
) -> Subject:
    """Read what a report is about.

    If the table contains the held-out rows of the model, it is the training table: then the held-out rows are judged,
    and the table is only described. It is the same for a cross-validation.

    Args:
        reader: of a bundle, a run, an ensemble or a cross-validation.
        table: a file or a frame with prices; None: the held-out rows.
        options: of the report: the metric, by default that of the model; the products to compare with, by default those
            of the bundle, or the table if it is the training's; and those for reading the table.
        against: other models of the same table, to compare with.

    Raises:
        PricekitError: as of `pricekit.Model.evaluate` and `pricekit.compare`.
    """
    model, kind, metric = reader.path, kind_of(reader.path), options.get("metric")
    judged_by = metric_of([model], metric)
    comparison = compare_folders([model, *against], metric) if against else None
    products = products_among(reader, options)
    notes: list[str] = []
    if table is None or kind == "cross-validation":
        rows, held_out = read_held_out(model), True
        if table is not None:
            notes.append(
                "A cross-validation is judged by the rows that its folds held out; the table is only described."
            )
    else:
        predictor = reader.open()
        usable = usable_rows(predictor, table, options)
        held_out = kind != "bundle" and count_shared_rows(rows := read_held_out(model), usable) > 0
        if held_out:
            notes.append(
                f"{source_name(table)} is the table of the training, so only the held-out rows are judged."
            )
            products = products or products_of(usable.take(some_rows(len(usable), MOST_INDEXED)))
        else:
            if len(usable) > MOST_ROWS:
                notes.append(sampled(len(usable)))
            usable = usable.take(some_rows(len(usable), MOST_ROWS))
            rows = predicted_rows(predictor, usable)
            products = products or predictor.own_products()
    if held_out:
        report_refit([model])
    if len(rows) > MOST_ROWS:
        notes.append(sampled(len(rows)))
        rows = rows.take(some_rows(len(rows), MOST_ROWS))
    described = (
        None if table is None else describe_table(table, columns_over(columns_of(reader), options), options)
    )
    return Subject(
        reader, facts_of(model), judged_by, rows, held_out, described, comparison, tuple(notes), products
    )


@dataclass(frozen=True)
class Unpriced:
    """A model and a table without prices.

    Attributes:
        path: the folder of the model.
        facts: the content of its manifest or `run.json`.
        predictor: the model.
        table: N rows.
        predicted: their prices, float32 (N,).
        spread: as of `Predictor.spread`, float32 (N,).
        described: the report on the table; None if there is none.
        products: to compare prices with; None without any.
        note: how the rows were chosen; "" if they are all.
    """

    path: Path
    facts: Mapping[str, Any]
    predictor: Predictor
    table: Table
    predicted: np.ndarray
    spread: np.ndarray
    described: TableReport | None
    products: Products | None
    note: str

    @property
    def compared(self) -> int:
        """The number of rows that are compared with products."""
        return min(len(self.table), MOST_COMPARED)

    @cached_property
    def far(self) -> list[tuple[int, Comparables]]:
        """The rows whose predicted prices are far from those of similar products, the most distant first."""
        if self.products is None:
            return []
        some = some_rows(len(self.table), MOST_COMPARED)
        comparables = comparables_of(self.predictor, self.table.take(some), among=self.products)
        far = [(int(place), each) for place, each in zip(some, comparables, strict=True) if each.far]
        return sorted(far, key=lambda pair: -pair[1].distance)


def has_no_prices(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a table lacks the model's price column, and the user named no other one."""
    if options.get("price") is not None:
        return False
    columns = columns_over(predictor.columns, options)
    return columns.price not in column_names(table, read_options_of(options), columns)


def read_unpriced(reader: ModelReader, table: Any, options: Mapping[str, Any]) -> Unpriced:
    """Read and price a table without prices; raises DataError if it has no row."""
    predictor, products = reader.open(), products_among(reader, options)
    rows = rows_without_prices(table, predictor.columns, options)
    note = sampled(len(rows)).replace("judged", "priced") if len(rows) > MOST_ROWS else ""
    rows = rows.take(some_rows(len(rows), MOST_ROWS))
    inputs = predictor.prepare(rows)
    return Unpriced(
        reader.path,
        facts_of(reader.path),
        predictor,
        rows,
        predictor.price(inputs),
        predictor.spread(inputs),
        describe_table(table, replace(columns_over(predictor.columns, options), price=None), options),
        products or predictor.own_products(),
        note,
    )


def describe_table(table: Any, columns: Columns, options: Mapping[str, Any]) -> TableReport | None:
    """Return the report on the table as a model reads it; None if there is none."""
    try:
        return profile_table(
            table,
            text=columns.text,
            price=columns.price,
            id=options.get("id"),
            read_options=read_options_of(options),
            limit=options.get("limit"),
        )
    except PricekitError as error:
        logger.warning(f"the report does not describe the table: {error}")
        return None


def sampled(count: int) -> str:
    """Return the sentence for more than `MOST_ROWS` rows."""
    return f"A random sample of {MOST_ROWS:,} of the {count:,} rows is judged."


SAME_PRICE = 0.005
"""Prices that differ by less, relative to them, are the same prediction."""

LEAST_EFFECT = 0.03
"""Words with a smaller contribution to the log price are not coloured."""

PRODUCTS_SHOWN = 3
"""Similar products that are shown with such a row."""

LONGEST_NAME = 90
"""Characters of the names of similar products."""

WORST = 10
"""Rows that are shown and explained: those with the largest errors or the most doubtful prices."""

COLUMNS_SHOWN = 2
"""Columns whose groups are drawn: those whose groups differ most in the metric."""

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of predicted prices without true ones."""

_FAR_WORDS = {
    "price": "the true price",
    "predicted": "the prediction",
    "both": "the true price and the prediction",
}

COLOURS = (
    "Words that raise the price are blue and underlined; words that lower it are orange, with a dotted line."
)


def sections_for(
    reader: ModelReader, table: Any, options: Mapping[str, Any], against: Sequence[Path] = ()
) -> list[Section]:
    """Return the sections; arguments and errors as of `subject_of`.

    Raises:
        ConfigError: a table without prices is given together with what needs prices, or options for reading a table
            without a table.
    """
    if table is None and options.get("among") is None:
        refuse_reading_options(options)
    is_model = kind_of(reader.path) != "cross-validation"
    if table is not None and is_model and has_no_prices(reader.open(), table, options):
        if needed := "against" if against else "metric" if options.get("metric") else "":
            raise ConfigError(
                f"the table has no prices, which {needed} needs; give a table with prices, or leave it out",
                parameters=(needed,),
            )
        return unpriced_sections(read_unpriced(reader, table, options))
    return sections_of(subject_of(reader, table, options, against))


def sections_of(subject: Subject) -> list[Section]:
    """Return the sections of the report on prices and predictions."""
    return sections_from(
        {
            "In short": _summary(subject),
            "How good the prices are": _quality(subject),
            "Where the prices fail": _failures(subject),
            "Whether the price intervals hold": _intervals(subject),
            "Which prices may go out without a person": _released(subject),
            "The data": data_blocks(subject.facts, subject.table, subject.rows.text.tolist()),
            "How to reproduce this": reproduction_blocks(subject.path, subject.facts),
        }
    )


GOOD, WEAK = 0.5, 0.2
"""A model is good if its error is at least 50% below that of the best constant price, and weak if less than 20%."""
WORSE = 1.25
"""The prices of a group fail if its score is at least this many times that of all rows."""
LEAST_GROUP = 20
"""Smaller groups are not called weak: their scores are too uncertain."""
DOUBTFUL_ROWS = 3
"""If this many of the worst rows have true prices far from those of similar products, the prices may be wrong."""
LARGE_SHARE = 25.0
"""If the worst rows have at least this percentage of all error, they come first."""
FEW_ROWS = 5_000
"""More training rows help a model that has learned from fewer rows than these."""


def _summary(subject: Subject) -> Iterator[Block]:
    weak = _weak_groups(subject)
    yield Summary(
        [
            ("How good it is", _how_good(subject)),
            ("Where it fails", _where_it_fails(subject, weak)),
            ("What to do next", _what_next(subject, weak)),
        ],
        f"The rules: an error at least {GOOD:.0%} below that of the best constant price is good, less than {WEAK:.0%} "
        f"below it is weak. A group fails if it has at least {LEAST_GROUP} rows and its {subject.metric.title} is at "
        f"least {WORSE:g} times that of all rows.",
    )


def _how_good(subject: Subject) -> str:
    scores, metric, constant = subject.scores, subject.metric, subject.constant
    score = scores.metrics[metric.name]
    rows = (
        "held-out rows" if subject.held_out else "rows of the table, if the model has not learned from them"
    )
    median = (
        f"Half of the predictions are within {scores.metrics['mdape']:.0f}% of the true price, over "
        f"{scores.rows:,} {rows}"
    )
    if not constant:
        return f"{median}. All rows have the same price, so a comparison with a constant price says nothing."
    below = 1 - score / constant
    if subject.is_better:
        verdict = f"the model is {'good' if below >= GOOD else 'usable' if below >= WEAK else 'weak'}"
    else:
        verdict = f"it is {'not clearly' if below > 0 else 'no'} better than a constant price"
    size = f"{abs(below):.0%} {'below' if below >= 0 else 'above'} that of the best constant price"
    return f"{median}; the {metric.title} of {metric.write(score)} is {size} ({metric.write(constant)}), so {verdict}."


def _weak_groups(subject: Subject) -> list[dict[Any, Any]]:
    """Return the worst range of true prices and the worst other group, if they fail."""
    groups, name = subject.errors.distinct_groups, subject.metric.name
    weak = groups[
        (groups["rows"] >= LEAST_GROUP)
        & (groups[name] >= WORSE * subject.scores.metrics[name])
        & (groups["group"] != OTHER)
    ].sort_values(name, ascending=False, kind="stable")
    by_price = weak["by"] == "price"
    return pd.concat([weak[by_price].head(1), weak[~by_price].head(1)]).to_dict("records")


def _where_it_fails(subject: Subject, weak: Sequence[Mapping[Any, Any]]) -> str:
    metric = subject.metric
    if not weak:
        if not (subject.errors.groups["rows"] >= LEAST_GROUP).any():
            return f"There are too few rows to tell: no group has {LEAST_GROUP}."
        return (
            f"No group of at least {LEAST_GROUP} rows has {WORSE:g} times the {metric.title} of all rows; the largest "
            "single errors are below."
        )
    parts = []
    for group in weak:
        bias = float(group["bias"])
        typical = (
            f", typically {abs(bias):.0f}% too {'high' if bias > 0 else 'low'}" if abs(bias) >= 5 else ""
        )
        rows = counted(int(group["rows"]), "row")
        parts.append(f"{_named(group)} ({metric.title} {metric.write(group[metric.name])}, {rows}{typical})")
    return f"The prices are worst where {', and where '.join(parts)}."


def _named(group: Mapping[Any, Any]) -> str:
    by = "the true price" if group["by"] == "price" else str(group["by"])
    return printable(f"{by} is {shorten(str(group['group']), 60)}")


def _what_next(subject: Subject, weak: Sequence[Mapping[Any, Any]]) -> str:
    if not subject.is_better:
        return (
            "Check the table first: pricekit check finds mixed currencies, wrong columns and rejected rows. As they "
            "are, the texts say little about the prices."
        )
    count, prices = len(subject.worst), subject.worst["price"]
    far = sum(beside.is_far(float(price)) for beside, price in zip(subject.compared, prices, strict=False))
    share, counts = subject.errors.share_of_worst(count), subject.facts.get("rows")
    trained = counts.get("train") if isinstance(counts, dict) else None
    if far >= DOUBTFUL_ROWS:
        return (
            f"Check the true prices of the rows with the largest errors below: {far} of {count} are far from those of "
            "similar products, so they may be wrong."
        )
    if share >= LARGE_SHARE:
        return f"Look at the {count} rows with the largest errors below: they have {share:.0f}% of all error."
    if groups := [
        group for group in weak if group["by"] != "price"
    ]:  # of a new product, the price is unknown
        return (
            f"Add training rows where {_named(groups[0])}, or a column that tells these rows apart; for now, check "
            "their prices by hand."
        )
    if isinstance(trained, int) and trained < FEW_ROWS:
        return f"Train with more rows: the model has learned from {trained:,}, and more than {FEW_ROWS:,} usually help."
    if kind_of(subject.path) != "ensemble":
        return "No single weakness stands out: an ensemble, which the policy best trains, is the next step."
    return "No single weakness stands out: rely on the price intervals where a wrong price is expensive."


def _quality(subject: Subject) -> Iterator[Block]:
    scores, metric, rows = subject.scores, subject.metric, subject.rows
    yield from (Paragraph(note) for note in subject.notes)
    constant, metrics = subject.constant, scores.metrics
    interval = " to ".join(map(metric.write, scores.interval or ()))
    figures = [
        Figure(metric.title, metric.write(metrics[metric.name]), interval and f"95% interval {interval}"),
        Figure("the best constant price", metric.write(constant), f"its {metric.title} on the same rows"),
        Figure("median error", f"{metrics['mdape']:.1f}%", "half of the rows have a smaller one"),
        Figure(
            "rows", f"{scores.rows:,}", "held out of the training" if subject.held_out else "of the table"
        ),
    ]
    if "r2_log" in metrics:
        figures.append(
            Figure("R² of the log price", f"{metrics['r2_log']:.2f}", "1 is exact, 0 is a constant price")
        )
    yield Figures(figures)
    if metrics[metric.name] >= constant > 0:
        yield Paragraph("The model is no better than a constant price.", "warning")
    if subject.comparison is not None:
        yield _comparison_table(subject.comparison)
    if len(folds := scores.folds) > 1:
        heads = ["fold", *map(str, folds.columns)]
        cells = [[f"{row[0]}", *(f"{value:.3g}" for value in row[1:])] for row in folds.itertuples()]
        yield TableBlock("Folds", heads, cells)
    yield from picture(
        lambda: PredictionDisplay(rows.price, rows.predicted, subject.currency).plot(),
        "Predicted against true prices. On the diagonal they are equal.",
    )
    if kind_of(subject.path) != "bundle":
        yield from picture(
            lambda: LearningCurveDisplay.from_model(subject.path),
            "The course of the training: the loss on the training rows and the metric on the validation rows.",
        )


def _comparison_table(comparison: Comparison) -> Block:
    metric, rows = comparison.metric, []
    for run in comparison.runs:
        interval = " to ".join(f"{bound:+.2f}" for bound in run.interval or ())
        difference = "" if run.difference is None else f"{run.difference:+.2f}"
        rows.append([run.name, metric.write(run.score), difference, interval, run.verdict])
    return TableBlock(
        f"Models on the {comparison.rows:,} rows that all of them hold out; differences are paired",
        ["model", metric.title, "difference", "95% interval", "verdict"],
        rows,
    )


def _failures(subject: Subject) -> Iterator[Block]:
    rows, metric, errors = subject.rows, subject.metric, subject.errors
    yield from picture(
        lambda: DecileDisplay.from_predictions(
            rows.price, rows.predicted, metric=metric.name, currency=subject.currency
        ),
        f"The {metric.title} by decile of the true price.",
    )
    yield from picture(
        lambda: ResidualDisplay.from_predictions(rows.price, rows.predicted, currency=subject.currency),
        "Predicted divided by true price. Above 1 the prediction is too high.",
    )
    groups = errors.distinct_groups
    own = groups[groups["by"].isin(rows.groups.columns)]
    spread = own.groupby("by")[metric.name].std(ddof=0).sort_values(ascending=False)
    for name in map(str, spread.index[:COLUMNS_SHOWN]):
        yield from picture(
            lambda name=name: GroupDisplay.from_predictions(  # type: ignore[misc]
                rows.price,
                rows.predicted,
                rows.groups[name],
                by=name,
                metric=metric.name,
                currency=subject.currency,
            ),
            f"The {metric.title} by {name}.",
        )
    if len(groups):
        also: dict[Group, list[str]] = {}
        for (by, group), first in errors.twins.items():
            also.setdefault(first, []).append(f"{by}: {shorten(group, 30)}")
        columns = ["by", "group", "rows", metric.name, "share", "bias"]
        cells = [
            [
                str(by),
                " = ".join([shorten(str(group), 60), *also.get((by, group), [])]),
                f"{count:,}",
                metric.write(score),
                f"{share:.1f}",
                f"{bias:+.1f}",
            ]
            for by, group, count, score, share, bias in groups.assign(few=groups["rows"] < LEAST_GROUP)
            .sort_values(["few", metric.name], ascending=[True, False], kind="stable")[columns]
            .head(MOST_LINES)
            .itertuples(index=False)
        ]
        heads = ["by", "group", "rows", metric.title, "% of all error", "typical deviation, %"]
        yield TableBlock(
            f"Groups of rows, the worst first; groups of fewer than {LEAST_GROUP} come last", heads, cells
        )
    count = len(subject.worst)
    share = errors.share_of_worst(count)
    yield Paragraph(
        f"The {counted(count, 'row')} with the largest errors have {share:.1f}% of all error. {COLOURS}"
    )
    yield ProductList(list(_worst(subject)))


def _worst(subject: Subject) -> Iterator[Product]:
    positions, compared = {int(row): place for place, row in enumerate(subject.rows.rows)}, subject.compared
    for place, row in enumerate(subject.worst.to_dict("records")):
        prices = f"true price {amount(row['price'])}, predicted {amount(row['predicted'])}"
        facts = [prices, f"error {row['error']:.3g}"]
        beside = compared[place] if compared else None
        if beside and (far := FAR_CELLS[beside.is_far(float(row["price"])), beside.far]):
            facts.append(f"far from similar products: {_FAR_WORDS[far]}")
        title = str(row["id"]) or f"row {row['row']}"
        explanation = _explain(subject, positions[int(row["row"])])
        yield _product(title, facts, row["text"], explanation, beside, float(row["predicted"]))


def _explain(subject: Subject, place: int) -> Explanation | None:
    """Explain a row, whose text is as the model reads it; None if the model cannot be opened."""
    try:
        predictor = subject.predictor(place)
        columns = replace(predictor.columns, formats=Formats())
        table = table_of([subject.rows.text[place]], columns)
        return explain_rows(table, columns, predictor.prices, currency=predictor.currency)[0]
    except PricekitError as error:
        logger.info(f"the report explains no rows: {error}")
        return None


def _intervals(subject: Subject) -> Iterator[Block]:
    rows, predictor = subject.rows, None if subject.held_out else subject.predictor(0)
    if predictor is not None and predictor.intervals is None:
        return
    if subject.held_out and kind_of(subject.path) != "cross-validation":
        yield Paragraph(
            "The intervals were fitted on these rows, so their coverage by level is close to the nominal one in any "
            "case. A cross-validation, or a table of other rows, tests them."
        )
    display = coverage_of(Judged(rows, subject.metric, subject.currency, predictor, subject.path))
    yield from picture(lambda: display.plot(by="level"), "True prices inside the interval, by its level.")
    yield from picture(
        lambda: display.plot(by="price"), "True prices inside the interval, by decile of the price."
    )
    if subject.rows.spread.min() < subject.rows.spread.max():
        caption = "True prices inside the interval, from the surest tenth of the rows to the least sure one."
        yield from picture(lambda: display.plot(by="spread"), caption)


def _released(subject: Subject) -> Iterator[Block]:
    predictor = None if subject.held_out else subject.predictor(0)
    released = released_shares(subject.path, subject.rows, predictor)
    if released is not None:
        yield Paragraph(_how_many_may_go_out(released))
        heads, cells = released_cells(released)
        yield TableBlock("Prices that may go out", heads, cells)
    if subject.scores.surest is not None:
        display = SurestDisplay(subject.scores.surest, subject.metric, subject.currency)
        caption = f"{subject.metric.title} by the share of the rows that are priced, surest rows first."
        yield from picture(display.plot, caption)


def _how_many_may_go_out(released: pd.DataFrame) -> str:
    """Say which share of the prices may go out, or that none may."""
    possible = released[released["share"] > 0]
    if not len(possible):
        return (
            "No price may go out without a person: the surest prices of the validation rows are not close enough to "
            "the true ones, or the rows are too few."
        )
    best = possible.sort_values(["confidence", "share"]).iloc[-1]
    return (
        f"{best['share']:.0%} of the prices may go out if {best['confidence']:.0%} of them shall be within a factor of "
        f"{best['within']:g} of the true price. `pricekit predict --within {best['within']:g}` says which."
    )


def unpriced_sections(subject: Unpriced) -> list[Section]:
    """Return the sections of the report on a table without prices."""
    return sections_from(
        {
            "In short": _summary_unpriced(subject),
            "What was predicted": _predicted(subject),
            "Which prices to doubt": _doubtful(subject),
            "The price intervals": _interval_widths(subject),
            "The data": data_blocks(subject.facts, subject.described, subject.table.text.tolist()),
            "How to reproduce this": reproduction_blocks(subject.path, subject.facts),
        }
    )


def _summary_unpriced(subject: Unpriced) -> Iterator[Block]:
    held_out = ""
    if subject.facts.get("metrics"):
        goal = goal_of(subject.facts)
        score = f"{goal.metric.title} was {goal.metric.write(goal.score)}"
        held_out = f"; on the held-out rows of the training, the {score}"
    good = f"The table has no prices, so nothing here shows how good the predictions are{held_out}."
    rows = counted(subject.compared, "row")
    if subject.products is None:
        doubt = "Without products with known prices, nothing shows which predictions to doubt."
        then = (
            "Look at the highest and the lowest predictions below, or compare with products of known prices."
        )
    elif subject.far:
        doubt = f"{len(subject.far):,} of {rows} are predicted far from the prices of similar products."
        then = "Check these rows by hand before their prices are used; the most distant ones are below."
    else:
        doubt = f"None of {rows} is predicted far from the prices of similar products."
        then = "Use the prices with their intervals; once true prices are known, make this report again."
    yield Summary(
        [("How good it is", good), ("Which prices to doubt", doubt), ("What to do next", then)],
        f"Far: outside the range of similar products, and over {FAR:g} times or under 1/{FAR:g} of their median.",
    )


def _predicted(subject: Unpriced) -> Iterator[Block]:
    yield Paragraph(
        "The table has no prices, so this page cannot say how good the predictions are: it has no errors, groups and "
        "coverage.",
        "warning",
    )
    if subject.note:
        yield Paragraph(subject.note)
    prices = subject.predicted
    unit = subject.predictor.currency or ""
    figures = [
        Figure("rows", f"{len(prices):,}", "of the table"),
        Figure("median price", amount(float(np.median(prices))), unit),
    ]
    if subject.facts.get("metrics"):
        goal = goal_of(subject.facts)
        figures.append(
            Figure(goal.metric.title, goal.metric.write(goal.score), "on the held-out rows of the training")
        )
    yield Figures(figures)
    cells = [[f"{level:.0%}", amount(float(np.quantile(prices, level)))] for level in QUANTILES]
    yield TableBlock("Predicted prices", ["share of the rows below", "price"], cells)


def _doubtful(subject: Unpriced) -> Iterator[Block]:
    if subject.products is None:
        yield Paragraph(
            "Products with known prices would show which predictions are far from those of similar products; see "
            "docs/comparables.md. Here are the highest and the lowest predicted prices."
        )
        order = np.argsort(-subject.predicted, kind="stable")
        places = list(dict.fromkeys([*order[: WORST // 2].tolist(), *order[-WORST // 2 :].tolist()]))
        yield ProductList([_unpriced_row(subject, place, None) for place in places])
        return
    far = subject.far
    yield Paragraph(
        f"Of {counted(subject.compared, 'row')}, {len(far):,} have a predicted price that is far from those of similar "
        f"products. {COLOURS if far else ''}"
    )
    yield ProductList([_unpriced_row(subject, place, beside) for place, beside in far[:WORST]])


def _unpriced_row(subject: Unpriced, place: int, beside: Comparables | None) -> Product:
    row = subject.table.take(np.array([place]))
    facts = [f"predicted {amount(float(subject.predicted[place]))}"]
    if beside is not None and beside.median is not None:
        facts.append(f"median of similar products {amount(beside.median)}")
    explanation = explain_prices(subject.predictor, row)[0]
    return _product(str(row.ids[0]), facts, row.text[0], explanation, beside, explanation.price)


def _interval_widths(subject: Unpriced) -> Iterator[Block]:
    rows = []
    intervals = subject.predictor.intervals
    if intervals is None:
        return
    for level in intervals.levels:
        low, high = intervals.bounds(subject.predicted, subject.spread, float(level))
        tenth, median, most = np.quantile(high / low, (0.1, 0.5, 0.9))
        rows.append([f"{level:.0%}", f"{tenth:.2f}", f"{median:.2f}", f"{most:.2f}"])
    heads = ["true prices inside", "surest tenth, at most", "median", "least sure tenth, at least"]
    yield TableBlock("Upper bound divided by lower bound", heads, rows)


def _product(
    title: str,
    facts: Sequence[str],
    text: str,
    explanation: Explanation | None,
    beside: Comparables | None,
    predicted: float,
) -> Product:
    """Return a row on the page.

    Args:
        title: its id.
        facts: what is said about its prices.
        text: shown without colours if there is no explanation.
        explanation: of its price; None if the model cannot be opened.
        beside: its comparables; None without products.
        predicted: its price in `facts`; the explained one differs after a refit, whose model has learned from the row.
    """
    similar = () if beside is None else beside.similar[:PRODUCTS_SHOWN]
    products = [f"{amount(each.price)}  {shorten(each.name, LONGEST_NAME)}" for each in similar]
    if explanation is None:
        return Product(title, facts, [Piece(shorten(text, MOST_CHARACTERS))], similar=products)
    base = f"{amount(explanation.base)}, the price without a text, × the factors of its words"
    why = f"{amount(explanation.price)} = {base}:"
    if abs(explanation.price - predicted) > SAME_PRICE * predicted:
        why = f"The final model, which has also learned from this row, predicts {why}"
    factors = []
    for each in explanation.phrases()[:5]:
        column = f"{each.column}: " if len(explanation.cells) > 1 and each.kind != "column" else ""
        factors.append(f"× {each.factor:.2f}  {column}{name_of(each)}")
    return Product(title, facts, _pieces(explanation), why, factors, products)


def _pieces(explanation: Explanation) -> list[Piece]:
    """Return the first text of a row, cut into coloured words and what is between them."""
    ((name, cell),) = list(explanation.cells.items())[:1]
    words: list[Factor] = [
        word for factor in explanation.factors if factor.column == name for word in factor.smallest()
    ]
    pieces, start = [], 0
    for word in sorted(words, key=lambda word: word.start):
        if word.end > MOST_CHARACTERS:
            break
        effect = word.log if abs(word.log) >= LEAST_EFFECT else 0.0
        pieces += [Piece(cell[start : word.start]), Piece(cell[word.start : word.end], effect)]
        start = word.end
    rest = cell[start:MOST_CHARACTERS] + "…" * (len(cell) > MOST_CHARACTERS)
    return [piece for piece in [*pieces, Piece(rest)] if piece.text]


MOST_TEXTS = 500
"""Larger tables are sampled to this number of texts, with a fixed seed."""
LEAST_PROBABILITY = 0.9
"""Below it, the language of a text counts as undetermined: most such texts are short."""
LEAST_SHARE = 0.02
"""Rarer languages are summed up: some of them are mistakes."""


def data_blocks(facts: Mapping[str, Any], table: TableReport | None, texts: Sequence[str]) -> Iterator[Block]:
    """Describe the rows of the training, the languages of texts, and a table.

    Args:
        facts: of the model: the content of its manifest, `run.json` or `cv.json`.
        table: the report on a table; None without one.
        texts: of the rows that the report is about, (N,).
    """
    if isinstance(counts := facts.get("rows"), dict):
        words = ", ".join(
            f"{int(number):,} {name}" for name, number in counts.items() if isinstance(number, int)
        )
        yield Paragraph(f"Rows of the training table {facts.get('table', '')}: {words}.")
    if languages := describe_languages(texts):
        yield Paragraph(languages)
    if table is None:
        yield Paragraph(
            "To see columns, rejected rows, leaks and duplicates here, make the report with the table of the training."
        )
        return
    yield TableBlock(
        f"Columns of {table.table}",
        ["column", "kind", "filled", "distinct", "used as", "left out"],
        [
            [
                c.name,
                c.kind,
                f"{c.filled:.0%}",
                f"{c.distinct:.0%}",
                table.role(c.name),
                table.left_out.get(c.name, ""),
            ]
            for c in table.columns[:MOST_LINES]
        ],
    )
    if table.rejected:
        rejected = [[reason, f"{count:,}"] for reason, count in table.rejected.items()]
        yield TableBlock("Rejected rows", ["reason", "rows"], rejected)
    yield from (Paragraph(note) for note in table.notes)


def reproduction_blocks(path: Path, facts: Mapping[str, Any]) -> Iterator[Block]:
    """Show the plugins and the settings of the training, and the command; `facts` as of `data_blocks`."""
    version = facts.get("pricekit_version", pricekit.__version__)
    if plugins := facts.get("plugins"):
        keys = ["kind", "name", "package", "version"]
        yield TableBlock(
            "Plugins",
            keys,
            [[str(plugin.get(key, "")) for key in keys] for plugin in plugins],
        )
    yield Paragraph(f"pricekit {version} made this report. The settings of the training:")
    for name in ("config.toml", "members.toml", "cv.toml"):
        file = path / name
        if file.is_file():
            yield Paragraph(file.read_text("utf-8", errors="replace")[:20_000], "code")
            command = "cv" if name == "cv.toml" else "train"
            yield Paragraph(f"pricekit {command} TABLE --config {name} --out run", "code")
            return
    yield Paragraph("A bundle does not contain the settings of its training; its manifest:")
    shown = {name: value for name, value in facts.items() if name not in ("files", "verified")}
    yield Paragraph(json.dumps(shown, indent=2, ensure_ascii=False, default=str), "code")


def describe_languages(texts: Sequence[str]) -> str:
    """Return one sentence on the languages of texts, the most frequent first."""
    some = [texts[place] for place in some_rows(len(texts), MOST_TEXTS).tolist()]
    if not some:
        return ""
    counts = Counter(language_of(text) for text in some)
    named = [(count, name) for name, count in counts.items() if count >= LEAST_SHARE * len(some) and name]
    shares = [f"{name} {count / len(some):.0%}" for count, name in sorted(named, reverse=True)]
    if rest := len(some) - sum(count for count, _ in named):
        shares.append(f"rare or undetermined {rest / len(some):.0%}")
    return f"Languages of {counted(len(some), 'text')}: {', '.join(shares)}."


@cache
def _identifier() -> Any:
    """Load the model of py3langid, which takes a second, with probabilities that sum to 1."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> str:
    """Return the English name of a text's language, "" if it cannot be determined."""
    code, probability = _identifier().classify(text)
    if probability < LEAST_PROBABILITY:
        return ""
    try:
        return Locale.parse(code).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):  # languages without a locale
        return str(code)
