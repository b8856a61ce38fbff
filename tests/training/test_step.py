"""One optimizer step: pieces, overflow, and recovery from full memory."""

import numpy as np
import pytest
import torch
from torch import nn

from pricekit.config import HeadConfig
from pricekit.config.resolve import configure
from pricekit.errors import PluginError, TrainingError
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.training.checkpoint import Parts, load_checkpoint, save_checkpoint
from pricekit.training.guard import gradient_norms
from pricekit.training.step import MAX_SKIPPED, Objective, Stepper, _pieces, clip_gradients, seed_torch

CPU = torch.device("cpu")


class Mean(nn.Module):
    """An encoder without dropout: the mean of token embeddings."""

    hidden_size, members = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, input_ids, attention_mask):
        return (self.embedding(input_ids) * attention_mask[:, :, None]).sum(1)


def make(precision="fp32", **settings):
    torch.manual_seed(0)
    model = PriceModel(Mean(), HeadConfig(), smape(), 2)
    config = configure([settings])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, Stepper(model, optimizer, config, precision, CPU)


def batch_of(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "input_ids": torch.from_numpy(rng.integers(0, 10, (rows, 3))),
        "attention_mask": torch.ones(rows, 3, dtype=torch.int64),
        "features": torch.from_numpy(rng.normal(size=(rows, 2)).astype(np.float32)),
        "price": torch.from_numpy(rng.lognormal(size=rows).astype(np.float32)),
    }


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def full_memory(limit, error):
    """Return a forward pass that fails for more than `limit` rows."""

    def forward(self, batch, call=Objective.forward):
        if len(batch["price"]) > limit:
            raise error
        return call(self, batch)

    return forward


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_running_out_of_memory_splits_the_batch_and_keeps_the_step(monkeypatch, logged, error):
    plain, stepper = make()
    expected = stepper.take([(0, batch_of(10), 0.5), (1, batch_of(10, 1), 0.5)], 0)
    monkeypatch.setattr(Objective, "forward", full_memory(3, error))
    model, stepper = make()
    loss = stepper.take([(0, batch_of(10), 0.5), (1, batch_of(10, 1), 0.5)], 0)
    assert stepper.parts == 4
    assert torch.allclose(weights(model), weights(plain), atol=1e-6)
    assert float(loss) == pytest.approx(float(expected), abs=1e-6)
    assert "in 4 pieces; an optimizer step still has the same rows" in " ".join(logged().split())


def test_running_out_of_memory_with_two_rows_is_reported(monkeypatch, raises):
    monkeypatch.setattr(Objective, "forward", full_memory(0, torch.OutOfMemoryError("full")))
    _, stepper = make()
    with raises(TrainingError, "settings", "max_length", "resume"):
        stepper.take([(0, batch_of(10), 1.0)], 0)


def test_full_memory_in_the_optimizer_is_one_error(monkeypatch, raises):
    _, stepper = make()

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stepper.optimizer, "step", full)
    with raises(TrainingError, "backbone", "resume"):
        stepper.take([(0, batch_of(10), 1.0)], 0)


def test_other_errors_are_not_mistaken_for_full_memory(monkeypatch, raises):
    monkeypatch.setattr(Objective, "forward", full_memory(0, RuntimeError("shapes differ")))
    _, stepper = make()
    with raises(PluginError, "backbone", "loss"):
        stepper.take([(0, batch_of(10), 1.0)], 0)
    assert stepper.parts == 1


def overflow(self, batch, call=Objective.forward):
    return call(self, batch) * float("inf")


@pytest.mark.filterwarnings("ignore:CPU Autocast only supports")
def test_an_overflow_skips_the_step_and_at_last_changes_the_precision(monkeypatch, logged):
    model, stepper = make("fp16", speed={"precision": "auto"})
    before, scale = weights(model), stepper.scaler.get_scale()
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "forward", overflow)
        assert stepper.take([(0, batch_of(4), 1.0)], 0) is None
        assert stepper.scaler.get_scale() == scale / 2
        for _ in range(MAX_SKIPPED - 1):
            assert stepper.take([(0, batch_of(4), 1.0)], 0) is None
    assert torch.equal(weights(model), before)
    assert stepper.objective.precision == "fp32"
    assert "training continues in fp32" in logged()
    assert stepper.take([(0, batch_of(4), 1.0)], 0) is not None
    assert not torch.equal(weights(model), before)


