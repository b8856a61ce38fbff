"""Bodies of requests: read and parsed within limits of memory and time."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from starlette.requests import Request

from pricekit.plugin import shorten
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.rows import Number

Result = TypeVar("Result")

JSON, JSON_LINES = "application/json", ("application/jsonl", "application/x-ndjson")
"""Types of bodies."""

AT_ONCE = 1 << 12
"""Larger bodies are parsed in a thread, so that other requests do not wait."""
SMALL = 1 << 16
"""Larger bodies take room from a common `Room` until they are answered, and are parsed one at a time."""
LARGEST_BODIES = 5
"""The room, in bodies of the largest size."""
PATIENCE = 10
"""The lowest speed while others wait for room: the largest body in this many seconds."""
_LOOK = 0.5
"""Seconds over which the speed of a body is measured."""


class Bodies:
    """Reads and parses the bodies of all requests, within limits of memory and time.

    Args:
        limits: of requests.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = Room(LARGEST_BODIES * limits.max_bytes)
        self._turns = {False: asyncio.Lock(), True: asyncio.Lock()}

    @asynccontextmanager
    async def parsed(self, request: Request, parse: Callable[[bytes], Result]) -> AsyncIterator[Result]:
        """Read the body of a request; give the block what a function makes of it.

        A large body waits for room while it is read, and gives the room back at the end of the block. It must not be
        slow while others wait.

        Raises:
            RequestError: the body is too large or compressed, comes too slowly, or there was no room in time; or the
                function raises it.
        """
        async with AsyncExitStack() as stack:
            body = await self._read(request, stack)
            if len(body) <= AT_ONCE:
                result = parse(body)
            else:
                result = await self.in_turn(len(body), parse, body)
            del body
            yield result

    async def in_turn(self, size: int, work: Callable[..., Result], *values: Any) -> Result:
        """Return the result of a function, called in a thread: at a time, one for a large body and one for a small one.

        Args:
            size: of the body, in bytes.
            work: the function.
            values: its arguments.
        """
        async with self._turns[size > SMALL]:
            return await asyncio.to_thread(work, *values)

    async def _read(self, request: Request, stack: AsyncExitStack) -> bytes:
        """Return the body; the stack gives its room back."""
        limits = self._limits
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(415, "the body is compressed; send it without Content-Encoding")
        share = Share(_announced(request, limits))
        body, watching = bytearray(), None
        try:
            async with asyncio.timeout(limits.timeout) as time_left:
                async for chunk in request.stream():
                    if (size := len(body) + len(chunk)) > limits.max_bytes:
                        raise _too_large(limits)
                    if watching is None and size > SMALL:
                        stack.callback(self._room.leave, share)
                        watching = asyncio.create_task(self._give_up_if_slow(share, time_left))
                    if size > max(SMALL, share.held):
                        await self._room.take(share, max(size - share.held, min(SMALL, share.rest)))
                    body += chunk
                    share.came = size
        except TimeoutError:
            if share.turn is not None:
                busy = "other requests with large bodies take all the memory for them; try later"
                raise RequestError(503, busy, headers={"retry-after": "1", "connection": "close"}) from None
            if watching is not None and watching.done():
                slow = "the body came too slowly while other requests waited for memory; try later"
                raise RequestError(408, slow) from None
            raise RequestError(408, f"the body did not come within {limits.timeout:g} seconds") from None
        finally:
            if watching is not None:
                watching.cancel()
        self._room.complete(share)
        return bytes(body)

    async def _give_up_if_slow(self, share: Share, time_left: asyncio.Timeout) -> None:
        """End the time for a body when it comes too slowly while other bodies wait for room."""
        least = self._limits.max_bytes * _LOOK / PATIENCE
        while True:
            before, share.waited = share.came, share.turn is not None
            await asyncio.sleep(_LOOK)
            if self._room.is_wanted and not share.waited and share.came - before < least:
                time_left.reschedule(asyncio.get_running_loop().time())
                return


@dataclass(eq=False)
class Share:
    """The room that a body takes.

    Attributes:
        rest: bytes that it may still take until it is complete.
        held: bytes that it has taken.
        came: bytes of the body that have come.
        turn: done when it has the wanted bytes; None: it does not wait.
        wanted: bytes for which it waits.
        waited: whether it has waited since its speed was last measured.
    """

    rest: int
    held: int = 0
    came: int = 0
    turn: asyncio.Future[None] | None = None
    wanted: int = 0
    waited: bool = False


