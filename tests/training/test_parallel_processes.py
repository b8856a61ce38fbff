"""Two processes that train together: they compute what one does, stop together, and continue."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pricekit.runs.opened import open_run
from pricekit.training.batches import micro_batches
from tests.faults.commands import run, start_together
from tests.faults.models import assert_equal_runs

SMALL = (
    *("backbone.vocab_size=300", "training.batch_size=32", "training.gradient_accumulation_steps=3"),
    *("training.save_epochs=9", "training.epochs=2", "max_length=64", 'features=["fast15"]'),
)
BAG = (
    *("backbone.buckets=512", "backbone.width=8", "backbone.members=2"),
    *("backbone.token_dropout=0", "backbone.span_dropout=0"),
)
TRANSFORMER = (
    "backbone.width=16",
    "backbone.layers=1",
    "backbone.heads=2",
    "backbone.dropout=0",
    "head.widths=[]",
    "head.dropout=[]",
)


def words(catalog, out, backbone="bag"):
    settings = SMALL + (BAG if backbone == "bag" else TRANSFORMER)
    options = [word for setting in settings for word in ("--set", setting)]
    return ["train", str(catalog), "--out", out, "--limit", "200", "--backbone", backbone, *options]


def train_together(catalog, folder, out, *options, backbone="bag"):
    """Train in two processes; return what they printed."""
    ended = [c.wait() for c in start_together(2, *words(catalog, out, backbone), *options, folder=folder)]
    assert [each.code for each in ended] == [0, 0], ended
    return [each.output for each in ended]


@pytest.fixture(scope="module")
def whole(catalog, tmp_path_factory):
    """The run of two processes that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    train_together(catalog, folder, "run")
    return folder / "run"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 9))
def test_sharing_a_step_leaves_no_single_row(sizes, processes):
    ends = np.cumsum([0, *sizes])
    step = [np.arange(a, b) for a, b in pairwise(ends)]
    dealt_rows = [piece for rank in range(processes) for piece in micro_batches(step, rank, processes)]
    assert sorted(row for _, rows, share in dealt_rows if share for row in rows) == [*range(ends[-1])]
    assert sum(share for _, _, share in dealt_rows) == pytest.approx(1)
    if min(sizes) > 1:
        assert min(len(rows) for _, rows, _ in dealt_rows) > 1


@pytest.mark.parametrize("backbone", ["bag", pytest.param("transformer", marks=pytest.mark.slow)])
def test_two_processes_train_the_same_weights_as_one(catalog, tmp_path, backbone):
    alone = run(*words(catalog, "one", backbone), folder=tmp_path, environment={"OMP_NUM_THREADS": "1"})
    assert alone.code == 0, alone
    said, other = train_together(catalog, tmp_path, "two", backbone=backbone)
    assert said.count("\nepoch   2") == said.count("refit, epoch   2") == 1
    assert "2 processes" in said
    assert other == ""  # one of them speaks
    one, two = (open_run(tmp_path / name) for name in ("one", "two"))
    for name, tensor in one.model.state_dict().items():
        assert torch.allclose(tensor, two.model.state_dict()[name], atol=1e-5), name
    scores = [
        [json.loads(line)["valid_smape"] for line in (r.path / "metrics.jsonl").read_text().splitlines()]
        for r in (one, two)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "ranks", "number"),
    [
        ("step", (0, 1), signal.SIGTERM),
        ("step", (1,), signal.SIGINT),
        ("validation", (1,), signal.SIGTERM),
    ],
)
def test_processes_stop_after_the_same_step_and_continue(catalog, tmp_path, whole, moment, ranks, number):
    given = {
        "before": "tests.training.test_parallel_processes:send_itself",
        "value": (moment, ranks, int(number)),
    }
    commands = start_together(2, *words(catalog, "run"), folder=tmp_path, **given)
    first, second = [command.wait() for command in commands]
    assert (first.code, second.code) == (130, 130), (first, second)
    assert first.output.count("interrupted") == 1
    assert "torchrun --nproc_per_node 1 -m pricekit train" in first.output
    assert second.output.strip() == ""
    train_together(catalog, tmp_path, "run", "--resume")
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_other_one_and_they_continue(catalog, tmp_path, whole, rank):
    given = {"before": "tests.training.test_parallel_processes:send_itself", "value": ("step", (rank,), 9)}
    saved = ("--set", "training.save_steps=1")
    commands = start_together(2, *words(catalog, "run"), *saved, folder=tmp_path, **given)
    ended = [command.wait() for command in commands]
    assert ended[rank].code == -signal.SIGKILL
    if rank == 1:
        ended[0].check_explained(1)
        assert "another of the processes that train together has ended" in ended[0].output
        assert "--resume" in ended[0].output
    else:
        assert (ended[1].code, ended[1].output) == (1, "")
    train_together(catalog, tmp_path, "run", "--resume")
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_waits_for_the_others_says_so_and_can_be_interrupted(catalog, tmp_path, rank):
    patience = {"before": "tests.training.test_parallel_processes:leave_or_wait", "value": 1 - rank}
    commands = start_together(2, *words(catalog, "run"), folder=tmp_path, **patience)
    commands[1 - rank].wait()
    commands[rank].wait_for("waiting for all of the 2 processes that train together to join at 127.0.0.1:")
    commands[rank].send(signal.SIGTERM)
    ended = commands[rank].wait()
    ended.check_explained(130)
    assert "start all again" in ended.output


