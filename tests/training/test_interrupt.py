import signal

import pytest

from pricekit.training.interrupt import defer_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event_and_the_second_raises(number, logged):
    before = signal.getsignal(number)
    with defer_interrupts(enabled=True) as interrupted:
        assert not interrupted.is_set()
        signal.raise_signal(number)
        assert interrupted.is_set()
        assert "interrupt again to stop at once" in logged()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_signals_are_left_alone_with_several_processes():
    before = signal.getsignal(signal.SIGINT)
    with defer_interrupts(enabled=False) as interrupted:
        assert signal.getsignal(signal.SIGINT) is before
        assert not interrupted.is_set()
