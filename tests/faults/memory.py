"""Memory that runs out in one phase of a command: the same steps in smaller pieces, or one paragraph."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
from tokenizers import Tokenizer

import pricekit as pk
from pricekit.cli.common import exit_code, explain
from pricekit.nets.network import PriceModel
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import checkpoint
from pricekit.training.step import Objective, Stepper
from tests.faults.campaign import Case
from tests.faults.damage import config_of
from tests.faults.models import assert_equal_weights, write_table

TRIALS, SHORT = 30, 15
REQUIREMENT = "same steps, or one paragraph"

ERRORS = (
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    MemoryError,
)
KINDS = (
    "forward",
    "backward",
    "validation",
    "optimizer",
    "checkpoint",
    "tokenizer",
    "build",
    "predict",
    "engine",
    "export",
)
LOWER_CODES = (1, 3, 4)


def prepare(folder: Path) -> None:
    """Train and export a small model without a fault."""
    table = write_table(folder / "table.csv", 150)
    train(Source(table), config_of(), folder / "run")
    pk.load(folder / "run").export(folder / "bundle")


def trial(case: Case) -> str:
    """Let memory run out once, or for larger batches; compare the result, or check the error and continue."""
    kind = KINDS[case.number % len(KINDS)]
    with ExitStack() as stack:
        make = case.random.choice(ERRORS)
        _FAULTS[kind](stack, case, make)
        failed = None
        try:
            _work(kind, case)
        except Exception as error:
            failed = error
    if failed is not None:
        text = explain(failed)
        assert "unexpected error" not in text, text
        assert "memory" in text.lower(), text
        assert "\n" not in text.strip(), text
        assert exit_code(failed) in LOWER_CODES, (exit_code(failed), text)
        return f"{kind}: {_continue(kind, case)}"
    _compare(kind, case, exact=kind not in ("forward", "backward"))
    return f"{kind}: same steps"


def _work(kind: str, case: Case, *, resume: bool = False) -> None:
    if kind == "export":
        pk.load(case.shared / "run").export(case.folder / "bundle")
    elif kind in ("predict", "engine"):
        model = pk.load(
            case.shared / ("run" if kind == "predict" else "bundle"), None if kind == "predict" else "ort-cpu"
        )
        np.save(case.folder / "prices.npy", np.asarray(model.predict(pk.make_catalog(50, seed=5))))
    else:
        train(
            Source(case.shared / "table.csv"),
            config_of(),
            case.folder / "run",
            mode="resume" if resume else "new",
        )


def _continue(kind: str, case: Case) -> str:
    """Repeat the command without the fault; nothing half done is in its way."""
    _work(kind, case, resume=True)
    _compare(kind, case, exact=True)
    return "one paragraph, then equal results"


def _compare(kind: str, case: Case, *, exact: bool) -> None:
    if kind == "export":
        assert pk.bundles.inspect(case.folder / "bundle")
    elif kind in ("predict", "engine"):
        expected = np.asarray(pk.load(case.shared / "run").predict(pk.make_catalog(50, seed=5)))
        assert np.allclose(np.load(case.folder / "prices.npy"), expected, rtol=1e-4)
    elif exact:
        assert_equal_weights(case.folder / "run/best.safetensors", case.shared / "run/best.safetensors")
    else:
        # Smaller pieces draw other dropout masks, so the weights differ a little, and perhaps the best epoch.
        folders = case.folder / "run", case.shared / "run"
        lines = [(folder / "metrics.jsonl").read_text().splitlines() for folder in folders]
        first = [[(line["epoch"], line["step"]) for line in map(json.loads, each)] for each in lines]
        assert first[0] == first[1]
        one, two = (checkpoint.read_state(folder / "last.safetensors") for folder in folders)
        assert one["step"] * two["epoch"] == two["step"] * one["epoch"], "steps of an epoch of the refit"
        smape = [json.loads((folder / "run.json").read_text())["metrics"]["smape"] for folder in folders]
        assert abs(smape[0] - smape[1]) < 20


def _on(target: Any, name: str, due: Callable[..., bool]) -> Callable[..., None]:
    """Return a fault: a function fails whenever its arguments, with the number of the call, are due."""

    def fault(stack: ExitStack, case: Case, make: Callable[[], Exception]) -> None:
        call, calls, rng = getattr(target, name), [0], case.random
        chosen = rng.randrange(1, 8)

        def failing(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            if due(calls[0], chosen, arguments):
                raise make()
            return call(*arguments, **named)

        stack.enter_context(patch.object(target, name, failing))

    return fault


def _once(number: int, chosen: int, arguments: Any) -> bool:
    return number == chosen


def _first(number: int, chosen: int, arguments: Any) -> bool:
    return number == 1


def _large(number: int, chosen: int, arguments: Any) -> bool:
    """Whether a batch has more rows than fit; with a small limit none does."""
    return len(arguments[1]["price"]) > 4 * chosen


def _in_evaluation(number: int, chosen: int, arguments: Any) -> bool:
    model = arguments[0]
    return isinstance(model, PriceModel) and not model.training and number > 1 and number % chosen == 0


def _in_optimizer(stack: ExitStack, case: Case, make: Callable[[], Exception]) -> None:
    _on(torch.amp.GradScaler, "step", _once)(stack, case, make)


_FAULTS: dict[str, Callable[[ExitStack, Case, Callable[[], Exception]], None]] = {
    "forward": _on(Objective, "forward", _large),
    "backward": _on(Stepper, "_backward", _once),
    "validation": _on(PriceModel, "forward", _in_evaluation),
    "optimizer": _in_optimizer,
    "checkpoint": _on(checkpoint, "save_file", _once),
    "tokenizer": _on(Tokenizer, "encode_batch_fast", _first),
    "build": _on(PriceModel, "__init__", _first),
    "predict": _on(PriceModel, "forward", _in_evaluation),
    "engine": _on(onnxruntime.InferenceSession, "run", _first),
    "export": _on(torch.onnx, "export", _first),
}
