"""Descriptions of a model: its columns, how a form shows them, and an example."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from pricekit.plugin import shorten
from pricekit.plugin.runners import LONGEST_PRODUCT, Predictor, Products, table_of
from pricekit_serve.models import Model

LONG = 60
"""Characters; a column with a longer median cell has long texts."""
VALUES = 40
"""How many frequent values of a column are listed."""
SAMPLED = 1_000
"""How many products of the bundle are read for a description."""


def describe(model: Model) -> dict[str, Any]:
    """Return what `GET /models` lists of a model."""
    predictor, intervals = model.predictor, model.predictor.intervals
    return {
        "name": model.name,
        "version": model.version,
        "columns": {
            "text": list(model.columns.text),
            "id": model.columns.id,
            "other": list(model.columns.others),
        },
        "currency": predictor.currency,
        "highest_interval": None if intervals is None else intervals.highest,
        "highest_confidence": None if intervals is None else intervals.highest_confidence,
        "comparables": predictor.products is not None,
        "engine": predictor.engine,
    }


def describe_in_full(model: Model) -> dict[str, Any]:
    """Return what `GET /models/NAME` answers: `describe`, the fields of a form, and an example from the products.

    `fields` has the text columns and then the other ones, each with its `kind`, "number", "short" or "long" (texts),
    its most frequent `values`, and whether it is `required`. `example` has cells by column: those of a product that the
    bundle contains, else frequent values, else an invented text; and `from`, "product" or "invented".

    Raises:
        BundleError: the products are damaged.
    """
    predictor = model.predictor
    products = _products(predictor, model.columns.text)
    fields = [
        {
            "name": name,
            "kind": _kind(predictor, name, cells := [row.get(name, "") for row in products]),
            "values": _values(predictor, name, cells),
            "required": name in model.columns.text,
        }
        for name in (*model.columns.text, *model.columns.others)
    ]
    return {**describe(model), "fields": fields, "example": _example(model, products, fields)}


def _products(predictor: Predictor, text: tuple[str, ...]) -> list[dict[str, str]]:
    """Return cells by column of products whose whole text the bundle contains; the most typical price first."""
    if (products := predictor.own_products()) is None:
        return []
    places = [
        place
        for place in range(0, len(products), -(-len(products) // SAMPLED))
        if 0 < len(products.text[place]) < LONGEST_PRODUCT
    ]
    usual = median(products.price[place] for place in places) if places else 0.0
    places.sort(key=lambda place: abs(float(products.price[place]) - usual))
    return [*_cells(predictor, products, places, text)]


def _cells(
    predictor: Predictor, products: Products, places: list[int], text: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    if not places:
        return
    frame = table_of([products.text[place] for place in places], predictor.columns).frame
    columns = {name: frame[name].astype("str").fillna("").tolist() for name in text if name in frame}
    for row, place in enumerate(places):
        ids = {} if predictor.columns.id is None else {predictor.columns.id: products.ids[place]}
        yield {name: cells[row] for name, cells in columns.items()} | ids


def _kind(predictor: Predictor, name: str, cells: list[str]) -> str:
    """Return the kind of a column, from how the training read it and from the cells of products."""
    formats, test = predictor.columns.formats, predictor.invented
    form = None if formats is None else formats.columns.get(name)
    if form is not None and form.kind == "number":
        return "number"
    if test is not None and name in test.columns:
        place = test.columns.index(name)
        if not any(isinstance(row[place], str) for row in test.rows):
            return "number"
    if filled := [len(cell) for cell in cells if cell]:
        return "long" if median(filled) > LONG else "short"
    single, sketch = predictor.columns.text == (name,), predictor.sketch
    cuts = sketch.text_length.cuts if single and sketch is not None else [0.0]
    return "long" if median(cuts or [0.0]) > LONG else "short"


def _values(predictor: Predictor, name: str, cells: list[str]) -> list[str]:
    """Return the most frequent values, as products write them; the sketch has them in lower case."""
    sketch = predictor.sketch
    if sketch is None or name not in sketch.fields or predictor.columns.text == (name,):
        return []
    written = {" ".join(cell.split()).lower(): cell for cell in cells}
    return [written.get(value, value) for value in list(sketch.fields[name].values)[:VALUES]]


def _example(model: Model, products: list[dict[str, str]], fields: list[dict[str, Any]]) -> dict[str, Any]:
    if products:
        fullest = max(products, key=lambda row: sum(map(bool, row.values())))
        return {"from": "product", "cells": fullest}
    cells = {field["name"]: field["values"][0] for field in fields if field["values"]}
    test = model.predictor.invented
    if test is not None and (first := model.columns.text[0]) not in cells:
        text = str(test.rows[0][test.columns.index(first)]) if first in test.columns else ""
        title = text.partition("\n")[0].partition(": ")[2] or text
        cells[first] = text if len(model.columns.text) == 1 else shorten(title, LONG)
    return {"from": "invented", "cells": cells}