def test_a_resumed_run_that_left_fp16_stays_in_fp32(tmp_path, monkeypatch):
    model, stepper = make("fp16", speed={"precision": "auto"})
    monkeypatch.setattr(Objective, "forward", overflow)
    for _ in range(MAX_SKIPPED):
        stepper.take([(0, batch_of(4), 1.0)], 0)
    save_checkpoint(
        tmp_path / "c", Parts(model, stepper.optimizer, scaler=stepper.scaler), stepper.state_dict()
    )
    again, resumed = make("fp16", speed={"precision": "auto"})
    resumed.load_state_dict(
        load_checkpoint(tmp_path / "c", Parts(again, resumed.optimizer, scaler=resumed.scaler))
    )
    assert resumed.objective.precision == "fp32"
    assert not resumed.scaler.is_enabled()


@pytest.mark.parametrize("rows", range(1, 12))
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_no_piece_is_a_single_row(rows, parts):
    pieces = list(_pieces(batch_of(rows), parts))
    assert torch.equal(torch.cat([piece["price"] for piece, _ in pieces]), batch_of(rows)["price"])
    assert sum(share for _, share in pieces) == pytest.approx(1)
    assert len(pieces) <= parts
    assert rows == 1 or min(len(piece["price"]) for piece, _ in pieces) > 1


def test_prepared_tensors_of_a_batch_are_not_used_for_its_pieces():
    batch = batch_of(4) | {"drawn": torch.zeros(9)}
    assert [set(piece) for piece, _ in _pieces(batch, 1)] == [set(batch)]
    assert [set(piece) for piece, _ in _pieces(batch, 2)] == [set(batch_of(4))] * 2


def test_overflow_under_a_requested_precision_stops_with_advice(monkeypatch, raises):
    monkeypatch.setattr(Objective, "forward", overflow)
    _, stepper = make("fp16", speed={"precision": "fp16"})
    for _ in range(MAX_SKIPPED - 1):
        stepper.take([(0, batch_of(4), 1.0)], 0)
    with raises(TrainingError, "settings"):
        stepper.take([(0, batch_of(4), 1.0)], 0)


def test_a_successful_step_resets_the_count_of_skipped_steps(monkeypatch):
    _, stepper = make("fp16")
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "forward", overflow)
        stepper.take([(0, batch_of(4), 1.0)], 0)
    assert stepper.skipped == 1
    stepper.take([(0, batch_of(4), 1.0)], 0)
    assert stepper.skipped == 0


def test_bf16_rounds_the_products_but_not_the_loss():
    model, _ = make()
    batch = batch_of(50)
    exact = Objective(model, "fp32", CPU)(batch)
    rounded = Objective(model, "bf16", CPU)(batch)
    assert rounded.dtype == torch.float32
    assert exact != rounded
    assert exact.item() == pytest.approx(rounded.item(), rel=0.02)


def test_gradients_are_zeroed_in_place_if_set():
    for to_none in (True, False):
        model, stepper = make(speed={"zero_grad_set_to_none": to_none})
        stepper.take([(0, batch_of(4), 1.0)], 0)
        assert all((p.grad is None) is to_none for p in model.parameters())


def _clip(parameters):
    gradients = [parameter.grad for parameter in parameters]
    clip_gradients(gradients, gradient_norms(gradients), 1.0)


def test_clipping_bounds_dense_and_sparse_gradients_together():
    sparse, dense = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))
    sparse.grad = torch.sparse_coo_tensor([[0, 0, 2]], [3.0, 1.0, 0.0], (4,), check_invariants=True)
    dense.grad = torch.tensor([3.0])
    _clip([sparse, dense])  # norm of (4, 0, 3) is 5
    assert sparse.grad.to_dense().tolist() == pytest.approx([0.8, 0, 0, 0], abs=1e-5)
    assert dense.grad.tolist() == pytest.approx([0.6], abs=1e-5)
    _clip([dense])
    assert dense.grad.tolist() == pytest.approx([0.6], abs=1e-5)


def test_seeding_a_cpu_step_is_torch_manual_seed_without_its_calls_for_other_devices():
    torch.manual_seed(3)
    expected = torch.rand(4)
    queued = len(torch.cuda._queued_calls)
    seed_torch(3, torch.device("cpu"))
    assert torch.equal(torch.rand(4), expected)
    assert len(torch.cuda._queued_calls) == queued
