"""Requests that no honest client sends, over raw sockets, with the statuses that are right for them.

They are drawn with a seed: wrong values, nesting, encodings, sizes, framing, pipelining, and slow bodies.
"""

from __future__ import annotations

import json
import random
import re
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from load.server import JSON, request

TIMEOUT, MAX_BYTES, MAX_ROWS = 1.0, 200_000, 100
OPTIONS = f"--timeout {TIMEOUT:g} --max-bytes {MAX_BYTES} --max-rows {MAX_ROWS} --queue-rows 1000"
"""Of the server, so that limits are reached soon."""

_ANY = (200, 400, 404, 405, 408, 411, 413, 414, 415, 422, 431, 501)
"""Of bytes that are hardly HTTP."""
_PATIENCE = 20.0


@dataclass(frozen=True)
class Attack:
    """One connection.

    Attributes:
        kind: what is wrong.
        parts: bytes that are sent one after the other, with `pause` seconds in between.
        statuses: what each answer may be.
        answers: how many answers come; None: any number.
        pause: seconds.
    """

    kind: str
    parts: tuple[bytes, ...]
    statuses: tuple[int, ...]
    answers: int | None = 1
    pause: float = 0.0


def attacks(count: int, seed: int) -> list[Attack]:
    """Return so many attacks, of each kind about equally many."""
    rng = random.Random(seed)
    makers = (
        _values,
        _values,
        _nesting,
        _encodings,
        _sizes,
        _types,
        _bytes,
        _framing,
        _pipelines,
        _addresses,
    )
    found = [makers[number % len(makers)](rng) for number in range(count)]
    for place in range(0, count, 50):
        found[place] = _slow(rng)
    return found


def _post(body: bytes, kind: str = JSON, path: str = "/predict") -> tuple[bytes]:
    return (request(body, kind, path),)


def _json(value: object) -> tuple[bytes]:
    return _post(json.dumps(value).encode())


def _values(rng: random.Random) -> Attack:
    text: dict[str, object] = {"catalog_content": "tea"}
    odd: object = rng.choice([None, 1, -1.5, True, "x", [], {}, [[]], {"a": 1}, "\ud800", "x" * 300])
    wrong: Sequence[object] = (
        {"rows": {"a": 1}},
        {"rows": "tea"},
        {"rows": [text, 5]},
        {"rows": [[text]]},
        {"rows": [{}]},
        {"rows": [{"catalog_contents": "tea"}]},
        {"rows": [text | {f"column{rng.random()}": odd}]},
        {"rows": [{"catalog_content": rng.choice([[], {}, [1], {"a": "b"}])}]},
        {"rows": [text], rng.choice(["row", "Rows", "", "x" * 1000, "\u0000", "__class__"]): odd},
        {"rows": [text], "interval": rng.choice(["0.9", [], {}, 0, 1, -1, 2, 1e308, True])},
        {"rows": [text], "explain": rng.choice(["true", 1, 0, [], {}])},
        {"rows": [text], "comparables": rng.choice([-1, 0.5, 101, 1e99, "3", True, [3]])},
        {"rows": None},
        {},
        rng.choice([[], "rows", 5, None, True]),
    )
    return Attack("wrong value", _json(rng.choice(wrong)), (422,))


def _nesting(rng: random.Random) -> Attack:
    depth = rng.choice([500, 5_000, 50_000])
    start, end = rng.choice([("[", "]"), ('{"a":', "}"), ('{"rows":[', "]}")])
    inner = start * depth + rng.choice(["1", ""]) + end * rng.choice([depth, 0])
    body = rng.choice([inner, f'{{"rows":{inner}}}', f'{{"rows":[{{"catalog_content":{inner}}}]}}'])
    return Attack("nesting", _post(body.encode()), (400, 413, 422))


def _encodings(rng: random.Random) -> Attack:
    text = json.dumps({"rows": [{"catalog_content": "tê\u8336 " * rng.randrange(1, 9)}]}, ensure_ascii=False)
    encoding = rng.choice(["latin-1", "utf-16", "utf-32", "utf-7", "shift-jis", "cp037"])
    body = text.encode(encoding, "ignore")
    damaged = bytearray(text.encode())
    damaged[rng.randrange(len(damaged))] = rng.choice([0x80, 0xC0, 0xFF, 0xFE])
    return Attack("encoding", _post(rng.choice([body, bytes(damaged)])), (200, 400, 422))


def _sizes(rng: random.Random) -> Attack:
    row = {"catalog_content": "tea"}
    many = _json({"rows": [row] * rng.randrange(MAX_ROWS + 1, 5 * MAX_ROWS)})
    long = _json({"rows": [{"catalog_content": "x" * 50_001}]})
    large = _post(b" " * rng.randrange(MAX_BYTES + 1, 2 * MAX_BYTES))
    claimed = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        + b"9" * rng.randrange(7, 30)
        + b"\r\n\r\n",
    )
    return rng.choice(
        [
            Attack("too many rows", many, (413,)),
            Attack("too long a text", long, (422,)),
            Attack("too large a body", large, (413,)),
            Attack("too large a length", claimed, (400, 413)),
        ]
    )


