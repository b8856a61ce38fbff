"""The mean of the gradients of several processes; sparse gradients are exchanged as rows."""

# Without `from __future__ import annotations`: torch reads the annotations of a hook, and refuses strings.

import torch
from torch import Tensor, distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future


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

    Each process receives the rows of all others, sorts them and adds equal ones, in the order of the processes. So all
    have the same result, to the bit. NCCL, unlike gloo, has no sum of sparse tensors.

    Args:
        group: the processes.
        gradient: of an embedding, (V, D) with one sparse dimension.
    """
    gradient = gradient.coalesce()
    rows, values = gradient.indices()[0], gradient.values()
    counts = torch.cat(_gathered(group, rows.new_tensor([len(rows)]))).tolist()
    all_rows, all_values = (_gathered(group, _padded(sent, max(counts))) for sent in (rows, values))
    found = torch.cat([part[:count] for part, count in zip(all_rows, counts, strict=True)])
    sums = torch.cat([part[:count] for part, count in zip(all_values, counts, strict=True)])
    mean = sums.div_(len(counts))
    return torch.sparse_coo_tensor(found[None], mean, gradient.shape, check_invariants=False).coalesce()


def _padded(tensor: Tensor, length: int) -> Tensor:
    """Return a tensor with zeros at the end of its first axis: all processes must send as much."""
    padded = tensor.new_zeros(length, *tensor.shape[1:])
    padded[: len(tensor)] = tensor
    return padded


def _gathered(group: distributed.ProcessGroup, tensor: Tensor) -> list[Tensor]:
    """Return the tensors of all processes, which have the same shape, by rank."""
    found = [torch.empty_like(tensor) for _ in range(group.size())]
    distributed.all_gather(found, tensor, group=group)
    return found
