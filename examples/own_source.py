"""
A source of your own
====================

A source lets every function and every command read tables that are no files of a known format, and write prices into
them. Here it is a ledger, a JSON file with a row for each id, as a small system of a shop may keep it.

It is also a plugin file: ``pricekit plugins check examples/own_source.py`` checks it, and ``pricekit predict bundle
ledger:///new.json --out ledger:///prices.json --plugin examples/own_source.py`` prices with it.
"""

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import pricekit as pk
from pricekit.plugin import DataError, parameters_of_address

# %%
# The source
# ----------
#
# ``read`` yields batches of Arrow. ``write`` yields a sink, whose ``write`` gets batches of an id, prices and answers.
# A batch may come twice, when nobody knows what became of it; rows are found by their ids, so it is written once. The
# file is replaced as a whole.


def rows_of(address):
    """Return the rows of a ledger by their ids."""
    path = path_of(address)
    if not path.is_file():
        raise DataError(f"there is no ledger {path}. Check the address.", parameters=("table",))
    return json.loads(path.read_text("utf-8"))


def path_of(address):
    """Return the file of an address such as ledger:///prices.json."""
    return Path(parameters_of_address(address)[0].partition(":///")[2])


class Ledger:
    """Writes rows."""

    def __init__(self, output):
        self.output, self.path = output, path_of(output.address)

    def write(self, rows):
        """Write a batch, all of its rows or none."""
        row_id = self.output.schema.names[0]
        kept = rows_of(self.output.address) if self.path.exists() else {}
        for row in rows.to_pylist():
            old = kept.get(str(row[row_id]), {})
            new = old | row
            if old and old != new and self.output.on_conflict == "error":
                raise DataError(f"the ledger has another price for {row[row_id]!r}.", parameters=("out",))
            kept[str(row[row_id])] = new
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(kept), "utf-8")
        os.replace(temporary, self.path)


@pk.plugin.source("ledger")
class Ledgers(pk.plugin.Source):
    """ledgers of the shop, JSON files"""

    @contextmanager
    def read(self, address, columns=None, limit=None):
        """Yield the rows."""
        table = pa.Table.from_pylist(list(rows_of(address).values()))
        table = table if columns is None else table.select(list(columns))
        yield table.slice(0, limit).to_reader(max_chunksize=8192)

    def check(self, output):
        """Check the columns of a ledger before the first row is priced."""
        if path_of(output.address).exists():
            known = next(iter(rows_of(output.address).values()), {})
            if known and output.schema.names[0] not in known:
                raise DataError(f"the ledger has no column {output.schema.names[0]!r}.", parameters=("out",))

    @contextmanager
    def write(self, output):
        """Yield what writes rows."""
        yield Ledger(output)

    def scratch(self, folder):
        """Return the address of a new ledger, for the checks."""
        return f"ledger:///{folder.absolute()}/scratch.json"


# %%
# From ledger to ledger
# ---------------------
#
# ``use_plugins`` loads this file as a plugin, which imports it a second time. The condition keeps that import from
# training, too.

if __name__ == "__main__":
    pk.use_plugins(sys.argv[0])  # this file

    with tempfile.TemporaryDirectory() as folder:
        products, prices = (Path(folder).absolute() / name for name in ("products.json", "prices.json"))
        catalog = pk.make_catalog(400)
        rows = {str(row["sample_id"]): row for row in catalog.to_dict("records")}
        products.write_text(json.dumps(rows), "utf-8")

        model = pk.train(f"ledger:///{products}", features="fast15", epochs=2)
        count = model.predict_file(f"ledger:///{products}", f"ledger:///{prices}")
        written = json.loads(prices.read_text("utf-8"))

    print(f"{count} rows were priced. The first one: {written['0']}")