def _types(rng: random.Random) -> Attack:
    body = b'{"rows": [{"catalog_content": "tea"}]}'
    kind = rng.choice(
        [
            "text/plain",
            "",
            "application/xml",
            "a" * 500,
            "application/json; charset=utf-16",
            "multipart/form-data",
        ]
    )
    packed = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: " + rng.choice(
        [b"gzip", b"br", b"x"]
    )
    packed += b"\r\nContent-Length: 5\r\n\r\n" + bytes(rng.randrange(256) for _ in range(5))
    arrow = _post(rng.randbytes(rng.randrange(400)), "application/vnd.apache.arrow.stream")
    return rng.choice(
        [
            Attack("content type", _post(body, kind), (415,)),
            Attack("compressed", (packed,), (415,)),
            Attack("no Arrow stream", arrow, (400,)),
        ]
    )


def _bytes(rng: random.Random) -> Attack:
    body = bytearray(b'{"rows": [{"catalog_content": "tea"}], "interval": 0.9}')
    for _ in range(rng.randrange(1, 6)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    kind = rng.choice([JSON, "application/jsonl"])
    return Attack("changed bytes", _post(bytes(body), kind), (200, 400, 422))


def _framing(rng: random.Random) -> Attack:
    starts = (
        rng.randbytes(rng.randrange(1, 200)),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"/" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
        b"0\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(50),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\nHost: localhost\r\nX: \x00\x01\r\n\r\n",
    )
    return Attack("framing", (rng.choice(starts),), (100, *_ANY), answers=None)


def _pipelines(rng: random.Random) -> Attack:
    good = request(b'{"rows": [{"catalog_content": "tea"}]}')
    bad = request(rng.choice([b"{", b"[]", b'{"rows": 1}']))
    data = [rng.choice([good, bad]) for _ in range(rng.randrange(2, 12))]
    whole = b"".join(data)
    cut = rng.randrange(1, len(whole))
    return Attack("pipelining", (whole[:cut], whole[cut:]), (200, 400, 422), answers=len(data))


def _addresses(rng: random.Random) -> Attack:
    paths = [
        "/../../etc/passwd",
        "/predict/",
        "/models/%00/predict",
        f"/models/{3000 * 'a'}/predict",
        "/PREDICT",
    ]
    paths += [
        "//predict",
        "/v2/models/x/infer",
        "/%ff%fe",
        "/models/../predict",
        "/v2/models/x/versions/9/infer",
    ]
    path = rng.choice(paths)
    method = rng.choice(["GET", "PUT", "DELETE", "TRACE", "PATCH", "OPTIONS", "HEAD"])
    other = f"{method} /predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    if rng.random() < 0.3:
        return Attack("method", (other,), (405,))
    return Attack("address", _post(b"{}", JSON, path), (404,))


def _slow(rng: random.Random) -> Attack:
    """A body whose end never comes, or comes byte by byte beyond the time limit."""
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n"
    drips = (b"{", *(b" " for _ in range(rng.randrange(3, 9))))
    return Attack("slow body", (head, *drips), (408,), pause=1.3 * TIMEOUT / 3)


def run(port: int, found: Sequence[Attack], clients: int = 8) -> list[str]:
    """Make all attacks, several at a time; return one sentence for each wrong answer."""
    with ThreadPoolExecutor(clients) as pool:
        return [problem for problem in pool.map(lambda attack: _attack(port, attack), found) if problem]


def _attack(port: int, attack: Attack) -> str:
    statuses = statuses_of(_send(port, attack))
    wrong = [status for status in statuses if status not in attack.statuses]
    number_is_wrong = attack.answers is not None and len(statuses) != attack.answers
    if not wrong and not number_is_wrong:
        return ""
    start = b"".join(attack.parts)[:300]
    return f"{attack.kind}: {statuses} instead of {attack.answers} of {attack.statuses}, for {start!r}"


def _send(port: int, attack: Attack) -> bytes:
    """Send the parts; return all bytes that come back until the server closes or nothing more can come."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as raw:
        received = b""
        try:
            for part in attack.parts:
                raw.sendall(part)
                time.sleep(attack.pause)
            if attack.answers is None:  # otherwise the server takes it for a client that goes away
                raw.shutdown(socket.SHUT_WR)
            while attack.answers is None or len(statuses_of(received)) < attack.answers:
                if not (data := raw.recv(1 << 16)):
                    break
                received += data
        except (ConnectionError, BrokenPipeError):  # the server need not read the rest
            received += _rest(raw.recv)
        return received


def _rest(receive: Callable[[int], bytes]) -> bytes:
    try:
        return receive(1 << 16)
    except OSError:
        return b""


def statuses_of(received: bytes) -> list[int]:
    """Return the statuses of complete heads of answers."""
    return [
        int(found[1]) for found in re.finditer(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(?:[^\r]+\r\n)*\r\n", received)
    ]
