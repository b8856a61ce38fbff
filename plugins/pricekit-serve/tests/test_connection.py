"""Connections that wait, send or read slowly cost the others nothing, and no earlier request loses its answer."""

import asyncio
import json
import logging
import socket
from pathlib import Path

import pytest
import uvicorn
from pricekit_serve import Limits
from pricekit_serve import connections as module
from pricekit_serve.access import Record
from pricekit_serve.connections import (
    HEAD_BYTES,
    PARTS,
    PIPELINED,
    Connection,
    Connections,
    Listener,
    connection_limit,
)
from pricekit_serve.errors import RequestError
from pricekit_serve.metrics import Metrics
from uvicorn.server import ServerState

from pricekit.plugin import ConfigError

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
OFFER = POST.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
TIMEOUT = 0.1


class App:
    """Answers with the body of a request when it may; at /early before it has read the body."""

    def __init__(self):
        self.free = asyncio.Event()
        self.free.set()
        self.began, self.ended, self.size = 0, 0, 0
        self.headers = []

    async def __call__(self, scope, receive, send):
        self.began += 1
        self.headers.append(scope["headers"])
        body, more = b"", scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended += 1
                return
            if problem := scope["state"].get("problem"):
                assert isinstance(problem, RequestError)
                await self._send(send, problem.status, b"{}", b"close")
                return
            body, more = body + message["body"], message["more_body"]
        await self.free.wait()
        early = scope["path"] == "/early"
        await self._send(send, 401 if early else 200, body + b"x" * self.size, b"close" if early else b"")

    async def _send(self, send, status, body, connection=b""):
        headers = [(b"content-length", b"%d" % len(body))]
        headers += [(b"connection", connection)] if connection else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Server:
    """Connections on a free port, with a client's half of each."""

    def __init__(self, app, limits, most):
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=1)
        config.load()
        self.metrics, self.app = Metrics(), app
        record = Record(self.metrics)
        self.connections = Connections(most, record)
        options = {"config": config, "server_state": ServerState(), "app_state": {}}
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.listener = Listener(
            listening,
            self.connections,
            lambda: Connection(limits, self.connections, record, **options),
            record,
        )
        self.clients = []

    async def client(self, data=b""):
        reader, writer = await asyncio.open_connection(*self.address)
        self.clients.append(writer)
        writer.write(data)
        return reader, writer

    def closed(self, reason):
        return f'closed_connections_total{{reason="{reason}"}}' in self.metrics.text().decode()


def talk(conversation, *, most=50, timeout=TIMEOUT):
    """Run a conversation with a server."""

    async def run():
        async with asyncio.timeout(20):
            server = Server(App(), Limits(timeout=timeout, max_bytes=10_000), most)
            try:
                await conversation(server)
            finally:
                for writer in server.clients:
                    writer.transport.abort()
                server.listener.close()
                await asyncio.sleep(0.02)

    asyncio.run(run())


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError


async def send_on(writer, data, pause=0.0):
    while True:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(pause)


