"""Results of other threads come to the event loop together, and nothing that waits is forgotten."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pricekit_serve.models.mailbox import Mailbox, received


def test_results_that_come_together_wake_the_loop_once():
    async def run():
        loop = asyncio.get_running_loop()
        mailbox, results, woken = Mailbox(loop), [Future() for _ in range(20)], []
        waiters = [mailbox.receive(result) for result in results]
        call = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *given: (woken.append(1), call(*given))
        for number, result in enumerate(results):
            result.set_result(number)
        assert await asyncio.gather(*waiters) == list(range(20))
        return len(woken)

    assert asyncio.run(run()) == 1


@given(
    st.lists(st.sampled_from(["result", "error", "cancelled", "given up"]), max_size=30), st.integers(1, 4)
)
def test_whatever_becomes_of_a_result_its_waiter_learns_it(kinds, threads):
    def end(number, kind, result):
        if kind == "result":
            result.set_result(number)
        elif kind == "error":
            result.set_exception(ValueError(number))
        elif kind == "cancelled":
            result.cancel()

    async def run():
        results = [Future() for _ in kinds]
        waiters = [received(result) for result in results]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(end, range(len(kinds)), kinds, results))
        for kind, waiter in zip(kinds, waiters, strict=True):
            if kind == "given up":
                waiter.cancel()
        return results, await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), 10)

    results, found = asyncio.run(run())
    for number, (kind, result, got) in enumerate(zip(kinds, results, found, strict=True)):
        if kind == "result":
            assert got == number
        elif kind == "error":
            assert isinstance(got, ValueError)
            assert got.args == (number,)
        else:
            assert isinstance(got, asyncio.CancelledError)
            assert result.cancelled()


def test_a_result_after_the_end_of_the_loop_is_dropped():
    result = Future()

    async def wait():
        received(result)

    asyncio.run(wait())
    result.set_result(1)


def test_a_request_that_is_given_up_leaves_its_result():
    async def run():
        result = Future()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await received(result)
        return result

    assert asyncio.run(run()).cancelled()
