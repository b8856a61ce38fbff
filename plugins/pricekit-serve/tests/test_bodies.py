"""Bodies are parsed as JSON is, within a number of values, and share memory."""

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pricekit_serve import Limits
from pricekit_serve import bodies as module
from pricekit_serve.bodies import (
    LARGEST_BODIES,
    SMALL,
    Bodies,
    Room,
    Share,
    parse_json,
    parse_json_lines,
)
from pricekit_serve.errors import RequestError
from starlette.requests import Request

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=30,
)
ODD = st.text('\\"[]{},: a\n\ud800\u8336')


def number_of_values(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of_values, inner))


def empty_ones(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(empty_ones, inner)) + (value in ([], {}))


def refusal(parse, *arguments):
    with pytest.raises(RequestError) as refused:
        parse(*arguments)
    return refused.value.status


@given(VALUES | st.lists(ODD) | st.dictionaries(ODD, ODD), st.booleans(), st.sampled_from([None, 1]))
def test_values_are_counted_as_the_parser_counts_them(value, ascii_only, indent):
    try:
        body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    except UnicodeEncodeError:
        body = json.dumps(value).encode()
    number = number_of_values(value) + empty_ones(value)
    assert parse_json(body, number) == json.loads(body, parse_int=str, parse_float=str)
    assert refusal(parse_json, body, number - 1) == 413


@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.none(), max_size=3)),
    st.sampled_from(["\n", "\n\n", "\r\n"]),
)
def test_lines_are_parsed_as_documents(values, end):
    body = end.join(json.dumps(value, ensure_ascii=False) for value in values).encode()
    assert parse_json_lines(body, 1000) == values
    assert parse_json_lines(b"\xef\xbb\xbf" + body + b"\n", 1000) == values


@pytest.mark.parametrize("text", ["1.50", "-0", "1e5", "0.10", "9" * 400, "-1E-7"])
def test_numbers_keep_their_notation(text):
    assert parse_json(text.encode(), 1) == text


def test_an_object_in_which_a_key_is_twice_is_refused():
    for body in (b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": 2}}]'):
        assert refusal(parse_json, body, 9) == 400
    assert parse_json(b'[{"a": 1}, {"a": 1}]', 9) == [{"a": "1"}, {"a": "1"}]


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=20),
    st.integers(100, 300),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_bodies_that_share_memory_all_become_complete(sizes, most, step, random):
    taken = 0

    async def come(room, size):
        nonlocal taken
        share = Share(size)
        while share.held < size:
            before = share.held
            await room.take(share, min(step, size - share.held))
            taken += share.held - before
            assert taken <= most
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
        room.complete(share)
        await asyncio.sleep(0)
        taken -= size
        room.leave(share)

    async def main():
        room = Room(most)
        await asyncio.wait_for(asyncio.gather(*(come(room, size) for size in sizes)), 10)
        await room.take(Share(most), most)  # all of it is back

    asyncio.run(main())


def test_memory_of_a_body_that_is_given_up_goes_to_those_who_wait():
    async def main():
        room, holding, given_up, last = Room(10), Share(10), Share(8), Share(10)
        await room.take(holding, 4)
        task = asyncio.create_task(room.take(given_up, 8))
        after = asyncio.create_task(room.take(last, 3))  # there is room for it, but not its turn
        await asyncio.sleep(0)
        assert room.is_wanted
        assert not last.held
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        room.leave(given_up)
        assert (given_up.held, last.held) == (0, 0)  # the two others could not both become complete
        room.leave(holding)
        await after
        assert not room.is_wanted

    asyncio.run(asyncio.wait_for(main(), 10))


LIMITS = Limits(max_bytes=2 * SMALL, timeout=0.2)


def request(size, whole=True):
    """A request whose body has so many bytes; if it is not whole, the last one never comes."""
    sent = iter([{"type": "http.request", "body": b" " * (size - 1), "more_body": True}])

    async def receive():
        if part := next(sent, None):
            return part
        if not whole:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": b" ", "more_body": False}

    headers = [(b"content-length", str(size).encode())]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def test_large_bodies_wait_for_memory_until_earlier_requests_are_answered():
    async def main():
        bodies = Bodies(LIMITS)
        answered, statuses = asyncio.Event(), []

        async def hold():
            async with bodies.parsed(request(2 * SMALL), len):
                await answered.wait()

        holding = [asyncio.create_task(hold()) for _ in range(LARGEST_BODIES)]
        await asyncio.sleep(0.05)
        async with bodies.parsed(request(SMALL), len) as size:  # small ones need no room
            assert size == SMALL
        with pytest.raises(RequestError) as refused:
            async with bodies.parsed(request(2 * SMALL), len):
                statuses.append("read")
        assert (refused.value.status, refused.value.headers["retry-after"], statuses) == (503, "1", [])
        answered.set()
        await asyncio.gather(*holding)
        async with bodies.parsed(request(2 * SMALL), len) as size:
            assert size == 2 * SMALL

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_body_that_does_not_come_gives_its_memory_back():
    async def main():
        bodies = Bodies(LIMITS)
        for _ in range(LARGEST_BODIES + 1):
            with pytest.raises(RequestError) as refused:
                async with bodies.parsed(request(2 * SMALL, whole=False), len):
                    pass
            assert refused.value.status == 408

    asyncio.run(asyncio.wait_for(main(), 20))


def test_bodies_that_come_too_slowly_are_given_up_when_others_wait_for_memory(monkeypatch):
    monkeypatch.setattr(module, "_LOOK", 0.05)

    async def read(bodies, whole):
        async with bodies.parsed(request(2 * SMALL, whole), len) as size:
            return size

    async def main():
        bodies = Bodies(Limits(max_bytes=2 * SMALL, timeout=15))
        slow = [asyncio.create_task(read(bodies, whole=False)) for _ in range(LARGEST_BODIES)]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in slow)  # nobody waits
        assert await read(bodies, whole=True) == 2 * SMALL
        refusals = await asyncio.gather(*slow, return_exceptions=True)
        assert {refusal.status for refusal in refusals} == {408}
        assert all("came too slowly while other requests waited" in str(refusal) for refusal in refusals)

    asyncio.run(asyncio.wait_for(main(), 10))


def test_large_bodies_are_parsed_one_at_a_time_and_small_ones_beside_them():
    working, most, free = [], 0, threading.Event()

    def work(body):
        nonlocal most
        working.append(len(body))
        most = max(most, len(working))
        free.wait(5)
        working.pop()
        return len(body)

    async def main():
        bodies = Bodies(LIMITS)

        async def ask(size):
            async with bodies.parsed(request(size), work) as result:
                return result

        asking = [asyncio.create_task(ask(size)) for size in (2 * SMALL, 2 * SMALL, SMALL, SMALL, 2 * SMALL)]
        await asyncio.sleep(0.1)
        assert sorted(working) == [SMALL, 2 * SMALL]
        free.set()
        assert len(await asyncio.gather(*asking)) == 5

    asyncio.run(asyncio.wait_for(main(), 20))
    assert most == 2
