"""A server in a process of its own, and a plain HTTP client."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

JSON = "application/json"
DEADLINE = 120.0
"""Seconds after which a request without an answer is an error."""


@dataclass
class Server:
    """A running server.

    Attributes:
        process: its process.
        lines: of its log, without those of answers.
        answers: numbers of lines with answers, by status.
    """

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.said(r"at http://127\.0\.0\.1:(\d+)")[1])

    def said(self, pattern: str, after: int = 0) -> re.Match[str]:
        """Wait for a line of the log behind the first `after` ones."""
        for _ in range(2400):
            for line in self.lines[after:]:
                if found := re.search(pattern, line):
                    return found
            if self.process.poll() is not None:
                break
            threading.Event().wait(0.025)
        raise RuntimeError(f"the log lacks {pattern!r}: {self.lines[-5:]}")

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connections(self) -> int:
        """Return how many sockets it holds."""
        return len(psutil.Process(self.process.pid).net_connections("tcp"))

    def read(self) -> None:
        """Collect the log until its end."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.match(r"\S+ \S* ?([2345]\d\d) [\d.]+ ms( [\d,]+ rows?)?$", line):
                self.answers[int(found[1])] += 1
            else:
                self.lines.append(line.rstrip())


@contextmanager
def serving(bundle: str, options: str = "", files: int | None = None) -> Iterator[Server]:
    """Run `pricekit serve` on a free port while the block runs; it may open so many files."""
    words = [] if files is None else ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]
    words += [sys.executable, "-m", "pricekit", "serve", bundle, "--port", "0", "--engine", "ort-cpu"]
    process = subprocess.Popen([*words, *shlex.split(options)], stderr=subprocess.PIPE, text=True)
    server = Server(process)
    reader = threading.Thread(target=server.read, daemon=True)
    reader.start()
    try:
        server.port  # noqa: B018 - waits until it listens
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        reader.join()
        assert process.stderr is not None
        process.stderr.close()


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def request(body: bytes, kind: str = JSON, path: str = "/predict") -> bytes:
    """Return a whole request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def rows_body(texts: Sequence[str]) -> bytes:
    """Return a JSON document of rows with the column `catalog_content`."""
    return json.dumps({"rows": [{"catalog_content": text} for text in texts]}).encode()


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read the answer to a request."""
    async with asyncio.timeout(DEADLINE):
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(first.split()[1]), headers, body)


class Client:
    """One connection, which stays open and is renewed when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, data: bytes) -> Answer:
        """Send a request; return the answer."""
        if self._streams is not None and self._streams[0].at_eof():  # as HTTP clients do
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(data)
        answer = await read_answer(reader)
        if answer.headers.get("connection") == "close":
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None
