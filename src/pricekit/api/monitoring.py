"""Whether a table has drifted away from what a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pricekit.errors import ConfigError
from pricekit.monitoring.alarms import limits_of
from pricekit.options import (
    PricedOptions,
    columns_over,
    model_path,
    names_of,
    path_or_frame,
    read_options_of,
    with_options,
)
from pricekit.results import PathLike
from pricekit.storage import Address, check_bucket, location_of

if TYPE_CHECKING:
    from pricekit.monitoring.counts import ComparedRows
    from pricekit.monitoring.differences import Drift
    from pricekit.monitoring.priced_rows import PricedRows
    from pricekit.prediction.predictor import Predictor
    from pricekit.table import TableSource


@with_options(PricedOptions)
def drift(
    model: PathLike,
    table: TableSource,
    *,
    out: PathLike | None = None,
    engine: str | None = None,
    fail_over: Mapping[str, float] | Sequence[str] | None = None,
    **options: Unpack[PricedOptions],
) -> Drift:
    """Measure how the rows of a table differ from those that a model was trained on.

    The training rows are not needed: the model holds a sketch of them. `Predictor.drift` does the same for rows in
    memory.

    Args:
        model: a bundle, a run or an ensemble.
        table: a file, a folder of Parquet files, a pattern such as "new/*.csv", or a frame. Missing columns are
            reported. Of more than 10,000 rows, so many are drawn by chance, with a fixed seed, in bounded memory. If it
            has known prices, SMAPE is measured, too. Or a sketch of priced rows, which `predict` has written with
            `watch`, or a server.
        out: also write an HTML page, which needs no network; an existing file is replaced.
        engine: as for `load`.
        fail_over: limits by measure, such as {"psi": 0.2} or ["psi=0.2"]; `failures` of the result names those that are
            exceeded. `pricekit.monitoring.alarms.MEASURES` lists the measures.
        **options: see below.

    Returns:
        Alarms, measures, and frames of features, values, words, missing fields and rows.

    Raises:
        BundleError: the model cannot be opened.
        ConfigError: a limit names an unknown measure, or jinja2 or matplotlib is not installed for `out`; or options
            that choose columns or rows are given for a sketch.
        DataError: the table has no rows, or cannot be read; or another model priced the rows of the sketch.
        PluginError: as for `load`.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(400), epochs=1, features="fast15")
        >>> pk.drift(run, pk.make_catalog(400, seed=1)).verdict
        'No drift: the table resembles the training table.'
    """
    from pricekit.runs.load import load_model

    limits, source = limits_of(fail_over), model_path(model, "model")
    target = None if out is None else _page_at(out)
    priced = _priced_rows(table, options)
    predictor = load_model(source, engine)
    rows = _rows(predictor, table, options) if priced is None else priced
    found = predictor.drift(rows, fail_over=limits)
    if target is not None:
        from pricekit.reporting.drift import drift_sections
        from pricekit.reporting.page import write_page

        write_page(target, f"Drift of {source.name}", drift_sections(found))
    return found


def _priced_rows(table: Any, options: Mapping[str, Any]) -> PricedRows | None:
    """Return the content of a sketch of priced rows, None for a table; raises ConfigError, DataError."""
    from pricekit.monitoring.priced_rows import is_priced_rows, read_priced_rows

    source = path_or_frame(table)
    if not isinstance(source, Path) or not is_priced_rows(source):
        return None
    if given := [name for name, value in options.items() if value is not None]:
        raise ConfigError(
            f"{source} is a sketch of priced rows, which has no columns or rows to choose; leave {given[0]} out",
            parameters=tuple(given),
        )
    return read_priced_rows(source)


def _rows(predictor: Predictor, table: Any, options: Mapping[str, Any]) -> ComparedRows:
    from pricekit.monitoring.counts import read_rows
    from pricekit.monitoring.differences import require_sketch

    return read_rows(
        path_or_frame(table),
        columns_over(predictor.columns, options),
        require_sketch(predictor.sketch).others,
        required=_named(options),
        limit=options.get("limit"),
        read_options=read_options_of(options),
    )


def _page_at(out: PathLike) -> Any:
    """Return the path of the page; raises ConfigError if it cannot be made, before the table is read."""
    from pricekit.reporting.page import require_libraries

    require_libraries()
    target = location_of(out, "out")
    if isinstance(target, Address):
        check_bucket(target)
    return target


def _named(options: Mapping[str, Any]) -> list[str]:
    """Return the columns that options name, which must exist."""
    return [*names_of(options.get("text"), "text"), *names_of(options.get("price"), "price")]
