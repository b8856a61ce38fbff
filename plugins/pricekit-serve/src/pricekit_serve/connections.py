"""Limits of connections: how many may be open, and how long each may wait, send and read.

A client that sends nothing, sends or reads slowly, or keeps sending after an answer occupies one connection for a
bounded time. When all connections are taken, the server closes the one that has waited longest, so ordinary clients
always get in.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pricekit.plugin import ConfigError, describe_failure
from pricekit_serve.access import ANSWER_HEADERS, Record, new_request_id
from pricekit_serve.answers import as_json
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits

HEAD_BYTES = 65_536
"""The most bytes of the lines before a body. More may come at once, up to asyncio's 256 KiB."""
PARTS = 65_536
"""The most parts of a body, each of which costs time."""
PIPELINED = 16
"""The most requests of a connection that wait for their answers."""
CONNECTIONS = 1_000
"""The most connections, unless the user says otherwise or the process may open fewer files."""
_FEWEST = 8
_SPARE_FILES = 32
"""Files that are left for reloads, sketches and remote addresses."""
_LINGER = 5.0
"""Seconds that a client has to read an answer that came before the end of its request."""
_BACKLOG = 1_024
"""Connections that the system holds until the server accepts them."""
_PAUSE = 0.05
"""Seconds until the server looks again for room or files."""


def connection_limit(limits: Limits) -> int:
    """Return how many connections a server may hold.

    Raises:
        ConfigError: the limit of open files does not allow `max_connections`.
    """
    possible = _possible_connections()
    most = limits.max_connections or CONNECTIONS
    if possible is None:
        return most
    if limits.max_connections is None:
        most = max(_FEWEST, min(CONNECTIONS, possible))
    if most > possible:
        raise ConfigError(
            f"this process may open files for {max(0, possible):,} connections; expected {most:,}. Raise the limit of "
            "open files (ulimit -n)",
            parameters=("max_connections",),
        )
    return most


def _possible_connections() -> int | None:
    """Return for how many connections this process may still open files; None: any number."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return None
    try:
        taken = len(list(Path("/dev/fd").iterdir()))
    except OSError:
        taken = _SPARE_FILES
    return allowed - taken - _SPARE_FILES


class Connections:
    """The open connections, and those that wait, in the order in which they began to.

    A connection waits until it has a complete request, and while its client does not read an answer. Connections
    without any answer so far may take half of the room, so neither silent nor idle ones keep out the others.

    Args:
        limit: the most connections.
        record: counts them, and logs which were closed.
    """

    def __init__(self, limit: int, record: Record) -> None:
        self._limit, self._record = limit, record
        self._open: set[Connection] = set()
        self._ending: dict[Connection, None] = {}
        self._new: dict[Connection, None] = {}
        self._answered: dict[Connection, None] = {}
        self._changed = asyncio.Event()

    @property
    def crowded(self) -> bool:
        """Whether new connections close idle ones that had an answer."""
        return len(self._open) >= self._limit and len(self._new) < self._limit // 2

    def add(self, connection: Connection) -> None:
        """Add a connection that waits."""
        self._open.add(connection)
        self._record.opened(len(self._open))
        self.waits(connection)

    def remove(self, connection: Connection) -> None:
        """Remove a connection."""
        self._open.discard(connection)
        self._record.opened(len(self._open))
        self.works(connection)
        self._changed.set()

    def waits(self, connection: Connection) -> None:
        """Note that a connection waits."""
        self.works(connection)
        (self._answered if connection.answered else self._new)[connection] = None
        self._changed.set()

    def works(self, connection: Connection) -> None:
        """Note that a connection does not wait any longer."""
        for queue in (self._ending, self._new, self._answered):
            queue.pop(connection, None)

    def ends(self, connection: Connection) -> None:
        """Note that a connection had its last answer, so that it is closed before the others."""
        self.works(connection)
        self._ending[connection] = None

    async def room(self) -> None:
        """Wait until there is room, and close waiting connections to make it."""
        while len(self._open) >= self._limit:
            self._changed.clear()
            if (longest := self._next_to_close()) is not None:
                message = (
                    f"there are {self._limit:,} connections, and the one that has waited longest is closed"
                )
                self._record.closed("room", message)
                longest.make_room()
                await asyncio.sleep(0)  # until it is closed
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._changed.wait()

    def _next_to_close(self) -> Connection | None:
        """Return the connection to close for another one."""
        many_new = len(self._new) >= self._limit // 2
        order = (
            (self._ending, self._new, self._answered)
            if many_new
            else (self._ending, self._answered, self._new)
        )
        return next((next(iter(queue)) for queue in order if queue), None)


class Listener:
    """Accepts connections while there is room for them.

    asyncio's own server accepts all, and writes a traceback for each one beyond the limit of open files. This class has
    the methods of `asyncio.Server` that uvicorn calls.

    Args:
        listening: the socket, which is closed at the end.
        connections: that are open.
        new: makes a connection.
        record: logs failures.
    """

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        new: Callable[[], Connection],
        record: Record,
    ) -> None:
        self._listening, self._connections, self._new, self._record = listening, connections, new, record
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections."""
        self._accepting.cancel()
        asyncio.get_running_loop().call_soon(self._listening.close)  # when the task no longer reads from it

    async def wait_closed(self) -> None:
        """Do nothing: uvicorn waits for the connections."""

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                self._record.rarely("connections not accepted", describe_failure(error), {})
                await asyncio.sleep(_PAUSE)
                continue
            try:
                await self._connections.room()
                await loop.connect_accepted_socket(self._new, accepted)
            except OSError:  # the client has gone away
                accepted.close()
            except asyncio.CancelledError:
                accepted.close()
                raise


