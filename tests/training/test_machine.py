import pytest
import torch

from pricekit.config import SpeedConfig
from pricekit.errors import ConfigError
from pricekit.training import machine
from pricekit.training.machine import (
    choose_precision,
    cpu_threads,
    describe,
    fast_math,
    torch_threads,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_bf16_only_where_the_cpu_supports_it(monkeypatch, has_bf16, expected):
    monkeypatch.setattr(machine, "cpu_has_bf16", lambda: has_bf16)
    assert choose_precision(SpeedConfig(), CPU) == expected
    assert ("does not support bfloat16" in describe(CPU, expected, SpeedConfig(), 1)) is not has_bf16


def test_a_requested_precision_is_used_or_rejected(raises):
    assert choose_precision(SpeedConfig(precision="bf16"), CPU) == "bf16"
    with raises(ConfigError, "settings", setting="speed.precision") as error:
        choose_precision(SpeedConfig(precision="fp16"), CPU)
    assert "--" not in str(error.value)


def test_the_global_switches_of_torch_are_restored():
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    with fast_math(SpeedConfig(tf32=True, matmul_precision="medium")):
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.benchmark
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark) == before
    with fast_math(SpeedConfig(tf32=False)):
        assert torch.get_float32_matmul_precision() == "highest"


def test_no_more_threads_than_torch_has_or_the_process_may_use(monkeypatch):
    with torch_threads(3):
        for cpus, expected in ((2, 2), (8, 3)):
            monkeypatch.setattr(machine, "usable_cpus", lambda cpus=cpus: cpus)
            assert cpu_threads() == expected


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
