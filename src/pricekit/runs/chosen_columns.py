"""What a training finds out about its table before torch is imported: columns that nobody has named, and the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricekit.config.resolve import named_settings, outlined
from pricekit.errors import DataError
from pricekit.io.log import logger
from pricekit.io.mapped import folder_for_files
from pricekit.io.progress import use_reporter_here
from pricekit.io.record import Mode, check_output
from pricekit.options import check_columns_soon, layers_of, names_of
from pricekit.runs.split import Source, load_split
from pricekit.table import Columns, guess_columns
from pricekit.table.guess import vectors_in
from pricekit.table.read import column_names
from pricekit.table.table import DUPLICATE_ID
from pricekit.wording import listed, shorten

if TYPE_CHECKING:
    from pricekit.evaluation.table_report import TableReport

MOST_ROWS = 100_000
"""Columns are chosen by at most this number of rows, which fit into memory."""

MOST_BYTES = 100_000_000
"""A larger file takes longer than the import of torch, so what needs torch is checked before it is read."""


def with_rows(
    source: Source, options: Mapping[str, Any], out: Path, mode: Mode
) -> tuple[Source, dict[str, Any]]:
    """Read and split the rows of a new training before torch is imported, if they are in a file that is not large.

    Otherwise only the columns are checked.

    Args:
        source: the table to train on.
        options: as of `with_columns`.
        out: the folder of the run.
        mode: how to write it.

    Returns:
        The source with its rows, and options that name the columns.

    Raises:
        PricekitError: as of `pricekit.runs.train.train`.
    """
    path = source.table
    if not isinstance(path, Path) or not path.is_file():
        return source, dict(options)
    if mode == "resume" or options.get("init") or path.stat().st_size > MOST_BYTES:
        check_columns_soon(path, options)
        return source, dict(options)
    options = with_columns(source, options)
    config = outlined(layers_of(options))
    if config.init is not None:
        return source, options
    check_output(out, "ensemble" if config.members else "run", mode, resumable=True)
    with nullcontext() if config.speed.progress else use_reporter_here(None):
        return replace(source, split=load_split(source, config, folder=folder_for_files(out))), options


def with_columns(source: Source, options: Mapping[str, Any], *, priced: bool = True) -> dict[str, Any]:
    """Return options that also name the columns of a table that neither options nor settings name.

    The text is `catalog_content` and the price `price`, if the table has them; otherwise they are those that `check`
    suggests, with the id. Columns of vectors are inputs, too, unless the text columns are named. A log names them, and
    the reasons for the columns that are left out.

    Args:
        source: the table to train on.
        options: as of `pricekit.options.config_of`, of something new.
        priced: whether the training needs prices.

    Raises:
        DataError: no column is text.
        ConfigError, PluginError: an option is invalid.
    """
    settings = named_settings(layers_of(options))
    named = settings.get("columns", {})
    if "init" in settings or not isinstance(named, Mapping):
        return dict(options)
    usual, read_options = Columns(), source.read_options
    try:
        present = column_names(source.opened)
    except DataError:
        return dict(options)  # whoever reads the table says what is wrong with it
    text = names_of(named.get("text"), "text") or [name for name in usual.text if name in present]
    price = named.get("price") or (usual.price if usual.price in present else None)
    if text and (price or not priced):
        try:
            vectors = vectors_in(source.opened) if priced else ()
        except DataError:
            vectors = ()  # whoever reads the table says what is wrong with it
        return {**options, **_chosen_vectors(vectors, named)}
    most = min(options.get("limit") or MOST_ROWS, MOST_ROWS)
    from pricekit.evaluation.table_report import profile_table  # slow to import

    report = profile_table(
        source.opened, text=text, price=price, id=named.get("id"), read_options=read_options, limit=most
    )
    chosen: dict[str, Any] = {"price": price or report.price}
    if not text:
        ignored = {named.get("weight")}
        chosen["text"] = [name for name in report.text or _guessed(source, report) if name not in ignored]
        all_rows = report.rows < MOST_ROWS  # an id that occurs twice would cost rows
        chosen["id"] = report.id if all_rows and DUPLICATE_ID not in report.rejected else None
    chosen = {name: value for name, value in chosen.items() if value and not named.get(name)}
    if priced and report.leaks is not None:  # the training says which columns are leaks
        left_out = {name: why for name, why in report.left_out.items() if name not in report.leaks.columns}
        report = replace(report, left_out=left_out)
    _log(source.table_name, report, chosen, headless=report.read_options.names != read_options.names)
    return {**options, **chosen, **_chosen_vectors(report.vectors if priced else (), named)}


def _chosen_vectors(vectors: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the option that names a table's columns of vectors, {} if it is named or there are none.

    If the text columns are named, the columns of vectors are no inputs, and a log names them.
    """
    if named.get("vectors") is not None or not vectors:
        return {}
    names = ", ".join(map(shorten, vectors))
    if "text" in named:
        logger.info(
            f"columns of vectors that are not read: {names}; to read some of them, name them in vectors"
        )
        return {}
    logger.info(f"columns of vectors: {names}")
    return {"vectors": list(vectors)}


def _guessed(source: Source, report: TableReport) -> tuple[str, ...]:
    """Return text columns of which each leaks the price, so that the training says so."""
    return guess_columns(source.opened, price=report.price).columns.text


def _log(name: str, report: TableReport, chosen: Mapping[str, Any], *, headless: bool) -> None:
    """Say which columns were chosen, and why others are left out."""
    if headless:
        logger.warning(
            f"the first line of {name} looks like data, so its columns are called {report.columns[0].name} and so on; "
            "set columns to give them better names, in their order"
        )
    roles = [
        f"{role}: {', '.join(map(shorten, names_of(chosen[role], role)))}"
        for role in ("text", "price", "id")
        if role in chosen
    ]
    logger.info(f"columns of {name}, as check suggests them: {'; '.join(roles)}")
    reasons: dict[str, list[str]] = {}
    for column, reason in report.left_out.items():
        reasons.setdefault(reason, []).append(shorten(column))
    if "text" in chosen and reasons:
        shown = listed([f"{listed(names)} ({reason})" for reason, names in reasons.items()], separator="; ")
        logger.info(f"columns left out: {shown}. To choose others, name all text columns in text")
