import pytest
import torch
from torch import nn

from pricekit.training.optim import LazyAdamW


def _train(optimizer, parameters, steps=5):
    torch.manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        sum(((p - torch.randn_like(p)) ** 2).sum() for p in parameters).backward()
        optimizer.step()


def test_dense_steps_are_torch_adamw():
    mine, theirs = (nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    _train(LazyAdamW([mine], lr=0.1, weight_decay=0.1), [mine])
    _train(torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.1), [theirs])
    assert torch.allclose(mine, theirs, atol=1e-6)


def test_sparse_steps_are_torch_sparse_adam():
    ids = [torch.tensor([0, 2, 2]), torch.tensor([2]), torch.tensor([1, 0])]
    tables = []
    for make in (LazyAdamW, torch.optim.SparseAdam):
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = make(table.parameters(), lr=0.1)
        for rows in ids:
            optimizer.zero_grad()
            table(rows).square().sum().backward()
            optimizer.step()
        tables.append(table.weight.detach())
    assert torch.allclose(*tables, atol=1e-6)


def test_rows_that_the_batch_lacks_are_untouched():
    table = nn.Embedding(5, 3, sparse=True)
    before = table.weight.detach().clone()
    optimizer = LazyAdamW(table.parameters(), lr=0.1, weight_decay=0.5)
    table(torch.tensor([1, 3])).sum().backward()
    optimizer.step()
    changed = (table.weight != before).any(1).tolist()
    assert changed == [False, True, False, True, False]


@pytest.mark.parametrize("sparse", [False, True])
def test_it_lowers_a_convex_loss(sparse):
    table = nn.Embedding(4, 2, sparse=sparse)
    optimizer = LazyAdamW(table.parameters(), lr=0.05)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = (table(torch.arange(4)) - 1).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    assert losses[-1] < 1e-3 < losses[0]
