"""The queue prices rows of several requests together, in turn, and none suffers from another."""

import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest
from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.queues import CallQueue, PriceQueue
from pricekit_serve.rows import Rows


class Watcher:
    def __init__(self):
        self.batches, self.left, self.waited = [], 0, []

    def batch(self, rows, waited):
        self.batches.append(rows)
        self.waited += waited

    def waiting(self, rows):
        self.left = rows


class Engine:
    """Prices a text by its length, one batch at a time, when it may."""

    def __init__(self):
        self.free, self.started = threading.Semaphore(0), threading.Event()
        self.batches = []

    def __call__(self, rows):
        self.started.set()
        self.free.acquire()
        self.batches.append(dict(rows.cells))
        texts = next(iter(rows.cells.values()))
        if "bad" in texts:
            raise ValueError("bad text")
        return np.array([len(text) for text in texts], np.float32)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def queue(engine, watcher):
    found = PriceQueue(engine, Limits(batch_rows=8, batch_wait=0, queue_rows=20, max_rows=20), watcher)
    yield found
    engine.free.release(1000)
    found.close()


def rows(*texts, column="text"):
    return Rows({column: list(texts)})


def busy(queue, engine):
    """Let the engine begin a batch that does not end yet."""
    first = queue.price(rows("x"))
    assert engine.started.wait(10)
    return first


def wait_until(condition):
    """Wait for a condition; return whether it came true."""
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def result(future):
    return future.result(10).tolist()


def test_a_row_alone_is_priced_at_once(queue, engine):
    engine.free.release()
    assert result(queue.price(rows("tea"))) == [3]


def test_what_comes_while_the_engine_works_is_priced_together(queue, engine, watcher):
    first = busy(queue, engine)
    others = [queue.price(rows("a" * n, "b" * n)) for n in (1, 2, 3)]
    engine.free.release(2)
    assert result(first) == [1]
    assert [result(each) for each in others] == [[1, 1], [2, 2], [3, 3]]
    assert [len(batch["text"]) for batch in engine.batches] == [1, 6]
    assert watcher.batches == [1, 6]
    assert len(watcher.waited) == 4
    assert max(watcher.waited) < 10


def test_a_batch_has_a_largest_size_and_small_requests_have_their_turn(queue, engine):
    first = busy(queue, engine)
    large = queue.price(rows(*["a"] * 15))
    small = queue.price(rows("bb"))
    engine.free.release(3)
    assert result(first) == [1]
    assert result(small) == [2]
    assert result(large) == [1] * 15
    assert [len(batch["text"]) for batch in engine.batches] == [1, 8, 8]
    assert engine.batches[2]["text"] == ["bb"] + ["a"] * 7


def test_large_requests_are_done_in_order_and_small_ones_in_between(queue, engine):
    first = busy(queue, engine)
    large = [queue.price(rows(*[letter] * 9)) for letter in "ab"]
    small = queue.price(rows("small"))
    engine.free.release(1000)
    assert [result(each) for each in (first, *large, small)] == [[1], [1] * 9, [1] * 9, [5]]
    texts = "".join(text[0] for batch in engine.batches for text in batch["text"])
    assert texts.index("s") <= 9  # a small request waits for one piece of a large one
    assert texts.replace("s", "") == "x" + "a" * 9 + "b" * 9


def test_rows_of_other_columns_are_priced_apart(queue, engine):
    first = busy(queue, engine)
    others = [queue.price(rows("a", column=column)) for column in ("text", "other", "text")]
    engine.free.release(3)
    assert [result(each) for each in (first, *others)] == [[1]] * 4
    assert [(list(batch), len(next(iter(batch.values())))) for batch in engine.batches[1:]] == [
        (["text"], 2),
        (["other"], 1),
    ]


def test_one_bad_request_fails_alone(queue, engine, raises):
    first = busy(queue, engine)
    good, bad, last = queue.price(rows("tea")), queue.price(rows("bad")), queue.price(rows("oats"))
    engine.free.release(10)
    assert result(first) == [1]
    assert (result(good), result(last)) == ([3], [4])
    with raises(ValueError):
        bad.result(10)
    assert result(queue.price(rows("still here"))) == [10]


def test_errors_that_are_no_exceptions_do_not_end_the_thread(engine, watcher):
    def panic(_):
        raise BaseException("a panic of a library")

    queue = PriceQueue(panic, Limits(), watcher)
    for _ in range(2):
        assert "a panic" in str(queue.price(rows("tea")).exception(10))
    queue.close()


