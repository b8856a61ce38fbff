"""The rows that a user names, and answers about them: engineered features and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError, DataError
from pricekit.insight.counts import ComparedRows, read_rows, rows_of
from pricekit.insight.drift import Drift, drift_of, require_sketch
from pricekit.insight.priced_rows import PricedRows, is_priced_rows, read_priced_rows
from pricekit.io.storage import Address
from pricekit.options import (
    columns_over,
    names_of,
    path_or_frame,
    read_options_of,
    reading_options_in,
    rows_without_prices,
)
from pricekit.predict.members import table_of
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, Table, is_frame
from pricekit.wording import counted, shorten

_SHOWN_IDS = 3


def rows_of_user(
    reader: ModelReader, table: Any, options: Mapping[str, Any], row: str | Sequence[str] = ()
) -> Table:
    """Return rows without prices: all of a table or of texts, or those with some ids; raises DataError, ConfigError."""
    ids = names_of(row, "row")
    return with_ids(read_unpriced(table, reader.columns, options), ids)


def compute_features(reader: ModelReader, table: Any, options: Mapping[str, Any]) -> pd.DataFrame:
    """Compute the features that a model reads; see `pricekit.Model.features`."""
    rows = rows_of_user(reader, table, options)
    return pd.concat([rows.ids.reset_index(drop=True), *feature_frames(reader.open(), rows)], axis=1)


def feature_frames(predictor: Predictor, table: Table) -> list[pd.DataFrame]:
    """Return the features of rows, float32; the names of those of several members begin with the member's number."""
    members = [member.preprocessor.features for member in predictor.members]
    return [
        pd.DataFrame(features.transform(table), columns=[f"{number}:{name}" for name in features.names])
        if len(members) > 1
        else pd.DataFrame(features.transform(table), columns=list(features.names))
        for number, features in enumerate(members)
    ]


def measure_drift(
    reader: ModelReader, table: Any, options: Mapping[str, Any], limits: Mapping[str, float]
) -> Drift:
    """Compare rows with those that a model was trained on; see `pricekit.Model.drift`."""
    priced = _priced_rows(table, options)
    predictor = reader.open()
    return drift_of(predictor, priced or _compared_rows(predictor, table, options), limits)


def _priced_rows(table: Any, options: Mapping[str, Any]) -> PricedRows | None:
    """Return the content of a sketch of priced rows, None for a table; raises ConfigError, DataError."""
    source = path_or_frame(table)
    if not isinstance(source, PricedRows) and not (isinstance(source, Path) and is_priced_rows(source)):
        return None
    if named := reading_options_in(options):
        raise ConfigError(
            f"{source} is a sketch of priced rows, which has no columns or rows to choose; leave {named[0]} out",
            parameters=tuple(named),
        )
    return source if isinstance(source, PricedRows) else read_priced_rows(source)


def _compared_rows(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> ComparedRows:
    source = path_or_frame(table)
    if not _is_readable(source):
        return rows_of(_texts(source, predictor.columns, options))
    return read_rows(
        source,
        columns_over(predictor.columns, options),
        require_sketch(predictor.sketch).others,
        required=[*names_of(options.get("text"), "text"), *names_of(options.get("price"), "price")],
        limit=options.get("limit"),
        read_options=read_options_of(options),
    )


def read_unpriced(table: Any, columns: Columns, options: Mapping[str, Any]) -> Table:
    """Return the rows of a file or a frame, or texts, with a model's columns, but not their prices.

    Raises:
        DataError: the table cannot be read.
        ConfigError: options for reading a table are given for texts.
    """
    source = path_or_frame(table)
    if _is_readable(source):
        return rows_without_prices(source, columns, options)
    return _texts(source, columns, options)


def _is_readable(source: Any) -> bool:
    """Return whether rows are a file or a frame, which options describe, not texts or a table that was read."""
    return isinstance(source, Path | Address) or (is_frame(source) and not isinstance(source, Table))


def _texts(rows: Any, columns: Columns, options: Mapping[str, Any]) -> Table:
    if named := reading_options_in(options):
        raise ConfigError(
            f"{named[0]} is an option for reading a file or a frame, but the rows are texts; leave it out",
            parameters=tuple(named),
        )
    return table_of(rows, columns)


def with_ids(table: Table, ids: Sequence[str]) -> Table:
    """Return the rows with some ids, by default all; raises DataError."""
    if not ids:
        return table
    known = table.ids.astype("str")
    if missing := [id_ for id_ in ids if not (known == id_).any()]:
        examples = ", ".join(shorten(id_) for id_ in known.head(_SHOWN_IDS))
        raise DataError(
            f"the table has no row with the id {shorten(missing[0])}; it has {counted(len(known), 'row')} with "
            f"{known.name} {examples}{', …' if len(known) > _SHOWN_IDS else ''}",
            parameters=("row",),
            missing=missing,
        )
    return table.take(np.flatnonzero(known.isin(list(ids)).to_numpy()))
