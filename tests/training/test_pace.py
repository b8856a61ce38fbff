import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.training.pace import CALIBRATED, WARM, Pace


def run(pace, *, step_seconds, pause_seconds):
    """Play a training against a clock; return the seconds it took and the position it reached.

    In the end the best weights are scored, which takes as long as a validation.
    """
    seconds, position, taken = 0.0, 0.0, 0
    pace.after_pause(0.0, seconds)
    while position < pace.total_steps:
        seconds += step_seconds
        taken += 1
        position = min(pace.total_steps, position + pace.stride)
        pace.after_step(position, seconds)
        epoch_ends = taken % pace.steps_per_epoch == 0
        stop = pace.must_stop(seconds, epoch_ends=epoch_ends)
        if stop or position >= pace.total_steps or epoch_ends:
            seconds += pause_seconds
            pace.after_pause(pause_seconds, seconds)
        if stop:
            break
    return seconds + pause_seconds, position


@example(200, 89, 0.1015625, 0.09375)  # the last step before the end is the last of an epoch
@given(st.integers(200, 5000), st.integers(20, 500), st.floats(0.1, 1.5), st.floats(0.01, 0.1))
def test_a_run_ends_inside_its_budget_with_its_schedule_done(total, epoch, share, pause):
    """`share` of the time that all steps would take; validation takes `pause` of an epoch, as is guessed."""
    epoch = min(epoch, total)
    step_seconds, pause_seconds = 0.1, 0.1 * epoch * pause
    whole = total * step_seconds + (total / epoch + 1) * pause_seconds
    budget = share * whole + 5 * pause_seconds + 5
    pace = Pace(budget, total, epoch)
    seconds, position = run(pace, step_seconds=step_seconds, pause_seconds=pause_seconds)
    assert seconds <= budget
    assert position == pytest.approx(total, rel=0.1)


def test_without_a_budget_each_step_counts_once():
    pace = Pace(None, 100, 10)
    assert run(pace, step_seconds=1e9, pause_seconds=1e9)[1] == 100
    assert pace.stride == 1.0


def test_a_budget_with_room_to_spare_leaves_the_schedule_alone():
    pace = Pace(1e9, 100, 10)
    run(pace, step_seconds=0.1, pause_seconds=0.1)
    assert pace.stride == 1.0


def test_a_budget_that_is_too_small_ends_after_one_step():
    pace = Pace(0.5, 1000, 100)
    seconds, _ = run(pace, step_seconds=0.1, pause_seconds=0.1)
    assert seconds == pytest.approx(0.3)


def test_the_first_steps_are_not_timed():
    pace = Pace(1000.0, 1000, 100)
    pace.after_pause(0.0, 0.0)
    for step in range(WARM):
        pace.after_step(step, 50.0 * (step + 1))
    for step in range(CALIBRATED):
        pace.after_step(step, 50.0 * WARM + 0.1 * (step + 1))
    assert pace.step_seconds == pytest.approx(0.1)
