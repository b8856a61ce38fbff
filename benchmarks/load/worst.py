"""The most expensive requests within the limits, and requested explanations, beside probes of health and of prices."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pyarrow as pa

from load.server import JSON, Answer, Client, Server, request, rows_body, serving

MOST_BYTES, MOST_CHARS, MOST_ROWS = 10_000_000, 50_000, 10_000
LINES, ARROW = "application/jsonl", "application/vnd.apache.arrow.stream"


TOGETHER = "together"
"""Instead of a kind: all kinds in turn, and none alone."""


def worst(model: str) -> dict[str, bytes]:
    """Return requests by name: those that cost a parser or the model the most, in each format, of the largest size."""
    cell = {
        "letters": "x" * MOST_CHARS,
        "words": "ab " * (MOST_CHARS // 3),
        "numbers": "12.5 oz, " * (MOST_CHARS // 9),
        "lines": "a: 1\n" * (MOST_CHARS // 5),
        "wide letters": "\U0001f600" + "a" * (MOST_CHARS - 1),
        "escapes": "\\n" * (MOST_CHARS // 2),
    }
    found = {
        "zeros": request(_repeated(b'{"rows":[', b"0", b"]}")),
        "texts": request(_repeated(b'{"rows":[', b'""', b"]}")),
        "lists": request(_repeated(b'{"rows":[', b"[]", b"]}")),
        "objects": request(_repeated(b'{"rows":[', b"{}", b"]}")),
        "keys": request(b'{"rows":[{' + b",".join(b'"%x":0' % number for number in range(900_000)) + b"}]}"),
        "allowed zeros": request(b'{"rows":[' + b"0," * 29_000 + b"0]}"),
        "allowed keys": request(b'{"rows":[{' + b",".join(b'"%x":0' % n for n in range(29_000)) + b"}]}"),
        "brackets": request(b"[" * MOST_BYTES),
        "one number": request(b'{"rows":[' + b"9" * (MOST_BYTES - 20) + b"]}"),
        "backslashes": request(b'{"rows":["' + rb"\\" * (MOST_BYTES // 2 - 20) + b'"]}'),
        "one text": request(b'{"rows":["' + b"a," * (MOST_BYTES // 2 - 20) + b'"]}'),
        "spaces": request(b" " * MOST_BYTES),
        "empty lines": request(b"\n" * MOST_BYTES, LINES),
        "lines of zeros": request(b"0\n" * (MOST_BYTES // 2), LINES),
        "rows of one kilobyte": request(rows_body([f"{number} " + "x" * 940 for number in range(MOST_ROWS)])),
        "rows of one letter": request(rows_body([str(number) for number in range(MOST_ROWS)])),
        "equal rows": request(rows_body([""] * MOST_ROWS)),
        "lines of one kilobyte": request(
            b"".join(b'{"catalog_content":"%d%s"}\n' % (n, b"x" * 940) for n in range(MOST_ROWS)), LINES
        ),
        "Arrow of one kilobyte": request(_stream([f"{n} " + "x" * 900 for n in range(MOST_ROWS)]), ARROW),
        "Arrow batches": request(_stream(["x"] * MOST_ROWS, batch=1), ARROW),
        "Arrow empty batches": request(_stream(["x"], empty=40_000), ARROW),
        "Arrow columns": request(_columns(150_000), ARROW),
        "tensors": request(_tensors(MOST_ROWS), JSON, f"/v2/models/{model}/infer"),
    }
    for name, text in cell.items():
        size = len(json.dumps(text, ensure_ascii=False).encode()) + 30
        body = {"rows": [{"catalog_content": text}] * (MOST_BYTES // size)}
        found[f"cells of {name}"] = request(json.dumps(body, ensure_ascii=False).encode())
        found[f"explained {name}"] = request(
            json.dumps({"rows": body["rows"][:16], "explain": True, "comparables": 100}).encode()
        )
    return found


def _repeated(start: bytes, value: bytes, end: bytes) -> bytes:
    number = (MOST_BYTES - len(start) - len(end)) // (len(value) + 1)
    return start + b",".join([value] * number) + end


def _stream(texts: Sequence[str], batch: int | None = None, empty: int = 0) -> bytes:
    table, sink = pa.table({"catalog_content": texts}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, batch)
        for _ in range(empty):
            writer.write_batch(table.to_batches()[0].slice(0, 0))
    return bytes(sink.getvalue())


def _columns(number: int) -> bytes:
    schema = pa.schema([pa.field("", pa.int8())] * number)
    return bytes(schema.serialize()) + b"\xff\xff\xff\xff\0\0\0\0"


def _tensors(rows: int) -> bytes:
    data = [[f"{number} " + "x" * 900] for number in range(rows)]
    tensor = {"name": "catalog_content", "shape": [rows, 1], "datatype": "BYTES", "data": data}
    return json.dumps({"inputs": [tensor]}).encode()


def _probe(
    port: int,
    path: str,
    body: bytes | None,
    pause: float,
    ready: Event,
    stop: Event,
    times: Queue[list[float]],
) -> None:
    """Ask again and again in another process, each time on a new connection; put the seconds until each answer."""
    taken = []
    ready.set()
    while not stop.is_set():
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET" if body is None else "POST", path, body, {"Content-Type": JSON})
            answer = connection.getresponse()
            answer.read()
            taken.append(time.perf_counter() - began if answer.status == 200 else 60.0)
        except OSError:
            taken.append(60.0)
        connection.close()
        time.sleep(pause)
    times.put(taken)


class Probes:
    """Measures, while the block runs, how long an answer takes."""

    def __init__(self, server: Server, path: str, body: bytes | None = None, pause: float = 0.02) -> None:
        context = get_context("spawn")
        self._ready, self._stop, self._times = context.Event(), context.Event(), context.Queue()
        arguments = (server.port, path, body, pause, self._ready, self._stop, self._times)
        self._process = context.Process(target=_probe, args=arguments)
        self.seconds = np.zeros(0)

    def __enter__(self) -> Probes:
        self._process.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.seconds = np.array(self._times.get(timeout=120))
        self._process.join()

    def __str__(self) -> str:
        p50, p99 = 1000 * np.quantile(self.seconds, [0.5, 0.99])
        most = 1000 * self.seconds.max()
        return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {most:.0f} ms of {len(self.seconds):,}"


def bodies(bundle: str, *, seconds: float, clients: int, only: str | None) -> None:
    """Print how long health checks take while clients send the worst requests: each kind, then all in turn."""
    every = worst(Path(bundle).name)
    kinds = {name: data for name, data in every.items() if only in (None, TOGETHER) or only in name}
    sets = [[name] for name in kinds] if only != TOGETHER else []
    sets += [list(kinds)] if len(kinds) > 1 else []
    with serving(bundle) as server:
        asyncio.run(_send(server.port, [request(rows_body(["tea"]))], 1, 1.0))
        for names in sets:
            _forget_peak(server)
            alone = len(names) == 1
            with Probes(server, "/v2/health/live") as health:
                duration = min(5.0, seconds) if alone and len(sets) > 1 else seconds
                statuses = asyncio.run(_send(server.port, [kinds[name] for name in names], clients, duration))
            what = names[0] if alone else "all in turn"
            print(
                f"{what}: health {health}; peak {_peak(server) / 1e6:,.0f} MB; answers {dict(statuses)}",
                flush=True,
            )


async def _send(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Counter[int | str]:
    """Let clients send requests in turn, each its next one after an answer; return the number of each status."""
    until, chosen = time.perf_counter() + seconds, itertools.cycle(requests)
    statuses: Counter[int | str] = Counter()

    async def ask() -> None:
        client = Client(port)
        while time.perf_counter() < until:
            try:
                statuses[(await client.ask(next(chosen))).status] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                statuses[type(error).__name__] += 1
                client.close()
        client.close()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return statuses


def explanations(bundle: str, texts: Sequence[str], *, seconds: float, rate: float) -> None:
    """Print how long plain prices take while so many explanations per second are requested."""
    explained = [
        request(json.dumps({"rows": [{"catalog_content": text}], "explain": True}).encode()) for text in texts
    ]
    with serving(bundle) as server:
        one = rows_body(texts[:1])
        with Probes(server, "/predict", one) as alone:
            time.sleep(min(10.0, seconds))
        with Probes(server, "/predict", one) as beside:
            statuses = asyncio.run(_explain(server.port, explained, rate, seconds))
    print(f"plain prices alone: {alone}")
    print(f"beside {rate:g} requested explanations a second: {beside}")
    print(f"explanations: {dict(statuses)}")


async def _explain(port: int, requests: Sequence[bytes], rate: float, seconds: float) -> Counter[int]:
    began, statuses, tasks = time.perf_counter(), Counter[int](), []

    async def ask(data: bytes) -> None:
        client = Client(port)
        answer: Answer = await client.ask(data)
        statuses[answer.status] += 1
        client.close()

    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(requests[number % len(requests)])))
    await asyncio.gather(*tasks)
    return statuses


def _peak(server: Server) -> int:
    """Return the most resident memory of a server in bytes since `_forget_peak`, on Linux."""
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def _forget_peak(server: Server) -> None:
    with suppress(OSError):
        Path(f"/proc/{server.process.pid}/clear_refs").write_text("5", "ascii")
