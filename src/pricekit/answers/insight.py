"""The rows that a user names, and answers about them: engineered features and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pricekit.errors import DataError
from pricekit.insight.counts import ComparedRows, read_rows, rows_of
from pricekit.insight.drift import Drift, drift_of, require_sketch
from pricekit.insight.priced_rows import PricedRows, is_priced_rows, read_priced_rows
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
from pricekit.table import Columns, Table, is_frame
from pricekit.wording import counted, shorten

_SHOWN_IDS = 3


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
    refuse_reading_options(options, f"{source} is a sketch of priced rows; leave it out")
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


def _is_readable(source: Any) -> bool:
    """Return whether rows are a file or a frame, which options describe, not texts or a table that was read."""
    return isinstance(source, Path | Address) or (is_frame(source) and not isinstance(source, Table))


def _texts(rows: Any, columns: Columns, options: Mapping[str, Any]) -> Table:
    refuse_reading_options(options, "the rows are texts; leave it out")
    return table_of(rows, columns)