class Room:
    """Memory for bodies, which they take piece by piece as they come (the banker's algorithm).

    A body gets a piece only if all bodies can still be completed afterwards, one after the other. So bodies never wait
    for each other for ever. Those that need the fewest bytes come first; new ones follow in the order of their arrival.

    Args:
        size: the number of bytes.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._holding: set[Share] = set()
        self._waiting: list[Share] = []

    @property
    def is_wanted(self) -> bool:
        """Whether a body waits."""
        return bool(self._waiting)

    async def take(self, share: Share, size: int) -> None:
        """Wait for bytes for a body. If this is cancelled, `share.turn` stays set until the body leaves."""
        share.turn, share.wanted, share.waited = asyncio.get_running_loop().create_future(), size, True
        self._waiting.append(share)
        self._go_on()
        await share.turn
        share.turn = None

    def complete(self, share: Share) -> None:
        """Note that a body needs no more bytes."""
        share.rest = 0
        self._go_on()

    def leave(self, share: Share) -> None:
        """Give back all bytes of a body."""
        self._free += share.held
        self._holding.discard(share)
        if share in self._waiting:
            self._waiting.remove(share)
        self._go_on()

    def _go_on(self) -> None:
        """Give the waiting bodies their bytes, as far as possible."""
        for share in sorted(self._waiting, key=lambda share: (not share.held, share.rest * bool(share.held))):
            if not self._is_enough(share):
                return
            self._waiting.remove(share)
            self._holding.add(share)
            self._free -= share.wanted
            share.held += share.wanted
            share.rest = max(0, share.rest - share.wanted)
            if share.turn is not None and not share.turn.done():
                share.turn.set_result(None)

    def _is_enough(self, share: Share) -> bool:
        """Return whether all bodies can still be completed if one of them takes what it wants."""
        needs = [(other.rest, other.held) for other in self._holding - {share}]
        needs.append((share.rest - share.wanted, share.held + share.wanted))
        free = self._free - share.wanted
        for rest, held in sorted(needs):
            if free < max(0, rest):
                return False
            free += held
        return True


def _announced(request: Request, limits: Limits) -> int:
    """Return the length of the body in the head of the request, else the longest allowed."""
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return limits.max_bytes
    if len(length) > 18 or int(length) > limits.max_bytes:
        raise _too_large(limits)
    return int(length)


def _too_large(limits: Limits) -> RequestError:
    message = f"the body is too large; at most {limits.max_bytes:,} bytes are allowed"
    return RequestError(413, message, headers={"connection": "close"})


def parse_json(body: bytes, most: int) -> Any:
    """Return the values of a JSON document, in which numbers are `Number`.

    Args:
        body: the document.
        most: the largest number of values; it is checked before they are parsed.

    Raises:
        RequestError: it is not JSON in UTF-8, has too many values, or an object with two equal keys, or is nested too
            deeply.
    """
    check_values(body, most)
    return _values(body)


def parse_json_lines(body: bytes, most: int) -> list[Any]:
    """Return the value of each line that is not blank; raises RequestError as `parse_json`, with the line."""
    if body.count(b"\n") > most:
        raise RequestError(413, f"the body has over {most:,} lines; send one line for each row")
    check_values(body, most)
    values = []
    for number, line in enumerate(io.BytesIO(body.removeprefix(b"\xef\xbb\xbf")), start=1):
        if line.isspace():
            continue
        try:
            values.append(_values(line))
        except RequestError as error:
            raise RequestError(400, f"line {number:,}: {error}") from None
    return values


def check_values(body: bytes, most: int) -> None:
    """Raise RequestError if JSON documents have more values than they may, without parsing them.

    A value begins the document, or follows a comma or an opening bracket outside of texts. A text stands between two
    quotation marks that no backslash escapes. Each step is one pass in C over the bytes.
    """
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    texts = plain.count(b'"') // 2
    outside = b"".join(plain.split(b'"')[::2]) if texts <= 2 * most else b""
    if texts > 2 * most or sum(map(outside.count, (b",", b"[", b"{"))) >= most:
        raise RequestError(
            413,
            f"the body has over {most:,} JSON values, more than the columns of this model in the most rows of a "
            "request; send fewer rows, or only these columns",
        )


def _values(document: bytes) -> Any:
    try:
        return json.loads(
            document.decode("utf-8-sig"),
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError as error:
        reason = f"the byte at position {error.start:,} is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno:,}, column {error.colno:,}"
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    raise RequestError(400, f"the body is not JSON: {reason}")


# The hooks are Python functions, at which other threads get their turn; the parser itself holds the interpreter lock.


def _number(text: str) -> Number:
    return Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"an object has the key {shorten(repr(twice[:100]))} twice")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
