"""Clients that send nothing, or send and read slowly, beside ordinary ones."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from load.server import Client, Server, read_answer, request, rows_body, serving

Kind = Callable[[socket.socket], Awaitable[None]]
"""What a client does on a connection until it ends."""

_HEALTH = b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_BODY = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
_LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Beside:
    """What ordinary clients got beside the others.

    Attributes:
        seconds: of each answer with status 200.
        health: seconds of each answer to a probe, on a connection of its own.
        problems: other answers and lost ones, with their numbers.
        log: lines of the server's log, without those of ordinary answers.
        most: connections that the server held at most.
        memory: bytes, at most.
    """

    seconds: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    log: int = 0
    most: int = 0
    memory: int = 0

    def __str__(self) -> str:
        p99, health = (1000 * np.percentile(each or [np.nan], 99) for each in (self.seconds, self.health))
        return (
            f"{len(self.seconds):,} prices, p99 {p99:.0f} ms, longest {1000 * max(self.seconds):.0f} ms; "
            f"{len(self.health)} probes, p99 {health:.0f} ms; problems {dict(self.problems)}; {self.log} lines of log; "
            f"at most {self.most:,} connections and {self.memory / 1e6:.0f} MB"
        )


def beside(
    bundle: str,
    texts: list[str],
    *,
    seconds: float,
    silent: int = 1000,
    trickling: int = 1000,
    clients: int = 20,
    files: int | None = None,
    options: str = "",
) -> Beside:
    """Return what ordinary clients get while others stay silent or trickle."""
    with serving(bundle, options, files) as server:
        context = multiprocessing.get_context("spawn")
        others = context.Process(target=_attack, args=(server.port, silent, trickling), daemon=True)
        others.start()
        try:
            found = asyncio.run(_ordinary(server, texts, clients, seconds))
        finally:
            others.kill()
            others.join()
    found.log = len(server.lines) + sum(server.answers.values()) - server.answers[200]
    return found


async def _ordinary(server: Server, texts: list[str], clients: int, seconds: float) -> Beside:
    found, port = Beside(), server.port
    await asyncio.sleep(min(2.0, seconds / 2))  # until the others are there
    ends = time.monotonic() + seconds

    async def ask(number: int) -> None:
        client, count = Client(port), 0
        while time.monotonic() < ends:
            count += 1
            began = time.perf_counter()
            try:
                answer = await client.ask(request(rows_body([texts[(number + count) % len(texts)]])))
                if answer.status == 200:
                    found.seconds.append(time.perf_counter() - began)
                else:
                    found.problems[str(answer.status)] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                found.problems[type(error).__name__] += 1
                client.close()
            if count % 10 == 0:
                client.close()
            await asyncio.sleep(0.2)
        client.close()

    async def probe() -> None:
        while time.monotonic() < ends:
            began = time.perf_counter()
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(_HEALTH)
                answer = await read_answer(reader)
                writer.close()
                found.problems += Counter([f"probe {answer.status}"] if answer.status != 200 else [])
                found.health.append(time.perf_counter() - began)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                found.problems[f"probe {type(error).__name__}"] += 1
            await asyncio.sleep(0.1)

    async def measure() -> None:
        while time.monotonic() < ends:
            found.memory = max(found.memory, server.memory())
            found.most = max(found.most, server.connections())
            await asyncio.sleep(0.5)

    await asyncio.gather(*(ask(number) for number in range(clients)), probe(), measure())
    return found


def _attack(port: int, silent: int, trickling: int) -> None:
    """Hold so many connections, and open each one again when it ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds: tuple[Kind, ...] = (_trickle_head, _trickle_body, _trickle_reading)
    asyncio.run(_hold(port, [_stay_silent] * silent + [kinds[each % 3] for each in range(trickling)]))


async def _hold(port: int, kinds: Sequence[Kind]) -> None:
    async def again(kind: Kind, number: int) -> None:
        await asyncio.sleep(number / len(kinds))
        while True:
            with suppress(OSError):
                raw = socket.socket()
                raw.setblocking(False)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                with raw:
                    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
                    await kind(raw)
            await asyncio.sleep(1)

    await asyncio.gather(*(again(kind, number) for number, kind in enumerate(kinds)))


async def _stay_silent(raw: socket.socket) -> None:
    await asyncio.get_running_loop().sock_recv(raw, 1)


async def _trickle_head(raw: socket.socket) -> None:
    await _send_slowly(raw, b"GET / HTTP/1.1\r\nX: ")


async def _trickle_body(raw: socket.socket) -> None:
    await _send_slowly(raw, _BODY + b'{"rows": [')


async def _send_slowly(raw: socket.socket, start: bytes) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, start)
    while True:
        await asyncio.sleep(1)
        await loop.sock_sendall(raw, b" ")


async def _trickle_reading(raw: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, _LARGE)
    while await loop.sock_recv(raw, 1):
        await asyncio.sleep(1)
