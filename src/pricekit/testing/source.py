"""The checks of a source: rows that are written are read again, each once, whatever is repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from pricekit.errors import DataError
from pricekit.io.files import temporary_folder
from pricekit.io.sources import OnConflict, Output, Source
from pricekit.testing.runner import Checks, Make, fail, require_import_without_torch, require_methods
from pricekit.wording import shorten

SCHEMA = pa.schema({"sku": pa.string(), "price": pa.float64(), "release": pa.bool_()})
SKUS = ("a-1", "ü", "007", 'O\'Neill "x"', "7", " b")


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_source`."""
    return {
        "has read": lambda make: require_methods(make(), "read"),
        "rows that are written are read": partial(_with_table, _reads),
        "columns and limits": partial(_with_table, _selects),
        "a batch that is repeated is written once": partial(_with_table, _repeats),
        "a new price replaces another one": partial(_with_table, _updates),
        "a conflict writes nothing": partial(_with_table, _refuses),
        "a table that is missing is an error": partial(_with_table, _misses),
        "a table with other columns is an error": partial(_with_table, _compares),
        "module imports no torch": lambda make: require_import_without_torch(make()),
    }


def _with_table(check: Callable[[Source, str], None], make: Make) -> None:
    """Check with the address of a new table."""
    source: Source = make()
    with temporary_folder() as folder:
        address = source.scratch(Path(folder))
        if address is None:
            fail(
                f"{type(source).__name__} names no table to check",
                "an address from scratch",
                "check a class that overrides scratch, such as with a table of a test server",
            )
        check(source, address)


def _rows(prices: Sequence[float]) -> pa.Table:
    count = len(prices)
    return pa.table([SKUS[:count], prices, [number % 2 == 0 for number in range(count)]], schema=SCHEMA)


def _write(source: Source, address: str, prices: Sequence[float], on_conflict: OnConflict = "update") -> None:
    output = Output(address, SCHEMA, on_conflict, job=sha256(repr(prices).encode()).hexdigest())
    source.check(output)
    with source.write(output) as sink:
        for start in range(0, len(prices), 2):
            for _ in range(2):  # a repeated batch, as after an attempt whose outcome is unknown
                sink.write(_rows(prices).slice(start, 2))


def _read(source: Source, address: str) -> list[tuple[str, float, bool]]:
    with source.read(address) as stream:
        rows = stream.read_all().to_pylist()
    return sorted((row["sku"], row["price"], bool(row["release"])) for row in rows)


def _expect(source: Source, address: str, prices: Sequence[float], what: str) -> None:
    expected = sorted(tuple(row.values()) for row in _rows(prices).to_pylist())
    if (actual := _read(source, address)) != expected:
        fail(
            f"{what}: {shorten(repr(actual), 300)} is read",
            shorten(repr(expected), 300),
            "correct write or read",
        )


def _reads(source: Source, address: str) -> None:
    prices = [0.1, 2.0, 1e-3, 123456.75, 7.0, 3.5]
    _write(source, address, prices)
    _expect(source, address, prices, "after all rows were written")


def _selects(source: Source, address: str) -> None:
    _write(source, address, [1.5, 2.5, 3.5])
    with source.read(address, ["price", "sku"], 2) as stream:
        rows = stream.read_all()
    if rows.column_names != ["price", "sku"] or len(rows) != 2:
        fail(
            f"two rows of price and sku have {rows.column_names} and {len(rows)} rows",
            "these",
            "use columns and limit",
        )
    with source.read(address, limit=0) as stream:
        names, rows = stream.schema.names, stream.read_all()
    if names != SCHEMA.names or len(rows):
        fail(f"no row has the columns {names} and {len(rows)} rows", f"{SCHEMA.names} and none", "use limit")


def _repeats(source: Source, address: str) -> None:
    for _ in range(2):
        _write(source, address, [1.5, 2.5, 3.5, 4.5])
    _expect(source, address, [1.5, 2.5, 3.5, 4.5], "after the same rows were written twice")


def _updates(source: Source, address: str) -> None:
    _write(source, address, [1.5, 2.5, 3.5])
    _write(source, address, [1.5, 9.5, 3.5, 4.5])
    _expect(source, address, [1.5, 9.5, 3.5, 4.5], "after other prices were written")


def _refuses(source: Source, address: str) -> None:
    _write(source, address, [1.5, 2.5])
    _write(source, address, [1.5, 2.5], "error")  # the same prices are no conflict
    try:
        _write(source, address, [1.5, 9.5], "error")
    except DataError:
        _expect(source, address, [1.5, 2.5], "after a conflict")
    else:
        fail(
            "another price for an id was written", "DataError, with on_conflict 'error'", "compare the prices"
        )


def _misses(source: Source, address: str) -> None:
    try:
        _read(source, address)
    except DataError:
        return
    fail("a table that does not exist was read", "DataError", "do not create what is read")


def _compares(source: Source, address: str) -> None:
    _write(source, address, [1.5])
    other = pa.schema({"another": pa.string(), "price": pa.float64()})
    try:
        source.check(Output(address, other))
    except DataError:
        return
    fail(
        "a table without the column of ids passed the check",
        "DataError",
        "compare the columns before rows are written",
    )
