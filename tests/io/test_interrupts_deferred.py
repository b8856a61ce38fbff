"""Signals during a training of one process; those of several are in test_processes.py."""

import signal
import threading

import pytest

from pricekit.io.interrupts import defer_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event_and_the_second_raises(number, logged):
    before = signal.getsignal(number)
    with defer_interrupts() as interrupted:
        assert not interrupted.is_set()
        signal.raise_signal(number)
        assert interrupted.is_set()
        assert "interrupt again to stop at once" in logged()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_several_processes_ignore_a_second_signal(logged):
    """A launcher forwards the signal that a scheduler has sent to all processes."""
    with defer_interrupts(alone=False) as interrupted:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interrupted.is_set()
    assert "stopping after this step with a checkpoint" in logged()
    assert "again" not in logged()


def test_another_thread_than_the_main_one_handles_no_signals():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with defer_interrupts() as interrupted:
            seen.append((signal.getsignal(signal.SIGTERM), interrupted.is_set()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]
