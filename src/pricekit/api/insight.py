"""Why a model's prices are as they are, similar products, and whether new rows differ from what it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pricekit.errors import ConfigError, DataError
from pricekit.insight.alarms import limits_of
from pricekit.insight.comparables import K
from pricekit.insight.explanations import EVALUATIONS
from pricekit.options import (
    Keys,
    PathLike,
    PricedOptions,
    ReadingOptions,
    WeighedOptions,
    columns_over,
    model_path,
    names_of,
    path_or_frame,
    read_options_of,
    rows_without_prices,
    with_options,
)
from pricekit.storage import Address, check_bucket, location_of
from pricekit.support.text import counted, shorten

if TYPE_CHECKING:
    from pricekit.insight.comparables import Comparables
    from pricekit.insight.drift import Drift
    from pricekit.insight.explanations import Explanation
    from pricekit.insight.priced_rows import PricedRows
    from pricekit.table import Table, TableSource
    from pricekit.workflows.importance import Importance


_SHOWN_IDS = 3


@with_options(ReadingOptions)
def explain(
    model: PathLike,
    table: TableSource,
    *,
    row: str | Sequence[str] = (),
    engine: str | None = None,
    evaluations: int = EVALUATIONS,
    trust: Keys | None = None,
    **options: Unpack[ReadingOptions],
) -> list[Explanation]:
    """Decompose prices into factors: of lines, phrases, words and columns.

    Each row is priced without some of its parts, so this works for every model and engine. `Predictor.explain` does the
    same for rows in memory.

    Args:
        model: a bundle, a run or an ensemble.
        table: a file or a frame; it needs no prices.
        row: explain only the rows with these ids, in the order of the table; default: all rows.
        engine: as for `load`.
        evaluations: the number of prices for each row; more of them divide more phrases into words.
        trust: as for `load`.
        **options: see below.

    Returns:
        One explanation per row: its price is `base` times all its factors.

    Raises:
        DataError: the table cannot be read, or has no row with one of the ids.
        BundleError, PluginError, ConfigError: as for `load`; or fewer than two evaluations.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> found = pk.explain(pk.train(table, epochs=1), table, limit=2)
        >>> len(found), found[0].factors[0].column
        (2, 'catalog_content')
    """
    from pricekit.bundle.keys import read_trust
    from pricekit.runs.load import read_model

    keys = read_trust(trust)
    reader = read_model(model_path(model, "model", keys), engine, keys)
    wanted = names_of(row, "row")
    rows = rows_without_prices(path_or_frame(table), reader.columns, options)
    return reader.open().explain(_with_ids(rows, wanted), evaluations=evaluations)


@with_options(ReadingOptions)
def comparables(
    model: PathLike,
    table: TableSource,
    *,
    row: str | Sequence[str] = (),
    k: int = K,
    same: str | Sequence[str] = (),
    among: TableSource | None = None,
    engine: str | None = None,
    **options: Unpack[ReadingOptions],
) -> list[Comparables]:
    """Find the products with known prices whose texts are most similar to those of rows.

    A product with the id and the text of a row is the row itself, and left out. `Predictor.comparables` does the same
    for rows in memory.

    Args:
        model: a bundle, a run or an ensemble; it prices the rows.
        table: a file or a frame; it needs no prices.
        row: only the rows with these ids, in the order of the table; default: all rows.
        k: the number of products for each row, 1 to 1,000.
        same: what the products must have in common with the row: "brand", "unit", "size" (up to a factor of 1.25).
        among: a file or a frame of products with prices, with the columns of the training table; default: those of the
            bundle, see `export`.
        engine: as for `load`.
        **options: see below.

    Returns:
        One result per row, with its nearest products, the most similar first.

    Raises:
        DataError: a table cannot be read, or has no row with one of the ids, or `among` has no price.
        BundleError, PluginError: as for `load`.
        ConfigError: as for `load`; or `k` or `same` is invalid; or the model contains no products.

    Example:
        >>> import pricekit as pk
        >>> table = pk.make_catalog(200)
        >>> found = pk.comparables(pk.train(table, epochs=1), table, among=table, k=3, limit=2)
        >>> [len(each.products) for each in found]
        [3, 3]
    """
    from pricekit.insight.comparables import check_request
    from pricekit.runs.load import read_model

    demanded = names_of(same, "same")
    check_request(k, demanded)
    reader = read_model(model_path(model, "model"), engine)
    wanted, products = names_of(row, "row"), path_or_frame(among)
    rows = rows_without_prices(path_or_frame(table), reader.columns, options)
    return reader.open().comparables(_with_ids(rows, wanted), k, same=demanded, among=products)


@with_options(WeighedOptions)
def importance(
    model: PathLike,
    table: TableSource | None = None,
    *,
    metric: str | None = None,
    repeats: int = 5,
    **options: Unpack[WeighedOptions],
) -> Importance:
    """Measure what a model's prices for a whole table depend on: features, lines or columns, and words.

    The importance of a feature or a line is the increase of the metric when its values change rows at random. It says
    what this model uses, not what causes a price. The effects of words are means over explanations.

    Args:
        model: a bundle, a run, an ensemble or, without a table, a cross-validation.
        table: a file or a frame with prices; default: the held-out rows of the model. Of more than 2,000 rows, so
            many are drawn by chance, with a fixed seed.
        metric: the metric that counts; default: that of the model.
        repeats: the number of permutations of each feature or line; their increases are averaged.
        **options: see below.

    Returns:
        The frames `features`, `lines` and `words`, each sorted, the largest first.

    Raises:
        ConfigError: the metric is unknown, there are fewer than one repeats, or options are given without a table.
        DataError: the table cannot be used, it has fewer than two rows with prices, or the model has no held-out rows.
        BundleError, PluginError: the model cannot be opened.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=1, features="fast15", refit=False)
        >>> found = pk.importance(run, repeats=1)
        >>> found.rows, list(found.features)
        (30, ['feature', 'increase', 'low', 'high'])
    """
    from pricekit.workflows.importance import measure_importance

    return measure_importance(
        model_path(model, "model"), path_or_frame(table), options, metric=metric, repeats=repeats
    )


def _with_ids(table: Table, wanted: Sequence[str]) -> Table:
    """Return the rows with some ids, by default all; raises DataError."""
    if not wanted:
        return table
    ids = table.ids.astype("str")
    if missing := [id_ for id_ in wanted if not (ids == id_).any()]:
        examples = ", ".join(shorten(id_) for id_ in ids.head(_SHOWN_IDS))
        raise DataError(
            f"the table has no row with the id {shorten(missing[0])}; it has {counted(len(ids), 'row')} with "
            f"{table.ids.name} {examples}{', …' if len(ids) > _SHOWN_IDS else ''}",
            parameters=("row",),
            missing=missing,
        )
    return table.take(np.flatnonzero(ids.isin(list(wanted)).to_numpy()))


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
            reported. Larger tables are sampled to 10,000 rows, with a fixed seed and in bounded memory. If it
            has known prices, SMAPE is measured, too. Or a sketch of priced rows, which `predict` has written with
            `watch`, or a server.
        out: also write an HTML page, which needs no network; an existing file is replaced.
        engine: as for `load`.
        fail_over: limits by measure, such as {"psi": 0.2} or ["psi=0.2"]; `failures` of the result names those that are
            exceeded. `pricekit.insight.alarms.MEASURES` lists the measures.
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
    from pricekit.insight.counts import read_rows
    from pricekit.insight.drift import require_sketch
    from pricekit.reporting.page import require_libraries, write_page
    from pricekit.runs.load import load_model

    limits, source = limits_of(fail_over), model_path(model, "model")
    if out is not None:  # errors come before the table is read
        require_libraries()
        page = location_of(out, "out")
        if isinstance(page, Address):
            check_bucket(page)
    priced = _priced_rows(table, options)
    predictor = load_model(source, engine)
    rows = priced or read_rows(
        path_or_frame(table),
        columns_over(predictor.columns, options),
        require_sketch(predictor.sketch).others,
        required=[*names_of(options.get("text"), "text"), *names_of(options.get("price"), "price")],
        limit=options.get("limit"),
        read_options=read_options_of(options),
    )
    found = predictor.drift(rows, fail_over=limits)
    if out is not None:
        from pricekit.reporting.drift_page import drift_sections

        write_page(page, f"Drift of {source.name}", drift_sections(found))
    return found


def _priced_rows(table: Any, options: Mapping[str, Any]) -> PricedRows | None:
    """Return the content of a sketch of priced rows, None for a table; raises ConfigError, DataError."""
    from pricekit.insight.priced_rows import is_priced_rows, read_priced_rows

    source = path_or_frame(table)
    if not isinstance(source, Path) or not is_priced_rows(source):
        return None
    if given := [name for name, value in options.items() if value is not None]:
        raise ConfigError(
            f"{source} is a sketch of priced rows, which has no columns or rows to choose; leave {given[0]} out",
            parameters=tuple(given),
        )
    return read_priced_rows(source)
