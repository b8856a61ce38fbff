import torch

from pricekit.training import machine
from pricekit.training.machine import cpu_threads, torch_threads


def test_no_more_threads_than_torch_has_or_the_process_may_use(monkeypatch):
    with torch_threads(3):
        for cpus, expected in ((2, 2), (8, 3)):
            monkeypatch.setattr(machine, "usable_cpus", lambda cpus=cpus: cpus)
            assert cpu_threads() == expected


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
