import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.training.time_budget import CALIBRATED, WARM, TimeBudget


def run(time_budget, *, step_seconds, pause_seconds):
    """Simulate a training with a clock; return its seconds and its final position.

    In the end the best weights are scored, which takes as long as a validation.
    """
    seconds, position, taken = 0.0, 0.0, 0
    time_budget.after_pause(0.0, seconds)
    while position < time_budget.total_steps:
        seconds += step_seconds
        taken += 1
        position = min(time_budget.total_steps, position + time_budget.stride)
        time_budget.after_step(position, seconds)
        epoch_ends = taken % time_budget.steps_per_epoch == 0
        stop = time_budget.must_stop(seconds, epoch_ends=epoch_ends)
        if stop or position >= time_budget.total_steps or epoch_ends:
            seconds += pause_seconds
            time_budget.after_pause(pause_seconds, seconds)
        if stop:
            break
    return seconds + pause_seconds, position


@example(200, 89, 0.1015625, 0.09375)  # the last step before the end is the last of an epoch
@given(st.integers(200, 5000), st.integers(20, 500), st.floats(0.1, 1.5), st.floats(0.01, 0.1))
def test_a_run_finishes_its_schedule_within_its_budget(total, epoch, share, pause):
    """The budget is `share` of the time of all steps; validation takes `pause` of an epoch."""
    epoch = min(epoch, total)
    step_seconds, pause_seconds = 0.1, 0.1 * epoch * pause
    whole = total * step_seconds + (total / epoch + 1) * pause_seconds
    budget = share * whole + 5 * pause_seconds + 5
    time_budget = TimeBudget(budget, total, epoch)
    seconds, position = run(time_budget, step_seconds=step_seconds, pause_seconds=pause_seconds)
    assert seconds <= budget
    assert position == pytest.approx(total, rel=0.1)


def test_without_a_budget_each_step_counts_once():
    time_budget = TimeBudget(None, 100, 10)
    assert run(time_budget, step_seconds=1e9, pause_seconds=1e9)[1] == 100
    assert time_budget.stride == 1.0


def test_a_generous_budget_does_not_change_the_schedule():
    time_budget = TimeBudget(1e9, 100, 10)
    run(time_budget, step_seconds=0.1, pause_seconds=0.1)
    assert time_budget.stride == 1.0


def test_a_budget_that_is_too_small_ends_after_one_step():
    time_budget = TimeBudget(0.5, 1000, 100)
    seconds, _ = run(time_budget, step_seconds=0.1, pause_seconds=0.1)
    assert seconds == pytest.approx(0.3)


def test_the_first_steps_are_not_timed():
    time_budget = TimeBudget(1000.0, 1000, 100)
    time_budget.after_pause(0.0, 0.0)
    for step in range(WARM):
        time_budget.after_step(step, 50.0 * (step + 1))
    for step in range(CALIBRATED):
        time_budget.after_step(step, 50.0 * WARM + 0.1 * (step + 1))
    assert time_budget.step_seconds == pytest.approx(0.1)


def test_the_remaining_time_counts_steps_and_validations_without_a_budget():
    time_budget = TimeBudget(None, 100, 10)
    time_budget.after_pause(0.0, 0.0)
    for step in range(1, CALIBRATED + 1):
        assert not time_budget.just_calibrated
        time_budget.after_step(step, 0.5 * step)
    assert time_budget.just_calibrated
    time_budget.after_pause(2.0, 100.0)
    # 50 steps of 0.5 s, a validation of 2 s after every tenth, the last one, and scoring
    assert time_budget.remaining_seconds(50) == pytest.approx(50 * 0.5 + 5 * 2 + 2 * 2)
