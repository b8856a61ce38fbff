"""Progress bars of long stages."""

from contextlib import contextmanager

import pytest

from pricekit.support import progress


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


def test_the_time_of_a_stage_is_logged_for_those_who_ask(caplog):
    with caplog.at_level("DEBUG", "pricekit"), progress.progress("reading", 3, shown=False):
        assert caplog.messages == []
    assert caplog.messages == ["reading: 0.0 s"]
