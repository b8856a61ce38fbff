"""An S3 server for tests: moto's, behind a proxy that makes requests fail."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

BUCKET = "shop"
_SECONDS = 3
"""After which a client of these tests gives up waiting."""


class Faults:
    """Decides which requests fail, by their numbers from 1, and counts all of them."""

    def __init__(self) -> None:
        self.fault_of: Callable[[int, str], str | None] = lambda number, method: None
        self.requests = self.failed = 0
        self._lock = threading.Lock()

    def every(self, interval: int, *faults: str) -> None:
        """Let every `interval`-th request fail, with each of the faults in turn."""
        self.requests = self.failed = 0
        self.fault_of = lambda number, method: (
            faults[number // interval % len(faults)] if number % interval == 0 else None
        )

    def next(self, method: str) -> str | None:
        with self._lock:
            self.requests += 1
            fault = self.fault_of(self.requests, method)
            self.failed += fault is not None
            return fault


def _handler(port: int, faults: Faults) -> type[BaseHTTPRequestHandler]:
    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self._body()
            fault = faults.next(self.command)
            if fault == "timeout":
                time.sleep(_SECONDS + 1)
            if fault in ("reset", "timeout"):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if fault in _ANSWERS:
                self._send(int(fault), [("Content-Type", "application/xml")], _ANSWERS[fault])
                return
            connection = http.client.HTTPConnection("127.0.0.1", port)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            kept = [h for h in answer.getheaders() if h[0].lower() not in ("connection", "transfer-encoding")]
            self._send(answer.status, kept, answer.read(), cut=fault == "cut")
            connection.close()

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                chunks = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                del self.headers["Transfer-Encoding"]
                self.headers["Content-Length"] = str(sum(map(len, chunks)))
                return b"".join(chunks)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _send(self, *given: Any, **named: Any) -> None:
            with suppress(ConnectionError):  # the client has given up waiting
                self._write(*given, **named)

        def _write(
            self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False
        ) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() != "content-length" or self.command == "HEAD":
                    self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            if cut:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Proxy


_ANSWERS = {
    "503": b"<Error><Code>ServiceUnavailable</Code><Message>Try again.</Message></Error>",
    "403": b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
}


@contextmanager
def s3_server() -> Iterator[tuple[Any, Faults]]:
    """Yield a file system of an S3 server with an empty bucket, and what makes its requests fail."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    import fsspec
    from fsspec.config import conf

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.delenv("AWS_PROFILE", raising=False)
        moto = server.ThreadedMotoServer(port=0, verbose=False)
        moto.start()
        host, port = moto.get_host_and_port()
        with closing(
            http.client.HTTPConnection(host, port)
        ) as connection:  # an earlier server of this process had files
            connection.request("POST", "/moto-api/reset")
            connection.getresponse().read()
        faults = Faults()
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, faults))
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        patch.setitem(conf, "s3", {"config_kwargs": {"read_timeout": _SECONDS, "connect_timeout": _SECONDS}})
        try:
            system = fsspec.filesystem("s3", use_listings_cache=False)
            system.mkdir(BUCKET)
            yield system, faults
        finally:
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            proxy.shutdown()
            proxy.server_close()
            moto.stop()
