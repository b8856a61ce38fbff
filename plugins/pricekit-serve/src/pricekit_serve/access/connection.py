"""Connections: how many there are, and how long each may wait, send and read.

Whoever sends nothing, sends or reads slowly, or goes on after an answer costs the server one connection for a bounded
time. If all connections are taken, the one that has waited longest is closed for the next, so ordinary clients always
get in.
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
from pricekit_serve.access.record import ANSWER_HEADERS, Record, new_request_id
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.models.answers import as_json

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
"""Files for a bundle that is opened again, for sketches, and for clients of remote addresses."""
_LINGER = 5.0
"""Seconds in which a client can read an answer that came before it had sent everything."""
_BACKLOG = 1_024
"""Connections that the system holds until the server accepts them."""
_PAUSE = 0.05
"""Seconds until the server looks again for room or files."""


def most_connections(limits: Limits) -> int:
    """Return how many connections a server may hold.

    Raises:
        ConfigError: this process may not open as many files.
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
    """All open connections, those that wait, and since when.

    A connection waits until it has a complete request, and while its client does not read an answer. Those that have
    had no answer yet take at most half of the room: neither silent connections nor idle ones keep out the others.

    Args:
        most: the most connections.
        record: keeps how many there are, and which were closed.
    """

    def __init__(self, most: int, record: Record) -> None:
        self._most, self._record = most, record
        self._open: set[Connection] = set()
        self._ending: dict[Connection, None] = {}
        self._new: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}
        self._changed = asyncio.Event()

    @property
    def crowded(self) -> bool:
        """Whether idle connections that have had an answer are closed for new ones."""
        return len(self._open) >= self._most and len(self._new) < self._most // 2

    def add(self, connection: Connection) -> None:
        """Add a connection, which waits."""
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
        """Let a connection wait from now on."""
        self.works(connection)
        (self._known if connection.known else self._new)[connection] = None
        self._changed.set()

    def works(self, connection: Connection) -> None:
        """Let a connection wait no longer."""
        for queue in (self._ending, self._new, self._known):
            queue.pop(connection, None)

    def ends(self, connection: Connection) -> None:
        """Let a connection be the next that is closed: it has had its last answer."""
        self.works(connection)
        self._ending[connection] = None

    async def room(self) -> None:
        """Wait for room, and make it."""
        while len(self._open) >= self._most:
            self._changed.clear()
            if (longest := self._longest()) is not None:
                message = (
                    f"there are {self._most:,} connections, and the one that has waited longest is closed"
                )
                self._record.closed("room", message)
                longest.make_room()
                await asyncio.sleep(0)  # until it is closed
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._changed.wait()

    def _longest(self) -> Connection | None:
        """Return the connection to close for another one."""
        many_new = len(self._new) >= self._most // 2
        order = (self._ending, self._new, self._known) if many_new else (self._ending, self._known, self._new)
        return next((next(iter(queue)) for queue in order if queue), None)


