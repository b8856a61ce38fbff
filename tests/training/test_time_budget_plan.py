"""How a run divides its time budget."""

import subprocess
import sys
import time

import pytest

import pricekit as pk
from pricekit.config import RunConfig
from pricekit.evaluation.scores import facts_of
from pricekit.training import time_budget as clock
from pricekit.training.time_budget import feature_seconds, first_pass_ends, training_ends


def config(budget):
    return RunConfig.model_validate({"training": {"time_budget": budget}})


def test_without_a_budget_nothing_is_limited():
    now = time.perf_counter()
    assert feature_seconds(config(None), now) is None
    assert training_ends(None, 100.0) is None
    assert first_pass_ends(None, now, 100.0, 0.46) == (None, True)


def test_features_get_half_of_what_is_left():
    assert feature_seconds(config(100), time.perf_counter() - 40) == pytest.approx(30, abs=0.5)
    assert feature_seconds(config(100), time.perf_counter() - 400) == 0


def test_the_last_step_leaves_time_to_measure_and_write():
    assert training_ends(100, 0) == pytest.approx(95)
    assert training_ends(100, 20) == pytest.approx(92)
    assert training_ends(10, 1000) == 0


def test_the_first_pass_leaves_time_for_the_second():
    ends, fits = first_pass_ends(100, time.perf_counter() - 20, 10.0, 0.46)
    # 93.5 s until the end, less 20 so far and 6 to prepare the second pass
    assert fits
    assert ends == pytest.approx(20 + 0.46 * (93.5 - 20 - 6), abs=0.5)


def test_a_short_budget_has_no_second_pass(logged):
    ends, fits = first_pass_ends(60, time.perf_counter() - 30, 25.0, 0.46)
    assert not fits
    assert ends == training_ends(60, 25.0)
    assert "too short for a refit" in logged()


def test_a_feature_that_takes_too_long_is_left_out(logged, monkeypatch):
    monkeypatch.setattr("pricekit.features.fit._seconds_for", lambda *_: 1e6)
    table = pk.make_catalog(120, seed=2)
    run = pk.train(table, epochs=1, time_budget=60, features=["optimized22", "trees"])
    assert "the feature 'trees' would take about 1,000,000 s" in logged()
    assert "trees" not in (run.path / "config.toml").read_text()
    assert [one["name"] for one in facts_of(run.path)["plugins"] if one["kind"] == "feature"] == [
        "optimized22"
    ]
    assert run.predict(table["catalog_content"].tolist()).shape == (120,)


def test_a_feature_that_fits_is_kept(logged):
    run = pk.train(pk.make_catalog(120, seed=2), epochs=1, time_budget=600, features=["optimized22", "trees"])
    assert "left out" not in logged()
    assert "trees" in (run.path / "config.toml").read_text()


def test_a_command_counts_from_the_start_of_its_process():
    code = (
        "import time; time.sleep(0.6)\n"
        "from pricekit.training import time_budget as clock\n"
        "before = time.perf_counter()\n"
        "assert clock.began() >= before\n"
        "clock.count_from_process_start()\n"
        "print(time.perf_counter() - clock.began())"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0.55 <= float(shown) < 60


def test_the_age_is_known_without_proc(monkeypatch):
    monkeypatch.setattr(clock, "Path", lambda _: (_ for _ in ()).throw(OSError()))
    assert 0 <= clock.process_age() < 1e6
