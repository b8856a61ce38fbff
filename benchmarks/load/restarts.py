"""SIGTERM and reloads under load, with every answer checked; and a soak with requests of mixed sizes."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import pricekit as pk
from load.server import Client, Server, request, rows_body, serving

Prices = Mapping[str, Mapping[str, float]]
"""Expected prices by text, by version of the model."""

_DIGITS = 12
_TOLERANCE = 1e-4
"""Relative; the last bits of a price depend on its batch."""


@dataclass
class Tally:
    """What clients got.

    Attributes:
        answered: right answers.
        wrong: answers with other prices or another status.
        lost: requests without an answer.
        versions: right answers by version.
        why: the first problems.
    """

    answered: int = 0
    wrong: int = 0
    lost: int = 0
    versions: Counter[str] = field(default_factory=Counter)
    why: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what other clients got."""
        self.answered += other.answered
        self.wrong += other.wrong
        self.lost += other.lost
        self.versions += other.versions
        self.why += other.why

    def __str__(self) -> str:
        versions = f" from {len(self.versions)} versions" if self.versions else ""
        problems = f"; {self.why[:3]}" if self.why else ""
        return f"{self.answered:,} right answers{versions}, {self.wrong} wrong, {self.lost} lost{problems}"


def expected(bundles: list[str], texts: list[str]) -> Prices:
    """Return the prices of texts by version of each bundle."""
    models = [pk.load(bundle, "ort-cpu") for bundle in bundles]
    return {
        model.digest[:_DIGITS]: dict(zip(texts, model.predict(texts).tolist(), strict=True))
        for model in models
    }


async def ask_until(
    port: int, texts: list[str], prices: Prices, stop: Callable[[], bool], *, size: int = 1
) -> Tally:
    """Ask until `stop` says so, or until the server says that the connection ends; check every answer."""
    found, client, place = Tally(), Client(port), 0
    while not stop():
        some = [texts[(place + number) % len(texts)] for number in range(size)]
        place += size
        try:
            answer = await client.ask(request(rows_body(some)))
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            found.lost += 1
            found.why.append(repr(error))
            break
        if problem := _problem(answer.status, answer.body, some, prices):
            found.wrong += 1
            found.why.append(problem)
        else:
            found.answered += 1
            found.versions[json.loads(answer.body)["version"]] += 1
        if answer.headers.get("connection") == "close":
            break  # the server is stopping; a load balancer goes elsewhere
    client.close()
    return found


def _problem(status: int, body: bytes, texts: list[str], prices: Prices) -> str:
    if status != 200:
        return f"status {status}: {body[:200]!r}"
    content = json.loads(body)
    right = [prices[content["version"]][text] for text in texts]
    given = [row["price"] for row in content["rows"]]
    near = len(given) == len(right) and np.allclose(given, right, rtol=_TOLERANCE, atol=0)
    return "" if near else f"prices {given[:3]}, expected {right[:3]}"


async def _meanwhile(
    server: Server,
    texts: list[str],
    prices: Prices,
    work: Callable[[], Awaitable[None]],
    clients: int,
) -> Tally:
    """Return what clients got while some work was done."""
    done, port = asyncio.Event(), server.port
    asking = [
        asyncio.create_task(ask_until(port, texts[number:], prices, done.is_set, size=1 + 19 * (number % 2)))
        for number in range(clients)
    ]
    await work()
    done.set()
    found = Tally()
    for each in await asyncio.gather(*asking):
        found.add(each)
    return found


def stops(bundle: str, texts: list[str], *, times: int, clients: int = 8, seed: int = 0) -> Tally:
    """Start a server so many times, and send SIGTERM under load."""
    prices, found, rng = expected([bundle], texts), Tally(), np.random.default_rng(seed)
    for _ in range(times):
        with serving(bundle) as server:

            async def stop(
                process: object = server.process, wait: float = float(rng.uniform(0.3, 1))
            ) -> None:
                await asyncio.sleep(wait)
                server.process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(server.process.wait, 60)

            found.add(asyncio.run(_meanwhile(server, texts, prices, stop, clients)))
            if server.process.wait(60) or any("Traceback" in line for line in server.lines):
                found.wrong += 1
                found.why.append(f"exit code {server.process.returncode}: {server.lines[-3:]}")
    return found


def reloads(bundles: list[str], texts: list[str], *, times: int, clients: int = 8) -> Tally:
    """Let a link point to one of two bundles and the other in turn, and send SIGHUP under load."""
    prices = expected(bundles, texts)
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "current")
        _point(link, bundles[0])
        with serving(str(link)) as server:

            async def reload() -> None:
                for number in range(1, times + 1):
                    _point(link, bundles[number % 2])
                    seen = len(server.lines)
                    server.process.send_signal(signal.SIGHUP)
                    await asyncio.to_thread(server.said, "the model current is now", seen)
                    await asyncio.sleep(0.2)

            return asyncio.run(_meanwhile(server, texts, prices, reload, clients))


def _point(link: Path, bundle: str) -> None:
    new = link.with_name("new")
    new.symlink_to(Path(bundle).absolute())
    new.replace(link)


def soak(
    bundle: str, texts: list[str], *, minutes: float, clients: int = 8, pause: float = 0.0, seed: int = 0
) -> None:
    """Print the growth of memory during requests of 1 to 1,000 rows; some ask for explanations, some are given up."""
    ends, memory = time.monotonic() + 60 * minutes, []
    with serving(bundle) as server:

        async def measure() -> None:
            while time.monotonic() < ends:
                memory.append(server.memory())
                await asyncio.sleep(min(2.0, 2 * minutes))

        async def run() -> list[Counter[int]]:
            asking = (_mixed(server.port, texts, ends, pause, seed + number) for number in range(clients))
            found, _ = await asyncio.gather(asyncio.gather(*asking), measure())
            return found

        statuses: Counter[int] = sum(asyncio.run(run()), Counter())
        tracebacks = sum("Traceback" in line for line in server.lines)
    tenths = [float(np.median(each)) for each in np.array_split(memory, 10)]
    first, last = tenths[5], tenths[-1]  # caches and allocators grow for some minutes
    print(
        f"{minutes:g} minutes, {clients} clients: answers by status {dict(statuses)}, {tracebacks} tracebacks"
    )
    print(f"memory {first / 1e6:.0f} MB in the sixth tenth, {last / 1e6:.0f} MB in the last: ", end="")
    print(f"{100 * (last / first - 1):+.2f}%, at most {max(memory) / 1e6:.0f} MB")
    print(f"medians of the tenths: {', '.join(f'{each / 1e6:.0f}' for each in tenths)} MB")


async def _mixed(port: int, texts: list[str], ends: float, pause: float, seed: int) -> Counter[int]:
    rng, client, found = np.random.default_rng(seed), Client(port), Counter[int]()
    while time.monotonic() < ends:
        size = int(10 ** rng.uniform(0, 3))
        some = [texts[row] for row in rng.integers(0, len(texts), size)]
        options = {"explain": True} if size <= 2 and rng.random() < 0.1 else {}
        body = {"rows": [{"catalog_content": text} for text in some], **options}
        whole = request(json.dumps(body).encode())
        found[(await client.ask(whole)).status] += 1
        if rng.random() < 0.05:
            client.close()
        if rng.random() < 0.05:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(whole[: len(whole) // 2])
            await asyncio.sleep(0)
            writer.close()
        await asyncio.sleep(pause)
    client.close()
    return found
