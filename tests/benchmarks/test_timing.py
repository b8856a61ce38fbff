import itertools

import pytest
from speed.timing import Timed, interleaved, ratio


def test_contenders_alternate_and_only_rounds_are_timed():
    now, order = [0.0], []

    def runner(name, seconds):
        def run():
            order.append(name)
            now[0] += seconds

        return run

    found = interleaved({"a": runner("a", 3.0), "b": runner("b", 1.0)}, 3, clock=lambda: now[0])
    assert order == ["a", "b", "a", "b", "b", "a", "a", "b"]  # once unmeasured, then turn about
    assert found["a"].seconds == (3.0, 3.0, 3.0)
    assert ratio(found["a"], found["b"]) == 3.0


def test_a_ratio_is_the_median_of_ratios_and_not_of_times():
    slow_machine = itertools.chain([10.0, 20.0], [1.0, 2.0], [1.0, 2.0])
    pairs = list(zip(*[slow_machine] * 2, strict=True))
    fast, slow = (Timed(tuple(column)) for column in zip(*pairs, strict=True))
    assert ratio(slow, fast) == 2.0
    assert fast.median == pytest.approx(1.0)


def test_a_contender_can_measure_its_own_time():
    found = interleaved({"a": lambda: 0.5}, 2, clock=lambda: 0.0)
    assert found["a"].seconds == (0.5, 0.5)
