"""The sections of the report, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from pricekit.comparables.similar import FAR_CELLS, Comparables, compare_rows
from pricekit.errors import PricekitError
from pricekit.evaluation.error_report import ErrorReport, find_errors
from pricekit.evaluation.groups import amount
from pricekit.evaluation.scores import constant_score
from pricekit.explanation.attribution import Explanation, Factor, name_of
from pricekit.plots import (
    CoverageDisplay,
    DecileDisplay,
    GroupDisplay,
    LearningCurveDisplay,
    PredictionDisplay,
    ResidualDisplay,
)
from pricekit.plots.coverage import coverage_of
from pricekit.plots.source import Judged
from pricekit.reporting.about import data_blocks, reproduction_blocks
from pricekit.reporting.build import Subject
from pricekit.reporting.page import (
    Block,
    Figure,
    Figures,
    Paragraph,
    Piece,
    Product,
    Products,
    Section,
    TableBlock,
    picture,
)
from pricekit.support.log import logger
from pricekit.support.text import counted, shorten

MOST_CHARACTERS = 1_500
"""Characters of such a row that are shown."""

LEAST_EFFECT = 0.03
"""Words with a smaller contribution to the log price are not coloured."""

PRODUCTS_SHOWN = 3
"""Similar products that are shown with such a row."""

LONGEST_NAME = 90
"""Characters of their names."""

COLOURS = (
    "Words that raise the price are blue and underlined; words that lower it are orange, with a dotted line."
)


def product_of(
    title: str, facts: Sequence[str], text: str, explanation: Explanation | None, beside: Comparables | None
) -> Product:
    """Return a row on the page.

    Args:
        title: its id.
        facts: what is said about its prices.
        text: shown without colours if there is no explanation.
        explanation: of its price; None if the model cannot be opened.
        beside: its comparables; None without products.
    """
    similar = () if beside is None else beside.similar[:PRODUCTS_SHOWN]
    products = [f"{amount(each.price)}  {shorten(each.name, LONGEST_NAME)}" for each in similar]
    if explanation is None:
        return Product(title, facts, [Piece(shorten(text, MOST_CHARACTERS))], (), products)
    words = f"the words below: {amount(explanation.base)} × their factors = {amount(explanation.price)}"
    factors = [f"× {each.factor:.2f}  {name_of(each)}" for each in explanation.phrases()[:5]]
    return Product(title, [*facts, words], _pieces(explanation), factors, products)


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


WORST = 10
"""Rows with the largest errors that are shown and explained."""

COLUMNS_SHOWN = 2
"""Columns whose groups are drawn: those whose groups differ most in the metric."""

_FAR_WORDS = {
    "price": "the true price",
    "predicted": "the prediction",
    "both": "the true price and the prediction",
}

MOST_LINES = 100
"""Rows of a table of the report."""


def sections_of(subject: Subject) -> list[Section]:
    """Return all sections."""
    errors = find_errors(subject.rows, None, subject.metric)
    return [
        Section("How good the prices are", list(_quality(subject))),
        Section("Where the prices fail", list(_failures(subject, errors))),
        Section("Whether the price intervals hold", list(_intervals(subject))),
        Section("The data", list(data_blocks(subject.facts, subject.table, subject.rows.text.tolist()))),
        Section("How to reproduce this", list(reproduction_blocks(subject.path, subject.facts))),
    ]


def _quality(subject: Subject) -> Iterator[Block]:
    scores, metric, rows = subject.scores, subject.metric, subject.rows
    yield from (Paragraph(note) for note in subject.notes)
    constant = constant_score(rows, rows, metric)
    found = scores.metrics
    interval = (
        "" if scores.interval is None else " to ".join(metric.write(bound) for bound in scores.interval)
    )
    figures = [
        Figure(
            metric.title, metric.write(found[metric.name]), f"95% interval {interval}" if interval else ""
        ),
        Figure("the best constant price", metric.write(constant), f"its {metric.title} on the same rows"),
        Figure("median error", f"{found['mdape']:.1f}%", "half of the rows have a smaller one"),
        Figure(
            "rows", f"{scores.rows:,}", "held out of the training" if subject.held_out else "of the table"
        ),
    ]
    if "r2_log" in found:
        figures.append(
            Figure("R² of the log price", f"{found['r2_log']:.2f}", "1 is exact, 0 is a constant price")
        )
    yield Figures(figures)
    if metric(rows.predicted, rows.price, rows.weight) >= constant > 0:
        yield Paragraph("The model is no better than a constant price.", "warning")
    if subject.comparison is not None:
        yield _comparison_table(subject)
    if len(scores.folds) > 1:
        yield _folds_table(subject)
    yield from picture(
        lambda: PredictionDisplay(rows.price, rows.predicted, subject.currency).plot(),
        "Predicted against true prices. On the diagonal they are equal.",
    )
    if (subject.path / "run.json").is_file() or (subject.path / "cv.json").is_file():
        yield from picture(
            lambda: LearningCurveDisplay.from_model(subject.path),
            "The course of the training: the loss on the training rows and the metric on the validation rows.",
        )


def _comparison_table(subject: Subject) -> Block:
    assert subject.comparison is not None
    metric = subject.comparison.metric
    rows = []
    for run in subject.comparison.runs:
        interval = "" if run.interval is None else " to ".join(f"{bound:+.2f}" for bound in run.interval)
        difference = "" if run.difference is None else f"{run.difference:+.2f}"
        rows.append([run.name, metric.write(run.score), difference, interval, run.verdict])
    return TableBlock(
        f"Models on the {subject.comparison.rows:,} rows that all of them hold out; differences are paired",
        ["model", metric.title, "difference", "95% interval", "verdict"],
        rows,
        [False, True, True, False, False],
    )


def _folds_table(subject: Subject) -> Block:
    folds = subject.scores.folds
    rows = [
        [f"{fold}", *(f"{value:.3g}" for value in row)]
        for fold, row in zip(folds.index, folds.to_numpy(), strict=True)
    ]
    return TableBlock("Folds", ["fold", *map(str, folds.columns)], rows, [True] * (1 + len(folds.columns)))


def _failures(subject: Subject, errors: ErrorReport) -> Iterator[Block]:
    rows, metric = subject.rows, subject.metric
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
    for name in _most_varied(errors.groups, metric.name, rows.groups):
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
    if len(errors.groups):
        yield _groups_table(errors)
    count = min(WORST, len(errors.rows))
    share = errors.share_of_worst(count)
    yield Paragraph(
        f"The {counted(count, 'row')} with the largest errors have {share:.1f}% of all error. {COLOURS}"
    )
    yield Products(list(_worst(subject, errors, count)))


def _most_varied(groups: pd.DataFrame, metric: str, columns: pd.DataFrame) -> list[str]:
    own = groups[groups["by"].isin(columns.columns)]
    spread = own.groupby("by")[metric].std(ddof=0).sort_values(ascending=False)
    return [str(name) for name in spread.index[:COLUMNS_SHOWN]]


def _groups_table(errors: ErrorReport) -> Block:
    metric = errors.metric
    columns = ["by", "group", "rows", metric.name, "share", "bias"]
    rows = [
        [str(by), shorten(str(group), 60), f"{count:,}", metric.write(score), f"{share:.1f}", f"{bias:+.1f}"]
        for by, group, count, score, share, bias in errors.groups[columns]
        .head(MOST_LINES)
        .itertuples(index=False)
    ]
    heads = ["by", "group", "rows", metric.title, "% of all error", "typical deviation, %"]
    return TableBlock("Groups of rows", heads, rows, [False, False, True, True, True, True])


def _worst(subject: Subject, errors: ErrorReport, count: int) -> Iterator[Product]:
    positions = {int(row): place for place, row in enumerate(subject.rows.rows)}
    worst = errors.worst(count)
    compared = [] if subject.products is None else compare_rows(worst, subject.products, subject.currency)
    for place, row in enumerate(worst.to_dict("records")):
        prices = f"true price {amount(row['price'])}, predicted {amount(row['predicted'])}"
        facts = [prices, f"error {row['error']:.3g}"]
        beside = compared[place] if compared else None
        if beside and (far := FAR_CELLS[beside.is_far(float(row["price"])), beside.far]):
            facts.append(f"far from similar products: {_FAR_WORDS[far]}")
        title = str(row["id"]) or f"row {row['row']}"
        yield product_of(title, facts, row["text"], _explain(subject, positions[int(row["row"])]), beside)


def _explain(subject: Subject, place: int) -> Explanation | None:
    """Explain a row; None if the model cannot be opened."""
    try:
        return subject.predictor(place).explain([subject.rows.text[place]])[0]
    except PricekitError as error:
        logger.info(f"the report explains no rows: {error}")
        return None


def _intervals(subject: Subject) -> Iterator[Block]:
    path = subject.path
    if subject.held_out and (path / "run.json").is_file():
        yield Paragraph(
            "The intervals were fitted on these rows, so their coverage by level is close to the nominal one in any "
            "case. A cross-validation, or a table of other rows, tests them."
        )
    yield from _coverage(subject)


def _coverage(subject: Subject) -> Iterator[Block]:
    rows = subject.rows
    predictor = None if subject.held_out else subject.predictor(0)
    levels, inside = coverage_of(Judged(rows, subject.metric, subject.currency, predictor, subject.path))
    display = CoverageDisplay(rows.price, inside, levels, rows.weight, subject.currency)
    yield from picture(lambda: display.plot(by="level"), "True prices inside the interval, by its level.")
    yield from picture(
        lambda: display.plot(by="price"), "True prices inside the interval, by decile of the price."
    )
