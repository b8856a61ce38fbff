"""Which features a time budget leaves out; a clock that the fits set stands for the time that they take."""

from types import SimpleNamespace

import pytest

import pricekit as pk
from pricekit.features import fit
from pricekit.features.fit import too_slow


@pytest.fixture
def fits_take(monkeypatch):
    """Return a function that sets how long each fit takes, in seconds; the last one stands for all further ones."""
    monkeypatch.setattr(fit, "threads_for", lambda *_: 1)

    def take(*seconds):
        now, sizes = [0.0], []

        def fit_slowly(part, table, price):
            now[0] += seconds[min(len(sizes), len(seconds) - 1)]
            sizes.append(len(table))

        monkeypatch.setattr(fit, "fit_one", fit_slowly)
        monkeypatch.setattr(fit, "time", SimpleNamespace(perf_counter=lambda: now[0]))
        return sizes

    return take


def left_out(seconds, rows=2000):
    table = pk.read_table(pk.make_catalog(rows))
    return too_slow(["optimized22", "trees"], {}, table, seconds, folds=5)


def test_what_only_the_first_fit_does_is_not_scaled_with_the_rows(fits_take):
    sizes = fits_take(6.0, 0.5)
    assert left_out(20) == []  # 0.5 s, for ten times the rows five times: about 16 s
    assert sizes == [200, 200]
    fits_take(6.0, 0.5)
    assert left_out(15) == ["trees"]


def test_a_feature_that_is_slow_in_each_fit_is_left_out(fits_take, logged):
    fits_take(6.0)
    assert left_out(100) == ["trees"]
    assert "would take about 189 s, and the time budget leaves 100 s" in " ".join(logged().split())


@pytest.mark.parametrize(("seconds", "most"), [(0.1, 20), (30.0, 20)], ids=["quick", "longer than there is"])
def test_one_fit_is_enough_if_it_is_quick_or_takes_all_the_time(fits_take, seconds, most):
    sizes = fits_take(seconds)
    assert left_out(most) == ([] if seconds < most else ["trees"])
    assert sizes == [200]