class _Wire:
    """A transport for uvicorn whose `close` lets the client read the last answer."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.transport, self.close = transport, end
        self.ending = False

    def is_closing(self) -> bool:
        """Whether the connection gets no further answers."""
        return self.ending or self.transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with limits on waiting, reading and writing.

    Args:
        limits: `timeout` bounds the time until a first request begins, until its head is complete, and until the
            client has read enough of an answer.
        connections: to which it belongs.
        record: counts and logs what is refused and closed.
        options: arguments of uvicorn's connection.

    Attributes:
        answered: whether its client had an answer.
    """

    def __init__(self, limits: Limits, connections: Connections, record: Record, **options: Any) -> None:
        super().__init__(**options)
        self._timeout, self._discarded_bytes = limits.timeout, 2 * limits.max_bytes
        self._connections, self._record = connections, record
        self.answered = False
        self._wire: _Wire
        self._cycles: deque[RequestResponseCycle] = deque()  # those without a complete answer
        self._expects_head, self._expects_body, self._ignores_input = False, False, False
        self._head_bytes, self._parts, self._progress, self._resumes = 0, 0, False, False
        self._began = self.loop.time()
        self._refusal: RequestError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        self._wire = _Wire(transport, self._end)
        super().connection_made(self._wire)  # type: ignore[arg-type]
        self._connections.add(self)
        self._expect(self._timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._wire.ending = self._ignores_input = True
        self._stop_timers()
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; refuse a head that is too long, and what is not HTTP."""
        if self._ignores_input:
            self._discard(len(data))
            return
        self._unset_keepalive_if_required()
        self._progress = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(
                cause if isinstance(cause, RequestError) else RequestError(400, "this is not an HTTP request")
            )
            return
        self._head_bytes = 0 if self._progress else self._head_bytes + len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(RequestError(431, f"the head of the request has over {HEAD_BYTES:,} bytes"))

    def on_message_begin(self) -> None:
        """Expect the head of a request."""
        if self._resumes:
            self.url, self.headers = b"", []
            return
        if len(self._cycles) > PIPELINED:
            raise RequestError(429, f"over {PIPELINED} requests of this connection wait for their answers")
        super().on_message_begin()
        self._expects_head, self._began = True, self.loop.time()
        self._expect(self._timeout)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the head. Trailers are dropped: they follow the body, and proxies do not check them."""
        if not self._expects_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        if self._resumes:
            return
        super().on_headers_complete()
        self._expects_head, self._expects_body, self._progress = False, True, True
        self._parts = 0
        self._stop_timer()
        self._cycles.append(self.cycle)
        if self._connections.crowded:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass on a part of a body."""
        self._progress = True
        self._parts += 1
        if self._parts > PARTS:
            raise RequestError(413, f"the body comes in over {PARTS:,} parts; send larger ones")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for an answer."""
        super().on_message_complete()
        self._expects_body = False
        self._connections.works(self)

    def on_response_complete(self) -> None:
        """Answer the next request, or wait for one."""
        self._cycles.popleft()
        self.answered = True
        super().on_response_complete()
        if self._wire.ending:
            return
        if self._cycles:
            self._update()
        elif self._refusal is not None:
            self._refuse(self._refusal)
        else:
            self._connections.waits(self)
            self._expect(self._timeout if self._expects_head else self.timeout_keep_alive)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._timeout, self._give_up_answer)
        self._connections.waits(self)

    def resume_writing(self) -> None:
        """Continue the answer."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._update()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Stay with HTTP/1.1 when a request offers another protocol, as Java's client does.

        The parser stops after the head of such a request. A new parser reads what follows: the body, if there is one.
        """
        framing = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
        self.parser = httptools.HttpRequestParser(self)
        if framing and framing != [(b"content-length", b"0")]:
            self.cycle.more_body = self._expects_body = True
            self.cycle.message_event.clear()
            self._connections.waits(self)
            self._resumes = True
            head = b"".join(b"%b: %b\r\n" % pair for pair in framing)
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % head)
            self._resumes = False
        if rest:
            self.data_received(rest)

    def make_room(self) -> None:
        """Close this connection for another one; if an answer is being read, only at the second call."""
        if self._wire.ending or not self._wire.get_write_buffer_size():
            self._wire.abort()
        else:
            self._end()

    def _works(self) -> bool:
        """Return whether a complete request of this connection has no whole answer yet."""
        return len(self._cycles) > self._expects_body

    def _update(self) -> None:
        if self._works() and not self.flow.write_paused and not self._wire.ending:
            self._connections.works(self)

    def _expect(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up(self) -> None:
        """End a connection whose request does not come."""
        if self._cycles:
            self._expect(self._timeout)
        elif self._expects_head:
            self._refuse(
                RequestError(
                    408, f"the head of the request was not complete within {self._timeout:g} seconds"
                )
            )
        else:
            if not self.answered:
                message = f"a connection has sent nothing within {self._timeout:g} seconds"
                self._record.closed("silent", message)
            self._end()

    def _give_up_answer(self) -> None:
        """Close a connection whose client does not read."""
        message = f"an answer was not read within {self._timeout:g} seconds"
        self._record.closed("unread", message)
        self._wire.abort()

    def _refuse(self, refusal: RequestError) -> None:
        """Answer an unusable request once the earlier ones have their answers, and end the connection.

        The connection ends because the beginning of the next request is unknown.
        """
        self._ignores_input, self._refusal = True, refusal
        self._stop_timer()
        if self._expects_body:
            self.cycle.scope["state"]["problem"] = refusal
            self.cycle.message_event.set()
        elif not self._cycles and not self._wire.ending:
            request_id = new_request_id()
            self._record.refused(refusal.status, str(refusal), self.loop.time() - self._began, request_id)
            content = as_json(refusal.content() | {"request_id": request_id})
            headers = ANSWER_HEADERS | {
                "x-request-id": request_id,
                "content-type": "application/json",
                "content-length": str(len(content)),
                "connection": "close",
            }
            lines = [b"%b: %b\r\n" % pair for pair in self.server_state.default_headers]
            lines += [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
            self._wire.write(b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", content]))
            self._end()

    def _end(self) -> None:
        """Close the connection when the client has its answers, or after a while.

        Closing it while the client sends would discard an answer that the client has not read.
        """
        if self._wire.ending:
            return
        self._wire.ending = self._ignores_input = True
        self._stop_timers()
        if self._expects_head or self._expects_body or self._refusal is not None:
            self._wire.write_eof()
            self.flow.resume_reading()
            self._connections.ends(self)
            self._timer = self.loop.call_later(_LINGER, self._wire.abort)
        else:
            self._wire.transport.close()  # when the answer is written
            self._connections.waits(self)
            self._unread = self.loop.call_later(self._timeout, self._give_up_answer)

    def _discard(self, size: int) -> None:
        """Ignore what comes, up to a limit, so that the client can finish sending and read its answer."""
        self._discarded_bytes -= size
        if self._wire.ending and self._discarded_bytes < 0:
            self._wire.abort()
        elif not self._wire.ending:
            self.flow.pause_reading()
