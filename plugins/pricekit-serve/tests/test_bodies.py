"""Bodies are parsed as JSON is, within a number of values, and take memory in turn."""

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pricekit_serve import Limits
from pricekit_serve.errors import RequestError
from pricekit_serve.requests.bodies import LARGEST_BODIES, SMALL, Bodies, Room, parse_json, parse_json_lines
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


def test_memory_is_taken_in_the_order_of_the_requests():
    order = []

    async def work(room, name, size):
        await room.take(size)
        order.append(name)
        await asyncio.sleep(0)
        room.give_back(size)

    async def main():
        room = Room(10)
        await room.take(6)
        tasks = [asyncio.create_task(work(room, name, size)) for name, size in (("a", 8), ("b", 4), ("c", 9))]
        await asyncio.sleep(0)
        assert order == []  # b has to wait, although there is room for it
        given_up = asyncio.create_task(work(room, "d", 1))
        await asyncio.sleep(0)
        given_up.cancel()
        room.give_back(6)
        await asyncio.gather(*tasks)
        await room.take(10)  # all of it is back

    asyncio.run(asyncio.wait_for(main(), 10))
    assert order == ["a", "b", "c"]


def test_memory_of_those_who_give_up_goes_to_the_next():
    async def main():
        room = Room(10)
        await room.take(10)
        first, second = (asyncio.create_task(room.take(10)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        room.give_back(10)
        await second
        last = asyncio.create_task(room.take(10))
        await asyncio.sleep(0)
        room.give_back(10)  # it has its turn, but is cancelled before it runs again
        last.cancel()
        await asyncio.gather(last, return_exceptions=True)
        await room.take(10)

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
