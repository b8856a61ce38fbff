"""The mean of the gradients of several processes; sparse gradients are exchanged as rows."""

# Without `from __future__ import annotations`: torch reads the annotations of a hook, and refuses strings.

import torch
from torch import Tensor, distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.nn import functional

from pricekit.optim.optimizers import coalesced

_gather = (
    getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
)  # torch < 2.13


def mean_gradient(
    group: distributed.ProcessGroup,
    bucket: distributed.GradBucket,  # type: ignore[name-defined]
) -> Future[Tensor]:
    """Return the mean gradient of a bucket of `DistributedDataParallel`, which calls it as its hook.

    A dense bucket is all-reduced. A sparse gradient is a bucket of its own.

    Args:
        group: the processes.
        bucket: the gradients of this process.
    """
    gradient = bucket.buffer()
    if not gradient.is_sparse:
        return allreduce_hook(group, bucket)
    done: Future[Tensor] = Future()
    done.set_result(mean_rows(group, gradient))
    return done


def mean_rows(group: distributed.ProcessGroup, gradient: Tensor) -> Tensor:
    """Return the mean of a sparse gradient over all processes, coalesced.

    Each process receives the rows of all others and adds equal ones in the order of the processes. So all have the same
    result, to the bit. NCCL, unlike gloo, has no sum of sparse tensors.

    Args:
        group: the processes.
        gradient: of an embedding, (V, D) with one sparse dimension.
    """
    gradient = coalesced(gradient)
    rows, values = gradient._indices()[0], gradient._values()
    longest = int(_gathered(group, rows.new_tensor([len(rows)])).max())
    if longest == 0:
        return gradient
    by_row, order = _gathered(group, _padded(rows, longest)).sort(stable=True)
    touched, counts = torch.unique_consecutive(by_row, return_counts=True)
    mean = functional.embedding_bag(
        order,
        _gathered(group, _padded(values, longest)),
        counts.cumsum(0) - counts,
        mode="sum",
        per_sample_weights=values.new_full((len(order),), 1 / group.size()),
    )
    return torch.sparse_coo_tensor(
        touched[None], mean, gradient.shape, is_coalesced=True, check_invariants=False
    )


def _padded(tensor: Tensor, length: int) -> Tensor:
    """Return a tensor with zeros at the end of its first axis: all processes must send as much.

    A row of zeros changes no row of an embedding.
    """
    if len(tensor) == length:
        return tensor.contiguous()
    padded = tensor.new_zeros(length, *tensor.shape[1:])
    padded[: len(tensor)] = tensor
    return padded


def _gathered(group: distributed.ProcessGroup, tensor: Tensor) -> Tensor:
    """Return the tensors of all processes, which have the same shape, one after the other by rank."""
    found = tensor.new_empty(group.size() * len(tensor), *tensor.shape[1:])
    _gather(found, tensor, group=group)
    return found
