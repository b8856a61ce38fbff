"""Prices in PostgreSQL: time and memory against Parquet files, and kills of clients and servers.

    python benchmarks/databases.py cost BUNDLE TABLE [--rows 1000000] [--rounds 5] [--processes 1]
    python benchmarks/databases.py kills BUNDLE TABLE [--rows 30000] [--clients 50] [--servers 20] [--seed 0]

A server is started for it on a socket, with its usual settings. The rows of the table, repeated as needed, get ids of
their own and become a table of the server and a Parquet file. `cost` prices them in turn: from Parquet to Parquet, and
from table to table. The memory is that of a command and its children, looked at every 0.5 s; pages that processes share
count once.

`kills` prices them once without a disturbance. In each trial, at a random moment, `pricekit predict` is killed and
repeated with `--resume`, or the server and all its processes are killed and started again. Each id must then be there
once, with the price of the undisturbed prediction. Every second repetition of a client begins without what the first
one left. All that is printed and left is searched for the password that the commands have in their environment. The
exit code is 1 if a trial fails.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from postgresql_server import Server, installed

import pricekit as pk
from pricekit.cli.terminal import show_table

PASSWORD = "open-sesame-9d1f"
"""What must appear nowhere."""


def main() -> int:
    """Parse the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("cost", "kills"))
    parser.add_argument("bundle", type=Path)
    parser.add_argument("table")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, help="of each command; default: as many as it chooses")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    programs = installed()
    if programs is None:
        parser.error("PostgreSQL is not installed")
    server = Server(programs)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {"cost": cost, "kills": kills}[options.what](options, server, Path(folder))
    finally:
        server.stop()


def write_products(options: argparse.Namespace, server: Server, folder: Path, rows: int) -> str:
    """Write rows into the table `products` and a Parquet file; return the name of the column of ids."""
    columns = pk.load(options.bundle).columns
    table = pk.read_table(options.table, text=columns.text).frame[list(columns.text)]
    row_id = columns.id or "row"
    with server.connect() as connection, connection.cursor() as cursor:
        writer = None
        for start in range(0, rows, len(table)):
            part = table.head(rows - start).assign(**{row_id: range(start, min(rows, start + len(table)))})
            arrow = pa.Table.from_pandas(part, preserve_index=False).replace_schema_metadata()
            writer = writer or pq.ParquetWriter(folder / "products.parquet", arrow.schema)
            writer.write_table(arrow)
            cursor.adbc_ingest("products", arrow, mode="create_append")
        assert writer is not None
        writer.close()
    return row_id


def command(options: argparse.Namespace, *words: object) -> list[str]:
    """Return the command of a prediction."""
    return [sys.executable, "-m", "pricekit", "predict", *map(str, (options.bundle, *words))]


def cost(options: argparse.Namespace, server: Server, folder: Path) -> int:
    """Time predictions from and into files and tables in turn."""
    rows = options.rows or 1_000_000
    write_products(options, server, folder, rows)
    ways = {
        "Parquet": (folder / "products.parquet", folder / "prices.parquet"),
        "PostgreSQL, a new table": (server.address("products"), server.address("prices")),
        "PostgreSQL, the same prices": (server.address("products"), server.address("prices")),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    memory = dict.fromkeys(ways, 0.0)
    for _ in range(options.rounds):
        server.execute("DROP TABLE IF EXISTS prices")
        for name, (source, out) in ways.items():
            began = time.perf_counter()
            words = command(options, source, "--out", out)
            if options.processes is not None:
                words += ["--processes", str(options.processes)]
            process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
            while process.poll() is None:
                memory[name] = max(memory[name], memory_of(process.pid))
                time.sleep(0.5)
            seconds[name].append(time.perf_counter() - began)
            if process.returncode:
                print(f"{name} failed")
                return 1
    assert server.execute("SELECT count(*) FROM prices") == [(rows,)]
    base = statistics.median(seconds["Parquet"])
    lines = [
        [
            name,
            f"{statistics.median(times):.1f}",
            f"{statistics.median(times) / base:.2f}",
            f"{memory[name]:.2f}",
        ]
        for name, times in seconds.items()
    ]
    show_table(
        f"{rows:,} rows, medians of {options.rounds}", ["way", "s", "ratio", "GB"], lines, stderr=False
    )
    return 0


def memory_of(pid: int) -> float:
    """Return the memory of a process and its children, in GB."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += each.memory_full_info().pss
    return total / 1e9


def kills(options: argparse.Namespace, server: Server, folder: Path) -> int:
    """Kill clients and servers, and compare the prices with those of an undisturbed prediction."""
    draw, rows = random.Random(options.seed), options.rows or 30_000
    row_id = write_products(options, server, folder, rows)
    printed, cache = [], folder / "cache"
    environment = os.environ | {"PRICEKIT_CACHE": str(cache), "PGPASSWORD": PASSWORD}

    def start(*more: str) -> subprocess.Popen[str]:
        words = command(
            options, server.address("products"), "--out", server.address("prices"), "--verbose", *more
        )
        return subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def finish(process: subprocess.Popen[str]) -> bool:
        printed.append(process.communicate()[0])
        return process.returncode == 0

    def prices() -> list[tuple[object, ...]]:
        return server.execute(f'SELECT "{row_id}", price FROM prices ORDER BY 1')

    began = time.perf_counter()
    assert finish(start()), printed
    lasts, expected = time.perf_counter() - began, prices()
    assert len(expected) == rows
    failures, resumed = [], 0
    for number in range(options.clients + options.servers):
        shutil.rmtree(cache, ignore_errors=True)
        server.execute("DROP TABLE IF EXISTS prices")
        process = start()
        time.sleep(draw.uniform(0.1 * lasts, 1.1 * lasts))
        if number < options.clients:
            process.kill()
            ended = finish(process)
            if number % 2:
                shutil.rmtree(cache, ignore_errors=True)
            done = ended or finish(start("--resume", "--on-conflict", "error"))
        else:
            server.kill()
            server.start()
            done = finish(process)
            if not done:
                resumed += 1
                done = finish(start("--resume"))
        if not done or prices() != expected:
            failures.append((number, printed[-1]))
    left = b"".join(
        file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".parquet"
    )
    secret = PASSWORD in "".join(printed) or PASSWORD.encode() in left
    for number, text in failures:
        print(f"trial {number} failed: {text}")
    print(
        f"{options.clients} kills of a client and {options.servers} of the server, {rows:,} rows, {lasts:.1f} s each: "
        f"{len(failures)} failed; {resumed} commands gave up on a killed server and were resumed; "
        f"the password is {'somewhere' if secret else 'nowhere'}"
    )
    return 1 if failures or secret else 0


if __name__ == "__main__":
    sys.exit(main())
