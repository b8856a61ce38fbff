from types import SimpleNamespace

import pytest
import torch

from pricekit.config import RunConfig
from pricekit.errors import TrainingError
from pricekit.training import loop
from pricekit.training.checkpoint import TrainingState
from pricekit.training.loop import EpochLoss
from pricekit.training.machine import Monitor

CPU = torch.device("cpu")


@pytest.fixture
def session():
    """A stand-in with the attributes that `EpochLoss` reads."""
    processes = SimpleNamespace(device=CPU, count=1, sum=lambda tensor: tensor)
    stepper = SimpleNamespace(guard=SimpleNamespace(read=lambda: None))
    return SimpleNamespace(
        state=TrainingState(epoch=1),
        processes=processes,
        epochs=5,
        monitor=Monitor(CPU),
        stepper=stepper,
        config=RunConfig(),
    )


def test_the_mean_loss_counts_rows_and_leaves_skipped_steps_out(session, monkeypatch):
    monkeypatch.setattr(loop, "NOTE_SECONDS", -1.0)
    total = EpochLoss(session)
    for loss, rows in ((torch.tensor(1.0), 30), (None, 30), (torch.tensor(2.0), 10)):
        total.add(loss, rows)
    session.state.rows = 40
    assert total.note().startswith("epoch 2/5  loss 1.2500  ")
    total.store()
    assert session.state.loss == 50.0
    total.store()
    assert session.state.loss == 50.0


def test_the_loss_is_not_read_for_every_note(session, monkeypatch):
    monkeypatch.setattr(loop, "NOTE_SECONDS", 1e9)
    total = EpochLoss(session)
    total.noted_at = 0.0
    total.add(torch.tensor(float("nan")), 1)  # reading it would raise
    assert total.note() == ""


def test_a_loss_that_is_not_finite_stops_training(session, raises):
    total = EpochLoss(session)
    total.add(torch.tensor(float("inf")), 1)
    with raises(TrainingError, "settings"):
        total.store()


def test_without_a_gpu_nothing_is_monitored():
    found = Monitor(CPU)
    assert (found.note(), found.record(), found.advice()) == ("", {}, "")


def test_an_idle_gpu_gives_advice():
    found = Monitor(CPU)
    found.readings = [50, 60]
    assert "busy 55% of the time" in found.advice()
    found.readings = [90]
    assert found.advice() == ""


def test_the_loss_of_an_epoch_does_not_depend_on_interrupts(session):
    losses = torch.rand(200, generator=torch.Generator().manual_seed(0))
    found = []
    for stored in (set(), {7, 8, 150}, set(range(200))):
        session.state.loss, total = 0.0, EpochLoss(session)
        for step, loss in enumerate(losses):
            total.add(loss, 63)
            if step in stored:
                total.store()
        total.store()
        found.append(session.state.loss)
    assert found[0] == found[1] == found[2]
