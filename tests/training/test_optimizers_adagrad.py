import pytest
import torch
from torch import nn

from pricekit.training.optimizers import RowwiseAdagrad


def _train(optimizer, parameters, steps=5):
    torch.manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        sum(((p - torch.randn_like(p)) ** 2).sum() for p in parameters).backward()
        optimizer.step()


def test_dense_steps_are_torch_adamw():
    mine, theirs = (nn.Parameter(torch.ones(3, 2)) for _ in range(2))
    _train(RowwiseAdagrad([mine], lr=0.1, weight_decay=0.1), [mine])
    _train(torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.1), [theirs])
    assert torch.allclose(mine, theirs, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_steps_of_width_one_are_torch_adagrad():
    """With rows of width 1, a sum per row is a sum per weight, as in torch's Adagrad."""
    tables = []
    for make in (RowwiseAdagrad, torch.optim.Adagrad):
        torch.manual_seed(0)
        table = nn.Embedding(5, 1, sparse=True)
        optimizer = make(table.parameters(), lr=0.1)
        for rows in (torch.tensor([0, 2, 2]), torch.tensor([2]), torch.tensor([1, 0])):
            optimizer.zero_grad()
            table(rows).square().sum().backward()
            optimizer.step()
        tables.append(table.weight.detach())
    assert torch.allclose(*tables, atol=1e-6)


def test_a_sparse_step_by_hand():
    table = nn.Embedding(2, 2, sparse=True)
    nn.init.zeros_(table.weight)
    optimizer = RowwiseAdagrad(table.parameters(), lr=0.1)
    (table(torch.tensor([1])) * torch.tensor([[3.0, 4.0]])).sum().backward()
    optimizer.step()
    root = ((9 + 16) / 2) ** 0.5
    expected = torch.tensor([[0.0, 0.0], [-0.1 * 3 / root, -0.1 * 4 / root]])
    assert torch.allclose(table.weight, expected, atol=1e-6)


def test_rows_outside_the_batch_do_not_change():
    table = nn.Embedding(5, 3, sparse=True)
    before = table.weight.detach().clone()
    optimizer = RowwiseAdagrad(table.parameters(), lr=0.1, weight_decay=0.5)
    table(torch.tensor([1, 3])).sum().backward()
    optimizer.step()
    changed = (table.weight != before).any(1).tolist()
    assert changed == [False, True, False, True, False]


@pytest.mark.parametrize("sparse", [False, True])
def test_it_lowers_a_convex_loss(sparse):
    table = nn.Embedding(4, 2, sparse=sparse)
    optimizer = RowwiseAdagrad(table.parameters(), lr=0.5 if sparse else 0.1)
    losses = []
    for _ in range(300):
        optimizer.zero_grad()
        loss = (table(torch.arange(4)) - 1).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    assert losses[-1] < 1e-3 < losses[0]


@pytest.mark.parametrize("rows", [[3, 1], [1, 1, 3], [1, 3]])
def test_rows_may_come_in_any_order_and_more_than_once(rows):
    """A gradient whose rows ascend is not sorted again; the step is that of the same gradient in another order."""
    tables = [torch.zeros(5, 2).requires_grad_() for _ in range(2)]
    values = torch.arange(1.0, 1 + 2 * len(rows)).view(-1, 2)
    given = torch.sparse_coo_tensor(torch.tensor([rows]), values, (5, 2), check_invariants=False)
    for table, grad in zip(tables, (given, given.coalesce()), strict=True):
        table.grad = grad
        RowwiseAdagrad([table], lr=0.1).step()
    assert torch.equal(*tables)
    assert tables[0].any(1).tolist() == [False, True, False, 3 in rows, False]


def test_parameters_that_join_later_have_steps_of_their_own():
    """AdamW corrects the bias of each mean by the steps that its own parameter took."""
    mine, theirs = ([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))] for _ in range(2))
    optimizers = (
        RowwiseAdagrad(mine, lr=0.1, weight_decay=0.1),
        torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.1),
    )
    for parameters, optimizer in zip((mine, theirs), optimizers, strict=True):
        for step in range(4):
            optimizer.zero_grad()
            sum((p**2).sum() * (step + 1) for p in parameters[step > 1 :]).backward()
            optimizer.step()
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(mine, theirs, strict=True))
