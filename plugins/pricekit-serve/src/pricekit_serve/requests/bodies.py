"""Bodies of requests: read within limits, and parsed without trust."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from starlette.requests import Request

from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.requests.rows import Number

Result = TypeVar("Result")

AT_ONCE = 1 << 16
"""Larger bodies are parsed in a thread, so that other requests do not wait."""


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the body.

    Raises:
        RequestError: it is too large or compressed, or comes too slowly.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RequestError(415, "the body is compressed; send it without Content-Encoding")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limits.max_bytes):
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.timeout):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {limits.timeout:g} seconds") from None
    return bytes(body)


def _too_large(limits: Limits) -> RequestError:
    message = f"the body is too large; at most {limits.max_bytes:,} bytes are allowed"
    return RequestError(413, message, headers={"connection": "close"})


async def parsed(body: bytes, parse: Callable[[bytes], Result]) -> Result:
    """Return what a function makes of a body; a thread calls it if that takes time."""
    return parse(body) if len(body) <= AT_ONCE else await asyncio.to_thread(parse, body)


def parse_json(body: bytes) -> Any:
    """Return the values of a JSON document, in which numbers are `Number`.

    Raises:
        RequestError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return _loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reason = f"the byte at position {error.start:,} is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno:,}, column {error.colno:,}"
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    raise RequestError(400, f"the body is not JSON: {reason}")


def parse_json_lines(body: bytes) -> list[Any]:
    """Return the value of each line that is not blank; raises RequestError as `parse_json`, with the line."""
    found = []
    for number, line in enumerate(body.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.isspace() or not line:
            continue
        try:
            found.append(parse_json(line))
        except RequestError as error:
            raise RequestError(400, f"line {number:,}: {error}") from None
    return found


def _loads(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