@pytest.mark.slow
@pytest.mark.parametrize("threaded", [False, True])
def test_python_trains_in_a_process_group_that_exists(catalog, tmp_path, whole, threaded):
    given = {
        "before": "tests.training.test_parallel_processes:train_in_group",
        "value": (str(catalog), threaded),
    }
    ended = [command.wait() for command in start_together(2, folder=tmp_path, **given)]
    assert [each.code for each in ended] == [0, 0], ended
    assert ["epoch   2" in each.output for each in ended] == [True, False], ended
    assert ended[1].output == ""
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.slow
def test_the_launcher_forwards_its_signal(catalog, tmp_path):
    """`torchrun` takes seconds to start, and adds messages of its own."""
    launcher = ["torch.distributed.run", "--nproc_per_node", "2", "-m"]
    longer = ("--set", "training.epochs=60")
    command = [sys.executable, "-m", *launcher, "pricekit", *words(catalog, "run"), *longer]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    with open(tmp_path / "output", "w+") as output:
        launched = subprocess.Popen(command, stderr=output, cwd=tmp_path, env=environment)
        while "\nepoch   1" not in (tmp_path / "output").read_text() and launched.poll() is None:
            time.sleep(0.05)
        launched.send_signal(signal.SIGTERM)
        launched.wait(60)
    said = (tmp_path / "output").read_text()
    assert said.count("stopping after this step with a checkpoint") == 1
    assert said.count("pricekit: interrupted") == 1
    assert "SIGKILL" not in said
    train_together(catalog, tmp_path, "run", *longer, "--resume")
    assert json.loads((tmp_path / "run/run.json").read_text())["refit"]["rows"] == 200


def send_itself(given):
    """Send a signal to one of the processes or to both, in the second epoch: before a step or before the validation."""
    from pricekit.training import loop
    from pricekit.training.loop import Session

    moment, ranks, number = given
    if int(os.environ["RANK"]) not in ranks:
        return

    def send(session):
        if session.state.epoch == 1 and session.job.valid is not None:
            signal.raise_signal(number)

    def set_rates(session, call=Session.set_rates):
        if moment == "step":
            send(session)
        call(session)

    def validate(session, interrupted, call=loop.validate):
        if moment == "validation":
            send(session)
        return call(session, interrupted)

    Session.set_rates, loop.validate = set_rates, validate


def leave_or_wait(rank):
    """End the process of a rank before it joins; the others say soon that they wait."""
    from pricekit.training import parallel as parallel

    if int(os.environ["RANK"]) == rank:
        os._exit(1)
    parallel.PATIENCE = 0.1


def train_in_group(given):
    """Train from Python, and end: in a group that the program has made itself, in the main thread or another one."""
    import pricekit as pk

    logging.basicConfig(level=logging.INFO)
    table, threaded = given
    rank, count = int(os.environ.pop("RANK")), int(os.environ.pop("WORLD_SIZE"))
    del os.environ["LOCAL_RANK"]
    torch.distributed.init_process_group("gloo", rank=rank, world_size=count)
    with pytest.raises(pk.errors.ConfigError, match="the same output folder"):
        pk.train(table)
    settings = [*SMALL, *BAG]
    found = []

    def work():
        found.append(
            pk.train(table, out="run", limit=200, settings=settings, backbone="bag").metrics["smape"]
        )

    if threaded:
        thread = Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    torch.distributed.destroy_process_group()
    sys.exit(0 if found else 1)


@pytest.mark.slow
def test_a_process_whose_first_one_is_lost_at_the_start_prints_nothing(catalog, tmp_path):
    """The main process says why; torch would print the stack of its C++ code."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
    launcher = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "OMP_NUM_THREADS": "1"}
    launcher |= {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-m", "pricekit", *words(catalog, "run")]
    other = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | launcher,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not store.num_keys() and other.poll() is None:  # it waits for the first process's address
            time.sleep(0.05)
        del store
        said, _ = other.communicate(timeout=60)
    finally:
        other.kill()
    assert (other.returncode, said) == (1, "")
