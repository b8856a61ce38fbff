import threading
from types import SimpleNamespace

import numpy as np
import pytest
from pricekit_images import memory as module
from pricekit_images.memory import UNUSED_SECONDS, Memory
from pricekit_images.unusable import UnusableError

NUMBERS = np.zeros(25, np.float32)  # 100 bytes


class Counted:
    """Computes numbers, or raises an error, and counts."""

    def __init__(self, error=None):
        self.times, self.error = 0, error

    def __call__(self):
        self.times += 1
        if self.error is not None:
            raise self.error
        return NUMBERS


@pytest.mark.parametrize("images", [10, 11, 20])
def test_repeated_scans_find_what_fits(images):
    memory, compute = Memory(1000), Counted()
    for _ in range(3):
        for key in range(images):
            memory.get(key, compute)
    assert compute.times == images + 2 * (images - 10)


def test_failures_count_towards_the_number_of_images(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 10)
    memory, compute = Memory(1000), Counted(UnusableError("status 404"))
    for _ in range(3):
        for key in range(12):
            with pytest.raises(UnusableError):
                memory.get(key, compute)
    assert compute.times == 12 + 2 * 2


def test_what_nobody_uses_for_a_day_makes_room(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    memory, compute = Memory(1000), Counted()
    for key in range(10):
        memory.get(key, compute)
    clock.now += UNUSED_SECONDS
    memory.get(0, compute)
    clock.now += 1
    for key in ["new", "new", 0, "other", "other"]:
        memory.get(key, compute)
    assert compute.times == 12
    assert memory._bytes == 100 * len(memory._kept) == 1000


def test_who_waits_for_a_computation_that_is_stopped_computes_anew():
    memory, compute, found = Memory(1000), Counted(), []
    other = threading.Thread(target=lambda: found.append(memory.get("a", compute)))

    def stopped():
        other.start()
        other.join(0.05)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.get("a", stopped)
    other.join()
    assert found[0] is NUMBERS


def test_failures_that_may_have_passed_can_be_forgotten():
    memory = Memory(1000)
    passing, final = Counted(UnusableError("status 503", final=False)), Counted(UnusableError("status 404"))
    for _ in range(2):
        memory.get("image", lambda: NUMBERS)
        for key, compute in (("passing", passing), ("final", final)):
            with pytest.raises(UnusableError):
                memory.get(key, compute)
    assert (passing.times, final.times) == (1, 1)
    memory.forget_passing()
    assert memory.get("passing", lambda: NUMBERS) is NUMBERS
    assert set(memory._kept) == {"image", "final", "passing"}
