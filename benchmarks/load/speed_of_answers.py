"""Requests and rows per second."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from load.server import Client, Server, request, rows_body, serving

WRK = """
local bodies, last = {}, 0
for line in io.lines("BODIES") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
  last = last % #bodies + 1
  return wrk.format(nil, "/predict", nil, bodies[last])
end
"""


def batching(bundle: str, texts: list[str], *, clients: int, seconds: float, rounds: int) -> None:
    """Print requests per second of clients with one text each, with and without batches, measured by wrk in turn."""
    found: dict[str, list[list[float]]] = {"with batches": [], "without": []}
    with (
        serving(bundle) as together,
        serving(bundle, "--batch-rows 1 --batch-wait 0") as alone,
        tempfile.TemporaryDirectory() as folder,
    ):
        bodies, script = Path(folder, "bodies"), Path(folder, "wrk.lua")
        bodies.write_bytes(b"\n".join(rows_body([text]) for text in texts))
        script.write_text(WRK.replace("BODIES", str(bodies)))
        for _ in range(rounds):
            for name, server in zip(found, (together, alone), strict=True):
                found[name].append(_wrk(server.port, script, clients, seconds))
    medians = {name: np.median(each, axis=0) for name, each in found.items()}
    for name, (rate, p99, errors) in medians.items():
        print(f"{clients} clients {name}: {rate:,.0f} requests/s, p99 {p99:.1f} ms, {errors:.0f} errors")
    print(f"ratio {medians['with batches'][0] / medians['without'][0]:.2f}")


def _wrk(port: int, script: Path, clients: int, seconds: float) -> list[float]:
    """Return requests per second, p99 in milliseconds, and the number of errors."""
    words = ["wrk", "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(script)]
    said = subprocess.run(
        [*words, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True
    ).stdout
    rate, p99 = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"99%\s+([\d.]+)(us|ms|s)", said)
    assert rate is not None
    assert p99 is not None
    failed = re.findall(r"Non-2xx or 3xx responses: (\d+)|(?:connect|read|write|timeout) (\d+)", said)
    errors = sum(int(number) for pair in failed for number in pair if number)
    return [float(rate[1]), float(p99[1]) * {"us": 0.001, "ms": 1, "s": 1000}[p99[2]], errors]


def rows(bundle: str, table: str, texts: list[str], *, size: int, rounds: int) -> None:
    """Print rows per second of requests with many rows, and of `pricekit predict` for the same rows, in turn."""
    served, predicted = [], []
    bodies = [request(rows_body(texts[start : start + size])) for start in range(0, len(texts), size)]
    with serving(bundle) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(_all(server.port, bodies[:2]))
        for _ in range(rounds):
            began = time.perf_counter()
            asyncio.run(_all(server.port, bodies))
            served.append(len(texts) / (time.perf_counter() - began))
            predicted.append(_predict(bundle, table, folder, len(texts)))
    one, two = np.median(served), np.median(predicted)
    print(f"serve, {size:,} rows per request: {one:,.0f} rows/s; predict: {two:,.0f} rows/s; {one / two:.2f}")


async def _all(port: int, bodies: list[bytes], clients: int = 4) -> None:
    left = iter(bodies)

    async def ask() -> None:
        client = Client(port)
        for body in left:
            answer = await client.ask(body)
            if answer.status != 200:
                raise RuntimeError(answer.body.decode())
        client.close()

    await asyncio.gather(*(ask() for _ in range(clients)))


def _predict(bundle: str, table: str, folder: str, count: int) -> float:
    words = ["pricekit", "predict", bundle, table, "--out", f"{folder}/prices.csv", "--limit", str(count)]
    said = subprocess.run([*words, "--engine", "ort-cpu"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"([\d,]+) rows/s", said)
    assert found is not None, said
    return float(found[1].replace(",", ""))


def overload(
    bundle: str, texts: list[str], *, seconds: float, times: float, size: int, deadline: float
) -> None:
    """Print what happens when requests come several times faster than they can be answered."""
    with serving(bundle, f"--timeout {deadline:g}") as server:
        bodies = [request(rows_body(texts[start : start + size])) for start in range(0, len(texts), size)]
        asyncio.run(_capacity(server.port, bodies, 1.0))
        rate = asyncio.run(_capacity(server.port, bodies, min(10.0, seconds)))
        alone = asyncio.run(_one(server.port, bodies[0]))
        before = server.memory()
        found, memory = asyncio.run(_flood(server, bodies, rate * times, seconds))
        recovered = asyncio.run(_one(server.port, bodies[0]))
        lines = [line for line in server.lines if "Traceback" in line]
    statuses = pd.Series([status for status, _ in found]).value_counts().to_dict()
    admitted = np.array([taken for status, taken in found if status == 200] or [np.nan])
    late = int((admitted > deadline).sum())
    print(
        f"{rate:.1f} requests/s of {size:,} rows are answered; offered {times:g} times as many, {seconds:g} s"
    )
    print(f"answers by status: {json.dumps({str(key): value for key, value in statuses.items()})}")
    print(
        f"admitted: p50 {np.median(admitted):.2f} s, longest {admitted.max():.2f} s, {late} after the deadline"
    )
    print(
        f"memory: {before / 1e6:.0f} MB before, {max(memory) / 1e6:.0f} MB at most, second half "
        f"{100 * (np.median(memory[len(memory) // 2 :]) / np.median(memory[: len(memory) // 2]) - 1):+.1f}%"
    )
    print(
        f"one request before: {1000 * alone:.0f} ms, at once after the load: {1000 * recovered:.0f} ms; "
        f"{len(lines)} tracebacks"
    )


async def _capacity(port: int, bodies: list[bytes], seconds: float) -> float:
    began, answered = time.perf_counter(), 0
    chosen = itertools.cycle(bodies)

    async def ask() -> None:
        nonlocal answered
        client = Client(port)
        while time.perf_counter() - began < seconds:
            done = (await client.ask(next(chosen))).status == 200
            answered += done  # not in one step with await: other clients count meanwhile
        client.close()

    await asyncio.gather(*(ask() for _ in range(4)))
    return answered / (time.perf_counter() - began)


async def _one(port: int, body: bytes) -> float:
    client, began = Client(port), time.perf_counter()
    while (await client.ask(body)).status != 200:
        pass
    client.close()
    return time.perf_counter() - began


async def _flood(
    server: Server, bodies: list[bytes], rate: float, seconds: float
) -> tuple[list[tuple[int, float]], list[int]]:
    """Send requests at fixed times, whatever the answers; return status and seconds of each, and memory over time."""
    port, began = server.port, time.perf_counter()
    found: list[tuple[int, float]] = []
    memory: list[int] = []

    async def ask(body: bytes) -> None:
        client, sent = Client(port), time.perf_counter()
        try:
            found.append(((await client.ask(body)).status, time.perf_counter() - sent))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            found.append((0, time.perf_counter() - sent))
        client.close()

    async def measure() -> None:
        while True:
            memory.append(server.memory())
            await asyncio.sleep(0.25)

    measuring, tasks = asyncio.create_task(measure()), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(bodies[number % len(bodies)])))
    await asyncio.gather(*tasks)
    measuring.cancel()
    return found, memory
