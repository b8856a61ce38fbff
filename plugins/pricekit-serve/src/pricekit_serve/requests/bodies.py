"""Bodies of requests: read within limits, and parsed without trust, so that none stops the others."""

from __future__ import annotations

import asyncio
import io
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NoReturn, TypeVar

from starlette.requests import Request

from pricekit.plugin import shorten
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.requests.rows import Number

Result = TypeVar("Result")

JSON, JSON_LINES = "application/json", ("application/jsonl", "application/x-ndjson")
"""Types of bodies."""

AT_ONCE = 1 << 12
"""Larger bodies are parsed in a thread, so that other requests do not wait."""
SMALL = 1 << 16
"""Larger bodies take room until their request is answered, and are parsed one at a time."""
LARGEST_BODIES = 5
"""There is room for so many bodies of the largest size."""


class Bodies:
    """Reads and parses bodies, and keeps their memory and their time within limits.

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

        A large body is read when there is room for it. The room is free again at the end of the block.

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
        """Return the result of a function that takes time, from a thread: one large work, and one small, at a time.

        Args:
            size: of the work, in bytes.
            work: the function.
            values: its arguments.
        """
        async with self._turns[size > SMALL]:
            return await asyncio.to_thread(work, *values)

    async def _read(self, request: Request, stack: AsyncExitStack) -> bytes:
        """Return the body; the stack gives its room back."""
        limits = self._limits
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestError(415, "the body is compressed; send it without Content-Encoding")
        size = _announced(request, limits)
        body, waits = bytearray(), False
        try:
            async with asyncio.timeout(limits.timeout):
                async for chunk in request.stream():
                    if len(body) <= SMALL < len(body) + len(chunk):
                        waits = True
                        await self._room.take(size)
                        stack.callback(self._room.give_back, size)
                        waits = False
                    body += chunk
                    if len(body) > limits.max_bytes:
                        raise _too_large(limits)
        except TimeoutError:
            if waits:
                busy = "other requests with large bodies take all the memory for them; try later"
                raise RequestError(503, busy, headers={"retry-after": "1", "connection": "close"}) from None
            raise RequestError(408, f"the body did not come within {limits.timeout:g} seconds") from None
        return bytes(body)


class Room:
    """Bytes of memory that requests take in the order in which they ask.

    Args:
        size: the number of bytes.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Take bytes, when there are so many, and all who asked earlier have theirs."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self.give_back(0)
        try:
            await turn
        except asyncio.CancelledError:
            self.give_back(0 if turn.cancelled() else size)
            raise

    def give_back(self, size: int) -> None:
        """Give bytes back, and let those who wait have theirs."""
        self._free += size
        while self._waiting:
            taken, turn = self._waiting[0]
            if not turn.cancelled():
                if taken > self._free:
                    return
                self._free -= taken
                turn.set_result(None)
            self._waiting.popleft()


def _announced(request: Request, limits: Limits) -> int:
    """Return how many bytes the body has, by its head, or at most."""
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

    A value begins the document, or follows a comma or an opening bracket outside of texts. Texts are what stands
    between quotation marks that no backslash escapes. Each step is one pass in C over the bytes.
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


# The hooks are functions in Python, between which other threads have their turn; the parser itself never gives way.


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