def test_a_full_queue_refuses_and_recovers(queue, engine, watcher, raises):
    first = busy(queue, engine)
    waiting = queue.price(rows(*["a"] * 19))
    with raises(RequestError) as refused:
        queue.price(rows("b"))
    assert (refused.value.status, refused.value.headers["retry-after"]) == (503, "1")
    engine.free.release(10)
    result(first), result(waiting)
    assert result(queue.price(rows(*["c"] * 20))) == [1] * 20
    assert wait_until(lambda: watcher.left == 0)


def test_large_requests_that_end_early_leave_no_room_taken(queue, engine, watcher, raises):
    """They fail, or are given up, while a part of them is priced; what is left of them no longer waits."""
    first = busy(queue, engine)
    failing = queue.price(rows("bad", *["a"] * 11))
    engine.free.release(2)
    assert result(first) == [1]
    with raises(ValueError):
        failing.result(10)
    engine.started.clear()
    given_up = queue.price(rows(*["a"] * 12))
    assert engine.started.wait(10)
    assert given_up.cancel()
    engine.free.release(1)
    assert wait_until(lambda: watcher.left == 0)
    engine.free.release(3)
    assert result(queue.price(rows(*["c"] * 20))) == [1] * 20


def test_what_is_given_up_is_not_priced(queue, engine):
    first = busy(queue, engine)
    given_up, other = queue.price(rows("a")), queue.price(rows("bb"))
    assert given_up.cancel()
    engine.free.release(2)
    assert result(first) == [1]
    assert result(other) == [2]
    assert engine.batches[1]["text"] == ["bb"]
    with pytest.raises(CancelledError):
        given_up.result(0)


def test_a_request_that_is_given_up_while_it_is_priced_disturbs_nothing(queue, engine):
    first = busy(queue, engine)
    assert first.cancel()
    engine.free.release(2)
    assert result(queue.price(rows("bb"))) == [2]


@pytest.fixture
def calls():
    found = CallQueue(8, "calls")
    yield found
    found.close()


def test_calls_are_done_one_after_the_other(calls):
    working = []

    def work(number):
        working.append(number)
        time.sleep(0.01)
        assert working.pop() == number
        return 10 * number

    futures = [*calls.call(work, 3), *calls.call(work, 2)]
    assert [each.result(10) for each in futures] == [0, 10, 20, 0, 10]


def test_too_many_calls_are_refused_until_others_end(calls, raises):
    free = threading.Event()
    futures = calls.call(lambda number: free.wait(10) and number, 7)
    with raises(RequestError) as refused:
        calls.call(int, 2)
    assert (refused.value.status, int(refused.value.headers["retry-after"]) > 0) == (429, True)
    assert futures[-1].cancel()  # what is given up leaves room
    futures += calls.call(int, 2)
    free.set()
    assert [each.result(10) for each in futures if not each.cancelled()] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert [each.result(10) for each in calls.call(int, 8)] == list(range(8))


def test_a_call_that_fails_leaves_the_others(calls):
    first, second = calls.call(lambda number: 1 // number, 2)
    assert isinstance(first.exception(10), ZeroDivisionError)
    assert second.result(10) == 1


def test_a_closed_queue_ends_when_its_work_is_done(queue, engine):
    first = busy(queue, engine)
    second = queue.price(rows("bb"))
    before = threading.active_count()
    queue.close()
    engine.free.release(2)
    assert (result(first), result(second)) == ([1], [2])
    for _ in range(100):
        if threading.active_count() < before:
            break
        time.sleep(0.05)
    assert threading.active_count() < before


def test_a_row_that_is_answered_no_longer_waits(engine):
    """A counter that is read after an answer must not show the answered rows."""

    class Late(Watcher):
        def waiting(self, rows):
            time.sleep(0.05)
            super().waiting(rows)

    late = Late()
    queue = PriceQueue(engine, Limits(batch_rows=8, batch_wait=0), late)
    engine.free.release(1000)
    queue.price(rows("a")).result(10)
    assert late.left == 0
    with pytest.raises(ValueError, match="bad text"):
        queue.price(rows("bad")).result(10)
    assert late.left == 0
    queue.close()


def test_a_batch_waits_for_as_many_requests_as_the_last_one_had(engine, watcher):
    queue = PriceQueue(engine, Limits(batch_wait=30), watcher)
    first = busy(queue, engine)
    pair = [queue.price(rows(text)) for text in ("a", "b")]
    engine.free.release(2)
    assert [result(each) for each in (first, *pair)] == [[1]] * 3
    third = queue.price(rows("c"))  # waits for a fourth one
    engine.free.release(1)
    time.sleep(0.1)
    fourth = queue.price(rows("d"))
    assert [result(each) for each in (third, fourth)] == [[1]] * 2
    assert watcher.batches == [1, 2, 2]
    queue.close()
