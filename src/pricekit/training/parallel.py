"""The processes that train together: rank, device, what they ask each other, and the mean of their gradients."""

# Without `from __future__ import annotations`: torch reads the annotations of a hook, and refuses strings.

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import Tensor, distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.futures import Future
from torch.nn import functional

from pricekit.errors import LostProcessError
from pricekit.io.log import logger
from pricekit.training.launched import launched_count, launched_rank, process_group
from pricekit.training.optimizers import coalesced, sparse_rows

PATIENCE = 10.0
"""Seconds after which a process says that it waits for the others to join."""


class Processes:
    """Rank and device of this process, and operations across all processes.

    A group that exists is used; otherwise one is created if a launcher started several processes.

    Attributes:
        rank: number of this process, from 0.
        count: the number of processes.
        main: whether this is the process that writes files and logs.
        device: where this process computes.

    All methods that exchange something raise LostProcessError.
    """

    def __init__(self) -> None:
        self.device: torch.device = _device()
        with naming_lost_processes(), _warning_if_slow():
            if launched_count() > 1 and not distributed.is_initialized():
                distributed.init_process_group(distributed.get_default_backend_for_device(self.device))
            self.rank, self.count = launched_rank(), launched_count()
            self._group = _control_group(process_group()) if self.count > 1 else None
        self.main: bool = self.rank == 0

    @property
    def part(self) -> tuple[int, int]:
        """The share of this process in common work: its rank and the number of processes."""
        return self.rank, self.count

    def wait(self) -> None:
        """Wait for all processes."""
        if self.count > 1:
            with naming_lost_processes():
                distributed.barrier(self._group)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, of the same shape; of several, on the CPU."""
        if self.count > 1:
            tensor = tensor.detach().to("cpu", copy=True)
            with naming_lost_processes():
                distributed.all_reduce(tensor, group=self._group)
        return tensor

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set in any process."""
        return flag if self.count == 1 else bool(self.sum(torch.tensor(int(flag))))

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Copy the main process's values into the tensors of all others: batch statistics differ between them."""
        if self.count > 1:
            with naming_lost_processes():
                for tensor in tensors:
                    distributed.broadcast(tensor, 0)

    def from_main(self, number: float) -> float:
        """Return the main process's number in every process: clocks differ."""
        if self.count == 1:
            return number
        return float(self.sum(torch.tensor(number if self.main else 0.0, dtype=torch.float64)))

    def end(self) -> None:
        """Leave the process group; torch warns if a process exits without doing so."""
        self.wait()
        if process_group():
            distributed.destroy_process_group()


def _device() -> torch.device:
    """Return the CPU or the accelerator; of several processes on a machine, each takes the one with its number."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes"):
        return torch.device("cpu")
    if "LOCAL_RANK" not in os.environ:
        return accelerator
    number = int(os.environ["LOCAL_RANK"]) % torch.accelerator.device_count()
    torch.accelerator.set_device_index(number)
    return torch.device(accelerator.type, number)


@contextmanager
def naming_lost_processes() -> Iterator[None]:
    """Report that an exchange with the other processes failed; raises LostProcessError."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost(error):
            raise
        raise LostProcessError(
            "another of the processes that train together has ended or cannot be reached; its output, or that of the "
            "launcher, says why. The last checkpoint is kept: resume to continue",
            parameters=("resume",),
        ) from error


@contextmanager
def _warning_if_slow() -> Iterator[None]:
    """Say that the block takes long, once on each machine: torch waits in silence, half an hour for a lost process."""
    timer = threading.Timer(PATIENCE, _say_waiting)
    timer.daemon = True
    if launched_count() > 1 and os.environ.get("LOCAL_RANK", "0") == "0":
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say_waiting() -> None:
    where = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    logger.error(
        f"waiting for all of the {launched_count()} processes that train together to join at {where}; if one has "
        "ended, or cannot reach that address, stop the others and start all again"
    )


def is_lost(error: BaseException) -> bool:
    """Return whether an error means that another process does not answer."""
    return isinstance(error, distributed.DistError) or "gloo" in str(error).lower()


@lru_cache(maxsize=1)
def _control_group(world: distributed.ProcessGroup) -> distributed.ProcessGroup:
    """Return the group for numbers on the CPU: over NCCL, each of them would wait for the GPU."""
    return world if "gloo" in distributed.get_backend(world) else distributed.new_group(backend="gloo")


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
    return sparse_rows(touched[None], mean, gradient)


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
    gathered = tensor.new_empty(group.size() * len(tensor), *tensor.shape[1:])
    distributed.all_gather(list(gathered.chunk(group.size())), tensor, group=group)
    return gathered
