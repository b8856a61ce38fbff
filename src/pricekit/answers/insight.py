"""The rows that a user names, and answers about them: features, explanations, comparables and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError, DataError
from pricekit.insight import EVALUATIONS, PRODUCTS
from pricekit.insight.comparables import Comparables, find_comparables
from pricekit.insight.counts import Priced, read_rows, rows_of
from pricekit.insight.drift import Drift, compare, compare_priced
from pricekit.insight.explanations import Explanation, explain_rows
from pricekit.insight.priced_rows import PricedRows, is_priced_rows, read_priced_rows
from pricekit.insight.products import Products, products_of
from pricekit.insight.sketch import require_sketch
from pricekit.io.progress import tracked
from pricekit.io.storage import Address
from pricekit.options import (
    columns_over,
    names_of,
    path_or_frame,
    read_options_of,
    refuse_reading_options,
    rows_without_prices,
)
from pricekit.predict.members import table_of
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, TableSource, is_frame, read_usable
from pricekit.table.currency import require_same_currency
from pricekit.wording import counted, shorten

_SHOWN_IDS = 3

WINDOW = 2048
"""Rows that are priced at a time."""


def rows_of_user(
    reader: ModelReader, table: Any, options: Mapping[str, Any], row: str | Sequence[str] = ()
) -> Table:
    """Return rows without prices: all of a table or of texts, or those with some ids.

    Raises:
        DataError: the table cannot be read, or has no row with one of the ids.
        ConfigError: options for reading a table are given for texts.
    """
    ids, source = names_of(row, "row"), path_or_frame(table)
    if _is_readable(source):
        rows = rows_without_prices(source, reader.columns, options)
    else:
        rows = _texts(source, reader.columns, options)
    if not ids:
        return rows
    known = rows.ids.astype("str")
    if missing := [id_ for id_ in ids if not (known == id_).any()]:
        examples = ", ".join(shorten(id_) for id_ in known.head(_SHOWN_IDS))
        raise DataError(
            f"the table has no row with the id {shorten(missing[0])}; it has {counted(len(known), 'row')} with "
            f"{known.name} {examples}{', …' if len(known) > _SHOWN_IDS else ''}",
            parameters=("row",),
            missing=missing,
        )
    return rows.take(np.flatnonzero(known.isin(ids).to_numpy()))


def compute_features(reader: ModelReader, table: Any, options: Mapping[str, Any]) -> pd.DataFrame:
    """Compute the features that a model reads; see `pricekit.Model.features`."""
    rows, members = rows_of_user(reader, table, options), reader.open().members
    frames: list[pd.Series | pd.DataFrame] = [rows.ids.reset_index(drop=True)]
    for number, member in enumerate(members):
        features = member.preprocessor.features
        names = [f"{number}:{name}" if len(members) > 1 else name for name in features.names]
        frames.append(pd.DataFrame(features.transform(rows), columns=names))
    return pd.concat(frames, axis="columns")


def explain_prices(predictor: Predictor, table: Table, evaluations: int = EVALUATIONS) -> list[Explanation]:
    """Return one explanation per row of the prices of a model.

    Args:
        predictor: the open model.
        table: the rows, without prices.
        evaluations: the number of prices for each row, at least 2; more if two for each line are more.

    Raises:
        ConfigError: fewer than two evaluations.
    """
    if evaluations < 2:
        raise ConfigError(
            f"an explanation has {evaluations} evaluations; expected at least 2",
            parameters=("evaluations",),
        )
    return explain_rows(table, predictor.columns, predictor.prices, evaluations, predictor.currency)


def comparables_of(
    predictor: Predictor,
    table: Table,
    k: int = PRODUCTS,
    *,
    same: Sequence[str] = (),
    among: TableSource | Products | None = None,
) -> list[Comparables]:
    """Return, for each row that a model prices, the products with known prices whose texts are most similar to it.

    Args:
        predictor: the open model.
        table: the rows, without prices.
        k: the number of products, 1 to 1,000.
        same: what the products must have in common with the row: "brand", "unit", "size" (up to a factor of 1.25).
        among: products, or a table with prices; None: those that the model contains.

    Raises:
        BundleError: the bundle contains damaged products.
        ConfigError: `k` or `same` is invalid, or the model contains no products, as a run or most bundles.
        DataError: `among` cannot be read, or none of its rows has a price.
    """
    products = among if isinstance(among, Products) else _products_of(predictor, among)
    return find_comparables(table, predictor.prices(table), products, k, same, predictor.currency)


def _products_of(predictor: Predictor, among: TableSource | None) -> Products:
    """Return the products of a table with prices; None: those that the model contains."""
    if among is not None:
        table = among if isinstance(among, Table) else read_usable(among, predictor.columns)[0]
        require_same_currency(predictor.currency, table.price_style.currency)
        return products_of(table)
    if (products := predictor.own_products()) is None:
        raise ConfigError(
            "this model contains no products to compare with: only a bundle that was exported with comparables does; "
            "give a table of products with prices",
            parameters=("among",),
        )
    return products


def measure_drift(
    reader: ModelReader, table: Any, options: Mapping[str, Any], limits: Mapping[str, float]
) -> Drift:
    """Compare rows with those that a model was trained on; see `pricekit.Model.drift`."""
    source = path_or_frame(table)
    is_file = isinstance(source, Path) and is_priced_rows(source)
    if is_file or isinstance(source, PricedRows):
        refuse_reading_options(options, f"{source} is a sketch of priced rows; leave it out")
        source = read_priced_rows(source) if is_file else source
    predictor = reader.open()
    sketch = require_sketch(predictor.sketch)
    if isinstance(source, PricedRows):
        return compare_priced(sketch, source, limits, predictor.preprocessor.features.words)
    if _is_readable(source):
        rows = read_rows(
            source,
            columns_over(predictor.columns, options),
            sketch.others,
            required=[*names_of(options.get("text"), "text"), *names_of(options.get("price"), "price")],
            limit=options.get("limit"),
            read_options=read_options_of(options),
        )
    else:
        rows = rows_of(_texts(source, predictor.columns, options))
    return compare(sketch, rows, predictor.preprocessor, partial(_priced, predictor), limits)


def _priced(predictor: Predictor, table: Table) -> Priced:
    features, tokens, predicted = [], [], []
    with tracked("pricing", list(table.windows(WINDOW)), len) as windows:
        for window in windows:
            inputs = predictor.prepare(window)
            features.append(inputs[0].features)
            tokens.append(inputs[0].tokens.ids)
            predicted.append(predictor.price(inputs))
    return Priced(*map(np.concatenate, (features, tokens, predicted)))


def _is_readable(source: Any) -> bool:
    """Return whether rows are a file or a frame, which options describe, not texts or a table that was read."""
    return isinstance(source, Path | Address) or (is_frame(source) and not isinstance(source, Table))


def _texts(rows: Any, columns: Columns, options: Mapping[str, Any]) -> Table:
    refuse_reading_options(options, "the rows are texts; leave it out")
    return table_of(rows, columns)