async def answer(reader):
    """Return the status, the headers and the body of an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
    return int(head.split()[1]), lines, await reader.readexactly(int(lines["content-length"]))


async def refused(reader):
    """Return the status of the last answer, which is JSON with what all answers have."""
    status, headers, body = await answer(reader)
    assert headers["connection"] == "close"
    assert headers["x-request-id"] == json.loads(body)["request_id"]
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert await reader.read() == b""
    return status


@pytest.mark.parametrize(
    ("rest", "status"),
    [(b"GET / HT", 408), (b"GET / HTTP/1.1\r\nA: " + b"x" * 9 * HEAD_BYTES, 431), (b"\0\0\r\n\r\n", 400)],
)
def test_what_is_no_request_is_refused_only_after_the_answer_before(rest, status):
    async def conversation(server):
        server.app.free.clear()
        reader, _ = await server.client(REQUEST + rest)
        await asyncio.sleep(3 * TIMEOUT)
        assert not reader.at_eof()
        server.app.free.set()
        assert (await answer(reader))[0] == 200
        assert await refused(reader) == status
        assert f'route="other",status="{status}"}} 1.0' in server.metrics.text().decode()

    talk(conversation)


def test_a_connection_that_sends_nothing_is_closed_without_a_word(caplog):
    caplog.set_level(logging.INFO, "pricekit")

    async def conversation(server):
        silent = [await server.client(data) for data in (b"", b"", b"\r\n")]
        for _, writer in silent:
            writer.write(b"\r\n")  # blank lines are no request
        for reader, _ in silent:
            assert await reader.read() == b""
        assert server.closed("silent")

    talk(conversation, timeout=1)  # all is written long before
    assert caplog.text.count("has sent nothing within") == 1


def test_blank_lines_do_not_keep_an_idle_connection():
    async def conversation(server):
        reader, writer = await server.client(REQUEST)
        await answer(reader)
        while not reader.at_eof():
            writer.write(b"\r\n")
            await asyncio.sleep(0.05)

    talk(conversation)


def test_requests_one_after_the_other_keep_the_connection():
    async def conversation(server):
        reader, writer = await server.client()
        for _ in range(3):
            await asyncio.sleep(TIMEOUT / 2)
            writer.write(REQUEST)
            assert (await answer(reader))[0] == 200
            await asyncio.sleep(2 * TIMEOUT)  # longer than a head may take
        writer.write(REQUEST + REQUEST)
        assert [(await answer(reader))[0] for _ in range(2)] == [200, 200]

    talk(conversation)


def test_the_longest_silent_connection_makes_room():
    async def conversation(server):
        known_reader, known = await server.client(REQUEST)
        await answer(known_reader)
        silent = [await server.client() for _ in range(6)]
        trickling = [await server.client(data) for data in (b"GET / HT", POST + b"1", OFFER) * 4]
        for _ in range(3):
            reader, _ = await server.client(REQUEST)
            assert (await answer(reader))[0] == 200
        for reader, _ in silent:
            assert await reader.read() == b""
        assert not trickling[-1][0].at_eof()
        known.write(REQUEST)
        assert (await answer(known_reader))[0] == 200
        assert server.closed("room")
        await until(lambda: server.app.ended > 0)  # the app knows that the bodies do not come

    talk(conversation, most=8, timeout=30)


def test_the_longest_idle_connection_makes_room():
    async def conversation(server):
        idle = []
        for _ in range(7):
            reader, _ = await server.client(REQUEST)
            assert (await answer(reader))[0] == 200
            idle.append(reader)
        silent = [await server.client() for _ in range(3)]
        assert await idle[0].read() == b""
        assert await idle[1].read() == b""
        assert not any(reader.at_eof() for reader in (*idle[2:], *(reader for reader, _ in silent)))

    talk(conversation, most=8, timeout=30)


def test_a_connection_that_is_answered_is_never_closed_for_another():
    async def conversation(server):
        server.app.free.clear()
        busy = [(await server.client(REQUEST))[0] for _ in range(8)]
        await until(lambda: server.app.began == 8)
        later, _ = await server.client(REQUEST)
        await asyncio.sleep(0.1)
        server.app.free.set()
        for reader in (*busy, later):
            assert (await answer(reader))[0] == 200

    talk(conversation, most=8)


def test_clients_know_that_their_connection_makes_room():
    async def conversation(server):
        for _ in range(5):
            reader, _ = await server.client(REQUEST)
            assert "connection" not in (await answer(reader))[1]
        for _ in range(4):
            reader, _ = await server.client(REQUEST)
            _, headers, _ = await answer(reader)
        assert headers["connection"] == "close"
        assert await reader.read() == b""

    talk(conversation, most=6)


@pytest.mark.parametrize(
    "requests", [REQUEST, 3 * REQUEST, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")]
)
def test_an_answer_that_nobody_reads_ends_the_connection(requests):
    async def conversation(server):
        server.app.size = 5_000_000
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(server.address)
        raw.sendall(requests)
        await until(lambda: server.closed("unread"))
        await until(lambda: "pricekit_connections 0.0" in server.metrics.text().decode())
        raw.close()

    talk(conversation)


def test_a_slow_reader_makes_room():
    async def conversation(server):
        server.app.size = 5_000_000
        slow = [await server.client(REQUEST) for _ in range(6)]
        await until(lambda: server.app.began == 6)
        server.app.size = 0
        for _ in range(9):
            reader, _ = await server.client(REQUEST)
            assert (await answer(reader))[0] == 200
        with pytest.raises(asyncio.IncompleteReadError):
            await answer(slow[0][0])

    talk(conversation, most=6, timeout=30)


def test_a_body_after_the_answer_ends_the_connection(monkeypatch):
    monkeypatch.setattr(module, "_LINGER", 60)
    early = b"POST /early HTTP/1.1\r\nContent-Length: %d\r\n\r\n"

    async def conversation(server):
        reader, writer = await server.client(early % 9_000)
        status, headers, _ = await answer(reader)
        assert (status, headers["connection"]) == (401, "close")
        assert await reader.read() == b""
        writer.write(b"x" * 9_000 + REQUEST)  # a client that sends its whole body can read the answer
        await writer.drain()
        reader, writer = await server.client(early % 9_000_000)
        with pytest.raises(ConnectionError):  # one that goes on is not read for ever
            await send_on(writer, b"x" * 10_000)
        assert server.app.began == 2

    talk(conversation)


def test_a_body_after_the_answer_is_not_awaited_for_ever(monkeypatch):
    monkeypatch.setattr(module, "_LINGER", 0.1)

    async def conversation(server):
        reader, writer = await server.client(b"POST /early HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
        await answer(reader)
        with pytest.raises(ConnectionError):
            await send_on(writer, b"x", pause=0.02)

    talk(conversation)


def test_requests_that_nobody_waits_for_are_bounded():
    async def conversation(server):
        server.app.free.clear()
        reader, _ = await server.client(REQUEST * 5_000)
        await until(lambda: server.app.began == 1)
        server.app.free.set()
        statuses = [(await answer(reader))[0] for _ in range(PIPELINED + 1)]
        assert statuses == [200] * (PIPELINED + 1)
        assert await refused(reader) == 429

    talk(conversation)


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"1\r\nx\r\n" * (PARTS + 1), 413), (b"zz\r\n", 400), (b"1;" + b"x" * HEAD_BYTES, 431)],
)
@pytest.mark.parametrize("before", [b"", REQUEST])
def test_a_body_that_is_none_gets_an_answer(before, body, status):
    async def conversation(server):
        reader, writer = await server.client(before + CHUNKED)
        if before:
            assert (await answer(reader))[0] == 200
        await until(lambda: server.app.began == 1 + bool(before))
        writer.write(body)
        found, headers, _ = await answer(reader)
        assert (found, headers["connection"]) == (status, "close")
        assert await reader.read() == b""

    talk(conversation, timeout=5)


@pytest.mark.parametrize("pause", [0, 0.02])
def test_headers_behind_a_body_are_ignored(pause):
    async def conversation(server):
        reader, writer = await server.client(CHUNKED)
        await asyncio.sleep(pause)
        writer.write(b"5\r\nhello\r\n0\r\nAuthorization: Bearer x\r\nHost: example\r\n\r\n" + REQUEST)
        assert [(await answer(reader))[::2] for _ in range(2)] == [(200, b"hello"), (200, b"")]
        assert server.app.headers == [[(b"transfer-encoding", b"chunked")], []]

    talk(conversation)


@pytest.mark.parametrize("length", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("pause", [0, 0.02])
def test_an_offer_of_another_protocol_changes_nothing(length, pause):
    """Java's client offers HTTP/2 with its first request."""
    head = OFFER.replace(b"Content-Length: 5", length)
    body = b"hello" if b"Length" in head else b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"

    async def conversation(server):
        reader, writer = await server.client()
        for part in (head, body[:3], body[3:] + REQUEST):
            writer.write(part)
            await asyncio.sleep(pause)
        assert [(await answer(reader))[::2] for _ in range(2)] == [(200, b"hello"), (200, b"")]

    talk(conversation)


def test_no_connection_is_lost_while_no_file_is_left(caplog):
    caplog.set_level(logging.INFO, "pricekit")

    async def conversation(server):
        loop, tries = asyncio.get_running_loop(), []
        accept = loop.sock_accept

        async def fail(listening):
            tries.append(listening)
            if len(tries) < 4:
                raise OSError(24, "Too many open files")
            return await accept(listening)

        loop.sock_accept = fail
        for _ in range(2):
            reader, _ = await server.client(REQUEST)
            assert (await answer(reader))[0] == 200
        del loop.sock_accept

    talk(conversation)
    assert caplog.text.count("Too many open files") == 1
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(("files", "expected"), [(100, 54), (100_000, 1_000)])
def test_connections_leave_files_for_the_rest(monkeypatch, raises, files, expected):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(range(14)))  # what is open
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, files))
    assert connection_limit(Limits()) == expected
    assert connection_limit(Limits(max_connections=9)) == 9
    with raises(ConfigError, "max_connections"):
        connection_limit(Limits(max_connections=files))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (10, 10))
    with raises(ConfigError, "max_connections"):
        connection_limit(Limits())
