"""The script for GPUs, on a CPU with tiny sizes."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture
def gpu():
    spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow  # bfloat16 takes minutes on CPUs that only emulate it
@pytest.mark.filterwarnings("ignore")
def test_it_prints_a_line_for_each_system_and_loop(gpu, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    gpu.main(["--tiny"])
    said = capsys.readouterr().out
    for system in ("ultra", "fast", "blazing", "optimized"):
        assert said.count(f"│ {system} ") == 3
    assert said.count("everything on") == 4
    assert "bf16, own lengths" in said
    assert "numbers mean nothing" in said


def test_all_speed_settings_together_keep_the_effective_batch(gpu):
    assert gpu._everything_on("ultra")["training"] == {"batch_size": 32, "gradient_accumulation_steps": 1}
    assert gpu._everything_on("blazing")["training"]["batch_size"] == 128


def test_a_missing_gpu_is_reported(gpu, capsys):
    with pytest.raises(SystemExit):
        gpu.main([])
    assert "there is no CUDA GPU" in capsys.readouterr().err
