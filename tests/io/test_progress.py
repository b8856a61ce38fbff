"""Progress bars of long stages."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest

from pricekit.io import progress


def test_a_tracked_item_advances_the_bar_when_it_is_done(monkeypatch):
    seen = []

    @contextmanager
    def bar(title, total):
        seen.append((title, total))
        yield lambda units: seen.append(units)
        seen.append("gone")

    monkeypatch.setattr(progress, "progress", bar)
    with progress.tracked("reading", ["a", "bcd"], len) as words:
        for word in words:
            seen.append(word)
    assert seen == [("reading", 4), "a", 1, "bcd", 3, "gone"]


def test_the_bar_is_gone_when_something_fails(monkeypatch):
    seen = []

    @contextmanager
    def bar(title, total):
        try:
            yield lambda units: None
        finally:
            seen.append("gone")

    monkeypatch.setattr(progress, "progress", bar)
    with pytest.raises(ZeroDivisionError) as raised, progress.tracked("reading", [1, 0], float) as numbers:
        [1 / number for number in numbers]
    assert seen == ["gone"]
    assert raised.value.__traceback__  # which would hold a generator and its bar


def test_without_a_reporter_no_bar_is_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(
        progress, "_default_reporter", lambda: shown.append("default") or progress.NoReporter()
    )
    with progress.use_reporter(None), progress.progress("reading", 3) as advance:
        advance(1, "note")
    assert shown == []
    with progress.progress("reading", 3):
        pass
    assert shown == ["default"]


class Shown(progress.NoReporter):
    """Remembers the titles of bars."""

    def __init__(self):
        self.titles = []

    def bar(self, title, total, done):
        self.titles.append(title)
        return super().bar(title, total, done)


def test_a_thread_that_hides_its_bars_hides_no_others():
    def show(title):
        with progress.progress(title, 1):
            pass

    def hide():
        with progress.use_reporter_here(None):
            inside.wait(), show("hidden"), outside.wait()

    reporter, inside, outside = Shown(), Barrier(2), Barrier(2)
    with progress.use_reporter(reporter), ThreadPoolExecutor(1) as pool:
        done = pool.submit(hide)
        inside.wait(), show("shown"), outside.wait()
        done.result()
    assert reporter.titles == ["shown"]


def test_reporters_that_overlap_end_in_any_order():
    first, second = Shown(), Shown()
    one, two = progress.use_reporter(first), progress.use_reporter(second)
    one.__enter__(), two.__enter__(), one.__exit__(None, None, None)
    with progress.progress("reading", 1):
        pass
    two.__exit__(None, None, None)
    assert (first.titles, second.titles) == ([], ["reading"])
    with progress.use_reporter(first), progress.progress("writing", 1):
        pass
    assert first.titles == ["writing"]


def test_the_time_of_a_stage_is_logged_for_those_who_ask(caplog):
    with caplog.at_level("DEBUG", "pricekit"), progress.progress("reading", 3, shown=False):
        assert caplog.messages == []
    assert caplog.messages == ["reading: 0.0 s"]