class Listener:
    """Accepts connections while there is room for them.

    asyncio's own server accepts as many as come, and writes a traceback for each that finds no file. It has the part
    of the interface of `asyncio.Server` that uvicorn uses.

    Args:
        listening: the socket, which is closed at the end.
        connections: that are open.
        new: makes a connection.
        record: keeps failures.
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
    """A transport whose `close` ends a connection with care."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.transport, self.close = transport, end
        self.ending = False

    def is_closing(self) -> bool:
        """Whether nothing more is answered."""
        return self.ending or self.transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which waits, reads and writes without any limit, with limits.

    Args:
        limits: `timeout` bounds the time until a first request begins, until its head is complete, and until the
            client has read enough of an answer.
        connections: to which it belongs.
        record: keeps requests that are no request.
        uvicorns: arguments of uvicorn.

    Attributes:
        known: whether its client has had an answer.
    """

    def __init__(self, limits: Limits, connections: Connections, record: Record, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._timeout, self._discarded_bytes = limits.timeout, 2 * limits.max_bytes
        self._connections, self._record = connections, record
        self.known = False
        self._wire: _Wire
        self._cycles: deque[RequestResponseCycle] = deque()  # those without a complete answer
        self._head_comes, self._body_comes, self._deaf = False, False, False
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
        self._wire.ending = self._deaf = True
        self._stop_timers()
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and refuse those that are no request, or go on without completing a part of one."""
        if self._deaf:
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
                cause if isinstance(cause, RequestError) else RequestError(400, "this is no HTTP request")
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
        self._head_comes, self._began = True, self.loop.time()
        self._expect(self._timeout)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, and none that comes behind the body: proxies have not checked it."""
        if not self._body_comes:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        if self._resumes:
            return
        super().on_headers_complete()
        self._head_comes, self._body_comes, self._progress = False, True, True
        self._parts = 0
        self._stop_timer()
        self._cycles.append(self.cycle)
        if self._connections.crowded:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Hand over a part of a body."""
        self._progress = True
        self._parts += 1
        if self._parts > PARTS:
            raise RequestError(413, f"the body comes in over {PARTS:,} parts; send larger ones")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for an answer."""
        super().on_message_complete()
        self._body_comes = False
        self._connections.works(self)

    def on_response_complete(self) -> None:
        """Answer the next request, or wait for one."""
        self._cycles.popleft()
        self.known = True
        super().on_response_complete()
        if self._wire.ending:
            return
        if self._cycles:
            self._update()
        elif self._refusal is not None:
            self._refuse(self._refusal)
        else:
            self._connections.waits(self)
            self._expect(self._timeout if self._head_comes else self.timeout_keep_alive)

    def pause_writing(self) -> None:
        """Expect that the client reads."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._timeout, self._give_up_answer)
        self._connections.waits(self)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._update()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read on in the same protocol, after a request that offers another one, as Java's client does.

        The parser takes what follows its head for the other protocol. A new one takes it for the body, if there is one.
        """
        framing = [pair for pair in self.headers if pair[0] in (b"content-length", b"transfer-encoding")]
        self.parser = httptools.HttpRequestParser(self)
        if framing and framing != [(b"content-length", b"0")]:
            self.cycle.more_body = self._body_comes = True
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
        return len(self._cycles) > self._body_comes

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
        elif self._head_comes:
            self._refuse(
                RequestError(
                    408, f"the head of the request was not complete within {self._timeout:g} seconds"
                )
            )
        else:
            if not self.known:
                message = f"a connection has sent nothing within {self._timeout:g} seconds"
                self._record.closed("silent", message)
            self._end()

    def _give_up_answer(self) -> None:
        """Close a connection whose client does not read."""
        message = f"an answer was not read within {self._timeout:g} seconds"
        self._record.closed("unread", message)
        self._wire.abort()

    def _refuse(self, refusal: RequestError) -> None:
        """Answer what is no request after the requests before it, and end the connection: nobody knows what follows."""
        self._deaf, self._refusal = True, refusal
        self._stop_timer()
        if self._body_comes:
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

        To close it while the client still sends would take the answer from it.
        """
        if self._wire.ending:
            return
        self._wire.ending = self._deaf = True
        self._stop_timers()
        if self._head_comes or self._body_comes or self._refusal is not None:
            self._wire.write_eof()
            self.flow.resume_reading()
            self._connections.ends(self)
            self._timer = self.loop.call_later(_LINGER, self._wire.abort)
        else:
            self._wire.transport.close()  # when the answer is written
            self._connections.waits(self)
            self._unread = self.loop.call_later(self._timeout, self._give_up_answer)

    def _discard(self, size: int) -> None:
        """Read on for a while, so that the client can read an answer."""
        self._discarded_bytes -= size
        if self._wire.ending and self._discarded_bytes < 0:
            self._wire.abort()
        elif not self._wire.ending:
            self.flow.pause_reading()
