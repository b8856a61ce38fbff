"""The mean of sparse gradients over processes, without processes: `all_gather` receives what the others sent."""

from unittest.mock import Mock

import pytest
import torch

from pricekit.training import parallel


def _sparse(rows, values):
    return torch.sparse_coo_tensor([rows], torch.tensor(values), (5, 2), check_invariants=True)


@pytest.mark.parametrize(
    "other", [([0, 3, 4], [[5.0, 6.0], [7.0, 8.0], [1.0, 1.0]]), ([], torch.zeros(0, 2).tolist())]
)
def test_the_mean_of_rows_is_that_of_the_dense_gradients(monkeypatch, other):
    rows, values = other
    own = _sparse([3, 1, 3], [[1.0, 2.0], [3.0, 4.0], [0.5, 0.5]])
    theirs = torch.sparse_coo_tensor(
        torch.tensor([rows], dtype=torch.int64),
        torch.tensor(values).view(-1, 2),
        (5, 2),
        check_invariants=True,
    ).coalesce()
    sent = iter([torch.tensor([len(rows)]), theirs.indices()[0], theirs.values()])

    def gather(places, tensor, group):
        received, (mine, other) = next(sent), places
        mine.copy_(tensor)
        other.zero_()[: len(received)] = received

    monkeypatch.setattr(parallel.distributed, "all_gather", gather)
    mean = parallel.mean_rows(Mock(size=lambda: 2), own)
    assert mean.is_coalesced()
    assert torch.equal(mean.to_dense(), (own.to_dense() + theirs.to_dense()) / 2)
