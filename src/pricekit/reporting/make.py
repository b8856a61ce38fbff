"""The sections of the report on any model and table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.comparables.products import Products
from pricekit.comparables.similar import MOST_COMPARED as MOST_COMPARED
from pricekit.comparables.similar import Comparables
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.groups import amount
from pricekit.evaluation.scores import goal_of
from pricekit.evaluation.table_report import TableReport
from pricekit.options import columns_over, read_options_of
from pricekit.prediction.predictor import Predictor
from pricekit.reporting.about import data_blocks, reproduction_blocks
from pricekit.reporting.build import MOST_ROWS, chosen_rows, describe_table, facts_of, sampled, subject_of
from pricekit.reporting.page import Block, Figure, Figures, Paragraph, Product, Section, TableBlock
from pricekit.reporting.page import Products as Rows
from pricekit.reporting.sections import COLOURS, product_of, sections_of
from pricekit.runs.load import load_model
from pricekit.support.text import counted
from pricekit.table import Table, read_table, source_name
from pricekit.workflows.evaluate import products_among

SHOWN = 10
"""Rows that are shown and explained."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Unpriced:
    """A model and a table without prices.

    Attributes:
        path: the folder of the model.
        facts: the content of its manifest or `run.json`.
        predictor: the model.
        table: N rows.
        predicted: their prices, float32 (N,).
        described: the report on the table; None if there is none.
        products: to compare prices with; None without any.
        note: how the rows were chosen; "" if they are all.
    """

    path: Path
    facts: Mapping[str, Any]
    predictor: Predictor
    table: Table
    predicted: np.ndarray
    described: TableReport | None
    products: Products | None
    note: str


def has_no_prices(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a table lacks the model's price column, and the user named no other one."""
    if options.get("price") is not None:
        return False
    columns = columns_over(predictor.columns, options)
    some = read_table(table, replace(columns, price=None), limit=1, read_options=read_options_of(options))
    return columns.price not in some.frame.columns


def read_unpriced(
    model: Path, predictor: Predictor, table: Any, options: Mapping[str, Any], products: Products | None
) -> Unpriced:
    """Read and price a table without prices; raises DataError if it has no row."""
    columns = replace(columns_over(predictor.columns, options), price=None)
    rows = read_table(table, columns, limit=options.get("limit"), read_options=read_options_of(options))
    if not len(rows):
        raise DataError(f"{source_name(table)} has no row; expected at least one", parameters=("table",))
    note = sampled(len(rows)).replace("judged", "priced") if len(rows) > MOST_ROWS else ""
    rows = rows.take(chosen_rows(len(rows), MOST_ROWS))
    products = products or predictor.own_products()
    described = describe_table(model, table, options, priced=False)
    return Unpriced(
        model, facts_of(model), predictor, rows, predictor.predict(rows), described, products, note
    )


def unpriced_sections(subject: Unpriced) -> list[Section]:
    """Return all sections."""
    return [
        Section("What was predicted", list(_predicted(subject))),
        Section("Which prices to doubt", list(_doubtful(subject))),
        Section("The price intervals", list(_intervals(subject))),
        Section("The data", list(data_blocks(subject.facts, subject.described, subject.table.text.tolist()))),
        Section("How to reproduce this", list(reproduction_blocks(subject.path, subject.facts))),
    ]


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
    if "metrics" in subject.facts:
        goal = goal_of(subject.facts)
        figures.append(
            Figure(goal.metric.title, goal.metric.write(goal.score), "on the held-out rows of the training")
        )
    yield Figures(figures)
    cells = [[f"{level:.0%}", amount(float(np.quantile(prices, level)))] for level in QUANTILES]
    yield TableBlock("Predicted prices", ["share of the rows below", "price"], cells, [True, True])


def _doubtful(subject: Unpriced) -> Iterator[Block]:
    if subject.products is None:
        yield Paragraph(
            "Products with known prices would show which predictions are far from those of similar products; see "
            "docs/comparables.md. Here are the highest and the lowest predicted prices."
        )
        order = np.argsort(-subject.predicted, kind="stable")
        places = list(dict.fromkeys([*order[: SHOWN // 2].tolist(), *order[-SHOWN // 2 :].tolist()]))
        yield Rows([_row(subject, place, None) for place in places])
        return
    some = chosen_rows(len(subject.table), MOST_COMPARED)
    found = subject.predictor.comparables(subject.table.take(some), among=subject.products)
    far = [(int(place), each) for place, each in zip(some, found, strict=True) if each.far]
    far.sort(key=lambda pair: -pair[1].distance)
    yield Paragraph(
        f"Of {counted(len(some), 'row')}, {len(far):,} have a predicted price that is outside of the range of similar "
        f"products, and over twice or under half of their median. {COLOURS if far else ''}"
    )
    yield Rows([_row(subject, place, beside) for place, beside in far[:SHOWN]])


def _row(subject: Unpriced, place: int, beside: Comparables | None) -> Product:
    row = subject.table.take(np.array([place]))
    facts = [f"predicted {amount(float(subject.predicted[place]))}"]
    if beside is not None and beside.median is not None:
        facts.append(f"median of similar products {amount(beside.median)}")
    explanation = subject.predictor.explain(row)[0]
    return product_of(str(row.ids[0]), facts, row.text[0], explanation, beside)


def _intervals(subject: Unpriced) -> Iterator[Block]:
    rows = []
    for level in subject.predictor.require_intervals().levels:
        low, high = subject.predictor.interval(subject.predicted, level)
        rows.append([f"{level:.0%}", f"{float(np.median(high / low)):.2f}"])
    yield TableBlock(
        "Upper bound divided by lower bound", ["true prices inside", "median ratio"], rows, [True, True]
    )


def sections_for(
    model: Path,
    table: Any,
    options: Mapping[str, Any],
    *,
    against: Sequence[Path] = (),
    metric: str | None = None,
    among: Any = None,
) -> list[Section]:
    """Return the sections; arguments and errors as of `pricekit.reporting.build.subject_of`.

    Raises:
        ConfigError: a table without prices is given together with what needs prices.
    """
    if table is not None and not (model / "cv.json").is_file():
        predictor = load_model(model)
        if has_no_prices(predictor, table, options):
            if needed := [name for name, value in (("against", against), ("metric", metric)) if value]:
                raise ConfigError(
                    f"the table has no prices, which {needed[0]} needs; give a table with prices, or leave it out",
                    parameters=(needed[0],),
                )
            products = None if among is None else products_among(model, among)
            return unpriced_sections(read_unpriced(model, predictor, table, options, products))
    return sections_of(subject_of(model, table, options, against=against, metric=metric, among=among))
