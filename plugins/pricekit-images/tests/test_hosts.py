from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace

import pytest
from pricekit_images.unusable import UnusableError
from pricekit_images.web import hosts
from pricekit_images.web.hosts import GONE_SECONDS, PAUSE_SECONDS, SILENT, GoneError, Hosts


class WaitedError(Exception):
    """A request has to wait."""


@pytest.fixture
def clock(monkeypatch):
    """The time, in `now`; it passes only in pauses."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(hosts, "time", SimpleNamespace(monotonic=lambda: clock.now))
    clock.pause = lambda seconds: setattr(clock, "now", clock.now + seconds)
    return clock


def wait(seconds):
    raise WaitedError


def fail(known, pause, times=1, final=False):
    for _ in range(times):
        with pytest.raises(UnusableError), known.turn("shop", pause):
            raise UnusableError("the connection failed", final=final)


def answer(known, pause=wait):
    with known.turn("shop", pause) as answered:
        answered()


def answer_badly(known):
    with suppress(UnusableError), known.turn("shop", wait) as answered:
        answered()
        raise UnusableError("status 503", final=False)


def test_a_host_that_has_never_answered_fails_at_once_and_is_asked_again_later(clock):
    known = Hosts()
    fail(known, wait, SILENT)
    assert not known.pauses("shop")
    with pytest.raises(GoneError), known.turn("shop", wait):
        pass
    clock.now += GONE_SECONDS
    fail(known, wait)
    with pytest.raises(GoneError), known.turn("shop", wait):
        pass
    clock.now += GONE_SECONDS
    answer(known)
    answer(known)


def test_a_host_that_has_answered_is_asked_with_growing_pauses_for_a_minute(clock):
    known = Hosts()
    answer(known)
    fail(known, wait, SILENT)
    begin, times = clock.now, [clock.now]
    while known.pauses("shop"):
        fail(known, clock.pause)
        times.append(clock.now)
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == pytest.approx([1, 2, 4, 8, 15, 15], abs=0.1)
    assert times[-1] <= begin + PAUSE_SECONDS
    with pytest.raises(GoneError), known.turn("shop", wait):
        pass


def test_a_host_that_answers_again_is_as_before(clock):
    known = Hosts()
    answer(known)
    fail(known, wait, SILENT)
    with pytest.raises(WaitedError):
        answer(known)
    answer(known, clock.pause)
    assert not known.pauses("shop")
    fail(known, wait, SILENT - 1)
    answer(known)


def test_one_request_at_a_time_asks_a_silent_host(clock):
    known = Hosts()
    answer(known)
    fail(known, wait, SILENT)
    with known.turn("shop", clock.pause) as answered:
        clock.now += 2 * PAUSE_SECONDS
        with pytest.raises(WaitedError):
            answer(known)
        answered()
        answer(known)


def test_a_request_that_is_stopped_lets_another_one_ask(clock):
    known = Hosts()
    answer(known)
    fail(known, wait, SILENT)
    with pytest.raises(WaitedError), known.turn("shop", clock.pause):
        raise WaitedError
    answer(known)


def test_failures_that_say_nothing_about_the_host_do_not_count(clock):
    known = Hosts()
    fail(known, wait, 2 * SILENT, final=True)
    for _ in range(2 * SILENT):
        answer_badly(known)
    answer(known)


def test_other_hosts_do_not_wait_and_few_are_remembered(clock, monkeypatch):
    monkeypatch.setattr(hosts, "MOST_HOSTS", 5)
    known = Hosts()
    fail(known, wait, SILENT)
    for number in range(10):
        with known.turn(f"host {number}", wait) as answered:
            answered()
    assert len(known._known) == 5


def test_what_is_known_of_hosts_can_be_forgotten(clock):
    known = Hosts()
    fail(known, wait, SILENT)
    known.forget()
    answer(known)
