"""Two processes under `accelerate launch`, compared with one."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pricekit.runs.folder import open_run
from pricekit.training.batches import micro_batches
from pricekit.training.machine import defer_interrupts

SETTINGS = (
    *("backbone.vocab_size=1000", "backbone.buckets=512", "backbone.width=8", "backbone.members=2"),
    *("backbone.token_dropout=0", "backbone.span_dropout=0"),
    *("training.batch_size=32", "training.gradient_accumulation_steps=3"),
)
TRAIN = [part for setting in SETTINGS for part in ("--set", setting)]
TRAIN += ["--epochs", "2", "--max-length", "64", "--limit", "200"]
LAUNCH = ["accelerate.commands.launch", "--multi_gpu", "--num-processes", "2", "--num-machines", "1", "-m"]


def run(launcher, catalog, out):
    command = [sys.executable, "-m", *launcher, "pricekit", "train", str(catalog), "--out", str(out)]
    done = subprocess.run(
        [*command, *TRAIN],
        capture_output=True,
        text=True,
        cwd=Path.cwd(),
        timeout=240,
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 9))
def test_sharing_a_step_leaves_no_single_row(sizes, processes):
    ends = np.cumsum([0, *sizes])
    step = [np.arange(a, b) for a, b in pairwise(ends)]
    dealt_rows = [piece for rank in range(processes) for piece in micro_batches(step, rank, processes)]
    assert sorted(row for _, rows, share in dealt_rows if share for row in rows) == [*range(ends[-1])]
    assert sum(share for _, _, share in dealt_rows) == pytest.approx(1)
    if min(sizes) > 1:
        assert min(len(rows) for _, rows, _ in dealt_rows) > 1


def test_two_processes_train_the_same_weights_as_one(catalog, tmp_path):
    run([], catalog, tmp_path / "one")
    said = run(LAUNCH, catalog, tmp_path / "two")
    assert said.count("\nepoch   2") == said.count("refit, epoch   2") == 1  # one of them speaks
    assert "2 processes" in said
    assert "Traceback" not in said
    one, two = (open_run(tmp_path / name) for name in ("one", "two"))
    for name, tensor in one.model.state_dict().items():
        assert torch.allclose(tensor, two.model.state_dict()[name], atol=1e-5), name
    scores = [
        [json.loads(line)["valid_smape"] for line in (r.path / "metrics.jsonl").read_text().splitlines()]
        for r in (one, two)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


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


def test_signals_are_not_handled_with_several_processes():
    before = signal.getsignal(signal.SIGINT)
    with defer_interrupts(enabled=False) as interrupted:
        assert signal.getsignal(signal.SIGINT) is before
        assert not interrupted.is_set()
