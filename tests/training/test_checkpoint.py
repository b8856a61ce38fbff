import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from pricekit.errors import TrainingError
from pricekit.training.checkpoint import Parts, load_checkpoint, save_checkpoint
from pricekit.training.optimizers import RowwiseAdagrad


def _trained(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = RowwiseAdagrad(model.parameters(), lr=0.1)
    model(torch.randn(4, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_checkpoint_restores_everything(tmp_path):
    model, optimizer = _trained()
    save_checkpoint(
        tmp_path / "c.safetensors", Parts(model, optimizer), {"epoch": 3, "best_score": float("inf")}
    )
    other, other_optimizer = _trained(seed=1)
    state = load_checkpoint(tmp_path / "c.safetensors", Parts(other, other_optimizer))
    assert state == {"epoch": 3, "best_score": float("inf")}
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    )
    for index, values in optimizer.state_dict()["state"].items():
        found = other_optimizer.state_dict()["state"][index]
        assert found["step"] == values["step"]
        assert torch.equal(found["exp_avg_sq"], values["exp_avg_sq"])
    assert [f.name for f in tmp_path.iterdir()] == ["c.safetensors"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        SafetensorError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch, error, raises):
    path = tmp_path / "c.safetensors"
    model, _ = _trained()
    save_checkpoint(path, Parts(model), {"epoch": 1})

    def cut_short(tensors, target, metadata):
        target.write_bytes(b"half")
        raise error

    monkeypatch.setattr("pricekit.training.checkpoint.save_file", cut_short)
    with raises(TrainingError, "resume", "out") as raised:
        save_checkpoint(path, Parts(model), {"epoch": 2})
    assert raised.value.__cause__.errno == 28  # so that the command line exits with 4
    assert load_checkpoint(path, Parts(model)) == {"epoch": 1}
    assert [f.name for f in tmp_path.iterdir()] == ["c.safetensors"]


def test_damaged_files_and_other_models_are_reported(tmp_path, raises):
    path = tmp_path / "c.safetensors"
    model, _ = _trained()
    with raises(TrainingError, "out"):
        load_checkpoint(path, Parts(model))
    save_checkpoint(path, Parts(model), {})
    with raises(TrainingError, "out"):
        load_checkpoint(path, Parts(nn.Linear(7, 7)))
    path.write_bytes(path.read_bytes()[:50])
    with raises(TrainingError, "overwrite"):
        load_checkpoint(path, Parts(model))
