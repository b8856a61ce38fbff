"""What people see while something takes its time."""

from contextlib import contextmanager

from pricekit import screen


def test_what_is_tracked_moves_the_bar_when_it_is_done(monkeypatch):
    seen = []

    @contextmanager
    def bar(title, total):
        seen.append((title, total))
        yield lambda units: seen.append(units)
        seen.append("gone")

    monkeypatch.setattr(screen, "progress", bar)
    for word in screen.tracked("reading", ["a", "bcd"], len):
        seen.append(word)
    assert seen == [("reading", 4), "a", 1, "bcd", 3, "gone"]
