"""Milliseconds until `pricekit serve` answers a request of one text, and requests per second, by number of clients.

    python benchmarks/serving.py BUNDLE TABLE [--clients 1 8 32] [--seconds 5] [--rounds 5] [--options "--batch-wait 0"]

BUNDLE is a bundle from `pricekit export`, TABLE a CSV file whose texts are priced. Each client keeps one connection and
asks again as soon as it has an answer. Clients and server share this machine. With several `--options`, servers with
each of them run and are measured in turn. The numbers are medians over the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pandas as pd


@contextmanager
def server(bundle: str, options: str) -> Iterator[int]:
    """Run a server on a free port while the block runs."""
    command = [sys.executable, "-m", "pricekit", "serve", bundle, "--port", "0", "--engine", "ort-cpu"]
    started = subprocess.Popen([*command, *shlex.split(options)], stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    port = next(
        found[1] for line in started.stderr if (found := re.search(r"at http://127\.0\.0\.1:(\d+)", line))
    )
    drain = subprocess.Popen(["cat"], stdin=started.stderr, stdout=subprocess.DEVNULL)
    try:
        yield int(port)
    finally:
        started.terminate()
        started.wait()
        drain.wait()


def requests_of(texts: list[str]) -> list[bytes]:
    """Return a whole HTTP request for each text."""
    found = []
    for text in texts:
        body = json.dumps({"rows": [{"catalog_content": text}]}).encode()
        lines = ["POST /predict HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        found.append(head.encode() + body)
    return found


async def client(port: int, requests: Iterator[bytes], until: float) -> list[float]:
    """Ask until a time; return the seconds of each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds = []
    while (begin := time.perf_counter()) < until:
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        await reader.readexactly(int(length[1]))
        seconds.append(time.perf_counter() - begin)
    writer.close()
    return seconds


async def load(port: int, requests: list[bytes], clients: int, seconds: float) -> list[float]:
    """Return p50 and p99 in milliseconds, and answers per second, of clients that ask at the same time."""
    until = time.perf_counter() + seconds
    streams = [itertools.cycle(requests[number:] + requests[:number]) for number in range(clients)]
    found = await asyncio.gather(*(client(port, stream, until) for stream in streams))
    answered = np.concatenate(found)
    return [*(1e3 * np.percentile(answered, [50, 99])).tolist(), len(answered) / seconds]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("table")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", nargs="+", default=[""])
    given = parser.parse_args()
    requests = requests_of(pd.read_csv(given.table, nrows=2000)["catalog_content"].tolist())
    print(f"load average before: {os.getloadavg()[0]:.2f}")
    with ExitStack() as stack:
        ports = {options: stack.enter_context(server(given.bundle, options)) for options in given.options}
        for port in ports.values():
            asyncio.run(load(port, requests, 1, 1))
        for clients in given.clients:
            found: dict[str, list[list[float]]] = {options: [] for options in ports}
            for _ in range(given.rounds):
                for options, port in ports.items():
                    found[options].append(asyncio.run(load(port, requests, clients, given.seconds)))
            for options, rounds in found.items():
                p50, p99, rate = np.median(rounds, axis=0)
                print(f"{clients:3} clients: p50 {p50:6.2f} ms, p99 {p99:6.2f} ms, {rate:6.0f}/s  {options}")


if __name__ == "__main__":
    main()
