"""Functions of tables, which train nothing: what pricekit reads in them, and their engineered features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pricekit.options import (
    PathLike,
    PricedOptions,
    ReadingOptions,
    names_of,
    path_or_frame,
    read_options_of,
    rows_without_prices,
    with_options,
)
from pricekit.storage import Address, location_of

if TYPE_CHECKING:
    import pandas as pd

    from pricekit.evaluation.table_report import TableReport
    from pricekit.table import TableSource


@with_options(PricedOptions)
def check(table: TableSource, **options: Unpack[PricedOptions]) -> TableReport:
    """Report how pricekit reads a table and which problems it has. Nothing is trained.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        **options: see below.

    Returns:
        Columns with their kinds, usable rows, prices, duplicates, leaks, and notes.

    Raises:
        DataError: the table cannot be read, or a named column is missing.

    Example:
        >>> import pricekit as pk
        >>> report = pk.check(pk.make_catalog(100))
        >>> report.text, report.price
        (('catalog_content',), 'price')
    """
    from pricekit.evaluation.table_report import profile_table

    return profile_table(
        path_or_frame(table),
        text=names_of(options.get("text"), "text"),
        price=options.get("price"),
        id=options.get("id"),
        read_options=read_options_of(options),
        limit=options.get("limit"),
    )


@with_options(ReadingOptions)
def compute_features(
    table: TableSource,
    *,
    features: str | Sequence[str] = "optimized22",
    out: PathLike | None = None,
    **options: Unpack[ReadingOptions],
) -> pd.DataFrame:
    """Compute the engineered features of a table, fitted on all of its rows, for inspection.

    Training fits them on the training rows only, and prediction uses that state.

    Args:
        table: a file, or a frame (pandas, Arrow, polars, or anything with the Arrow PyCapsule interface).
        features: feature plugins by name.
        out: also write them as CSV, TSV, Parquet or JSON lines.
        **options: see below.

    Returns:
        The ids, then one float32 column for each feature, (N, 1 + K).

    Raises:
        DataError: the table cannot be read, or `out` cannot be written.
        PluginError: a feature is unknown or fails.

    Example:
        >>> import pricekit as pk
        >>> pk.compute_features(pk.make_catalog(100), features="fast15").shape
        (100, 16)
    """
    import pandas as pd

    from pricekit.features.fit import fit_features
    from pricekit.table import Columns, check_output, write_frame

    source = path_or_frame(table)
    target = None if out is None else location_of(out, "out")
    if target is not None:
        check_output(target, [source] if isinstance(source, Path | Address) else [])
    rows = rows_without_prices(source, Columns(), options)
    fitted, _ = fit_features(names_of(features, "features"), {}, rows)
    frame = pd.concat([rows.ids, pd.DataFrame(fitted.transform(rows), columns=fitted.names)], axis=1)
    if target is not None:
        write_frame(target, frame)
    return frame
