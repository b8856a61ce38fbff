"""The checks of an engine: built-in engines pass, and each check detects a faulty one."""

import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from pricekit.errors import PluginError
from pricekit.predict.ort import OrtCpu, OrtCuda, load_cpu
from pricekit.testing import CheckFailed, check_engine


class Right:
    """Needs lengths that are multiples of 16, and runs two streams."""

    length_multiple = 16
    streams = 2

    def load(self, graph):
        price = load_cpu(graph.model)

        def run(batch):
            assert batch["input_ids"].shape[1] % self.length_multiple == 0
            assert batch["input_ids"].shape[1] <= graph.max_length
            return self.found(price(batch), batch)

        return run

    def found(self, prices, batch):
        return prices


def changed(**parts):
    return type("Wrong", (Right,), parts)


class Reuses(Right):
    def __init__(self):
        self.buffer = np.zeros(64, np.float32)

    def found(self, prices, batch):
        self.buffer[: len(prices)] = prices
        return self.buffer[: len(prices)]


class Shares(Right):
    """Its threads share one attribute for the batch."""

    def load(self, graph):
        price = load_cpu(graph.model)

        def run(batch):
            self.batch = batch
            time.sleep(0.005)
            return price(self.batch)

        return run


class Opens(Right):
    def load(self, graph):
        if graph.model.startswith(b"this"):
            raise ValueError("magic number")
        return super().load(graph)


class Missing(Right):
    def load(self, graph):
        raise PluginError("libfast is missing: pip install fast")


class ImportsInside(Right):
    def found(self, prices, batch):
        import torch

        return np.asarray(torch.from_numpy(prices))


def from_a_file():
    """Load a plugin file as `--plugin` does."""
    path = Path(__file__).with_name("imports_torch.py")
    spec = spec_from_file_location("pricekit_file_imports_torch", path)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Cpu()


WRONG = {
    "has load": [changed(load=None)],
    "length_multiple and streams": [
        changed(length_multiple=0),
        changed(streams="2"),
    ],
    "finite, positive float32 prices": [
        changed(found=lambda s, p, b: p.astype(np.float64)),
        changed(found=lambda s, p, b: p[:, None]),
        changed(found=lambda s, p, b: -p),
        Missing,
    ],
    "prices match the reference": [
        changed(found=lambda s, p, b: p * np.float32(1.03)),
        changed(found=lambda s, p, b: p[:1].repeat(len(p))),
    ],
    "independent of the other rows of the batch": [
        changed(found=lambda s, p, b: p * np.float32(1 + 0.01 * len(p))),
        changed(found=lambda s, p, b: p * (1 + 0.1 * np.arange(len(p), dtype=np.float32))),
    ],
    "returned arrays are not overwritten": [Reuses],
    "concurrent streams give the same prices": [Shares],
    "rejects an invalid graph": [
        Opens,
        changed(load=lambda s, graph: lambda batch: None),
    ],
    "module imports no torch": [from_a_file],
    "runs without torch": [ImportsInside],
}


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}: {check}")
        for name, make in {"ort-cpu": OrtCpu, "right": Right}.items()
        for check in check_engine(make)
    ],
)
def test_a_correct_engine_passes(check):
    check()


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in WRONG.items() for make in makes])
def test_a_faulty_engine_fails_its_check(name, make, raises):
    check = next(check for check in check_engine(make) if check.name == name)
    with raises(CheckFailed):
        check()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_engine(Right)}


def test_the_error_names_a_missing_device(monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    messages = {}
    for check in check_engine(OrtCuda):
        try:
            check()
        except CheckFailed as error:
            messages[check.name] = str(error)
    assert len(messages) == 7
    assert all("has no CUDAExecutionProvider" in message for message in messages.values())
