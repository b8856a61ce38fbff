"""A limit on the time of a whole download: each read waits only for what is left of it.

The timeout of a socket starts again with every byte, so a server could send one byte at a time forever.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


class Deadline:
    """A moment at which a download must have ended."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left; 0 if the moment has passed."""
        return max(0.0, self._ends - time.monotonic())


_of_thread = threading.local()


@contextmanager
def deadline_of(seconds: float) -> Iterator[Deadline]:
    """Limit what this thread reads from the pools below in the block; yield the deadline."""
    _of_thread.deadline = deadline = Deadline(seconds)
    try:
        yield deadline
    finally:
        del _of_thread.deadline


class _Limited(io.RawIOBase):
    """Reads from a socket, until the deadline of the thread."""

    def __init__(self, stream: io.RawIOBase, sock: socket.socket) -> None:
        self._stream, self._sock = stream, sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        deadline: Deadline | None = getattr(_of_thread, "deadline", None)
        if deadline is not None:
            if not (left := deadline.left()):
                raise TimeoutError("the deadline has passed")
            usual = self._sock.gettimeout()
            self._sock.settimeout(left if usual is None else min(usual, left))
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response whose headers and content are read until the deadline."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Limited(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class HttpPool(urllib3.HTTPConnectionPool):
    """Connections over HTTP, with a deadline."""

    ConnectionCls = _Connection


class HttpsPool(urllib3.HTTPSConnectionPool):
    """Connections over HTTPS, with a deadline."""

    ConnectionCls = _SecureConnection
