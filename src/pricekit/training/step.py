"""One optimizer step: micro-batches forward and backward, overflow, and running out of memory."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pricekit.config import RunConfig
from pricekit.core.calls import plugin_call
from pricekit.errors import LostProcessError, PluginError, PricekitError, TrainingError
from pricekit.io.causes import lacks_memory, raise_outside_cause
from pricekit.io.log import logger
from pricekit.nets.network import PriceModel
from pricekit.training.batches import Batch
from pricekit.training.guard import GradientGuard, gradient_norms
from pricekit.training.machine import DTYPES
from pricekit.training.parallel import mean_gradient, naming_lost_processes
from pricekit.wording import shorten

MAX_SKIPPED = 12
"""Maximum number of consecutive steps that fp16 may skip. The scaler starts at 2^16 and halves with each."""

_BY_ROW = ("input_ids", "attention_mask", "features", "price", "weight")
"""The tensors of a batch whose first axis is the rows."""


class Objective(nn.Module):
    """The model's training loss under autocast; `DistributedDataParallel` wraps it for several processes."""

    def __init__(self, model: PriceModel, precision: str, device: torch.device) -> None:
        super().__init__()
        self.model = model
        self.precision = precision
        self.device_type = device.type

    def autocast(self) -> Any:
        """Return the context of the forward pass."""
        dtype = DTYPES.get(self.precision)
        return torch.autocast(self.device_type, dtype) if dtype else nullcontext()

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss of a batch, a scalar."""
        with self.autocast():
            return self.model.training_loss(**batch)


class Stepper:
    """Takes optimizer steps: accumulation, loss scaling, clipping, and smaller pieces when memory runs out.

    Attributes:
        guard: finds gradients that are not finite.
        parts: pieces of each micro-batch; 1 until memory runs out.
        skipped: consecutive steps that loss scaling skipped.
    """

    def __init__(
        self,
        model: PriceModel,
        optimizer: torch.optim.Optimizer,
        config: RunConfig,
        precision: str,
        device: torch.device,
        processes: int = 1,
    ) -> None:
        self.objective = Objective(model, precision, device)
        self.call: nn.Module = self.objective
        if processes > 1:
            with naming_lost_processes():
                self.call = DistributedDataParallel(self.objective)
            # Otherwise each step sends all buffers. They are only read in a validation, which sends them, too.
            self.call.broadcast_buffers = False
            self.call.register_comm_hook(torch.distributed.group.WORLD, mean_gradient)
        self.optimizer = optimizer
        self.config = config
        self.processes = processes
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        self.guard = GradientGuard(model, config, device, processes)
        self.parts = 1
        self.skipped = 0

    @property
    def precision(self) -> str:
        """The precision of matrix products: fp32, bf16 or fp16."""
        return self.objective.precision

    def state_dict(self) -> dict[str, Any]:
        """Return the JSON values for `load_state_dict`; the scaler has its own state."""
        return {"parts": self.parts, "skipped": self.skipped, "precision": self.precision}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint; a run that left fp16 stays in fp32."""
        self.parts, self.skipped = state["parts"], state["skipped"]
        if self.scaler.is_enabled() and state["precision"] == "fp32":
            self._leave_fp16()

    def take(self, batches: Sequence[tuple[int, Batch, float]], step: int) -> Tensor | None:
        """Take one optimizer step; return the mean loss of this process's rows times their share, a scalar.

        Return None for a skipped step: its gradients overflowed fp16.

        Args:
            batches: number in the step, tensors, and share of the step's rows of each micro-batch.
            step: optimizer steps before this one.

        Raises:
            TrainingError: memory ran out, too many consecutive steps overflowed, or a gradient is not finite.
        """
        while True:
            try:
                with naming_lost_processes():
                    loss = self._backward(batches, step)
                break
            except LostProcessError:
                raise
            except Exception as error:  # of any plugin
                if not lacks_memory(error):
                    self.guard.explain(step)
                    self._blame(error)
                    raise
                self._halve(max(len(batch["price"]) for _, batch, _ in batches))
        scale = self.scaler.get_scale()
        self._update_weights(step + 1, loss, [batch for _, batch, _ in batches])
        self.optimizer.zero_grad(set_to_none=self.config.speed.zero_grad_set_to_none)
        if self.scaler.is_enabled() and self.scaler.get_scale() < scale:
            self._skip()
            return None
        self.skipped = 0
        return loss

    def _update_weights(self, step: int, loss: Tensor, batches: Sequence[Batch]) -> None:
        most = self.config.training.max_grad_norm
        try:
            watched = not self.scaler.is_enabled()  # the scaler skips what is not finite
            if most is not None or (watched and self.guard.is_due(step, loss)):
                self.scaler.unscale_(self.optimizer)
                gradients = self.guard.gradients()
                norms = gradient_norms(gradients.values())
                if watched:
                    self.guard.watch(step, gradients, norms, loss, batches)
                if most is not None:
                    clip_gradients(gradients.values(), norms, most)
            with plugin_call("policy", self.config.policy.name, "taking an optimizer step"):
                self.scaler.step(self.optimizer)
            self.scaler.update()
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            # A part of the weights may be updated already, so the step cannot be repeated.
            raise TrainingError(
                "out of memory in the optimizer, whose state takes as much memory as the weights or twice as much; "
                "choose a smaller backbone, or free memory. The last checkpoint is kept: resume to continue",
                parameters=("backbone", "resume"),
            ) from error

    def _backward(self, batches: Sequence[tuple[int, Batch, float]], step: int) -> Tensor:
        device = next(self.objective.parameters()).device
        total = torch.zeros((), device=device)
        last = len(batches) - 1
        for place, (number, batch, share) in enumerate(batches):
            pieces = list(_pieces(batch, self.parts))
            for index, (piece, part) in enumerate(pieces):
                # Dropout depends only on the run's seed, the step and the position in it, so a resumed run, or one with
                # more processes, repeats it.
                seed_torch(random_seed(self.config.seed, step, number, index), device)
                more = place < last or index < len(pieces) - 1
                call = self.call
                with call.no_sync() if more and isinstance(call, DistributedDataParallel) else nullcontext():
                    loss = self.call(piece) * (share * part)
                    # Processes average their gradients; a step sums those of its micro-batches.
                    self.scaler.scale(loss * self.processes).backward()
                total += loss.detach()
        return total

    def _blame(self, error: Exception) -> None:
        """Raise PluginError for an exception that does not say whose it is: one of a gradient."""
        if isinstance(error, PricekitError):
            return
        raise_outside_cause(error)
        config = self.config
        raise PluginError(
            f"computing a gradient failed: {type(error).__name__}: {shorten(str(error), 300)}. It comes from the "
            f"backbone '{config.backbone.name}' or the loss '{config.loss.name}'. Choose others, or report it to the "
            "plugin's author",
            parameters=("backbone", "loss"),
        ) from error

    def _halve(self, rows: int) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if self.processes > 1 or 2 * self.parts > rows // 2:
            raise TrainingError(
                f"out of memory with micro-batches of {-(-rows // self.parts)} rows; lower training.batch_size or "
                "max_length, or set speed.gradient_checkpointing to true. The last checkpoint is kept: resume to "
                "continue",
                parameters=("settings", "max_length", "resume"),
            )
        self.parts *= 2
        logger.warning(
            f"out of memory: each micro-batch is now computed in {self.parts} pieces; an optimizer step still has "
            "the same rows"
        )

    def _skip(self) -> None:
        self.skipped += 1
        if self.skipped < MAX_SKIPPED:
            return
        if self.config.speed.precision != "auto":
            raise TrainingError(
                f"{self.skipped} consecutive steps overflowed fp16; set speed.precision to bf16 or fp32, lower "
                "training.learning_rate, or set training.max_grad_norm to 1.0. Earlier checkpoints are kept",
                parameters=("settings",),
            )
        self._leave_fp16()
        logger.warning(f"{MAX_SKIPPED} consecutive steps overflowed fp16; training continues in fp32")

    def _leave_fp16(self) -> None:
        # `auto` chose fp16, so the device has no bf16.
        self.objective.precision = "fp32"
        self.scaler = torch.amp.GradScaler(self.objective.device_type, enabled=False)
        self.skipped = 0


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the random numbers of operations on a device.

    `torch.manual_seed` seeds every kind of device. For a GPU that no one uses it notes the call, with its traceback,
    until someone does: a millisecond, and some memory, for each call.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def random_seed(seed: int, step: int, number: int, piece: int = 0) -> int:
    """Return the seed of a piece of the micro-batch `number` of an optimizer step, in a run with a seed."""
    return zlib.crc32(f"{seed}/{step}/{number}/{piece}".encode())


def _pieces(batch: Batch, parts: int) -> Iterator[tuple[Batch, float]]:
    """Yield a batch in at most `parts` pieces, each with its share of the rows.

    No piece is a single row if the batch has more, because batch normalisation cannot train on one row.
    """
    if parts == 1:
        yield batch, 1.0
        return
    rows = len(batch["price"])
    # The tensors of `prepare_batch` are dropped, because they belong to the whole batch.
    cut = {name: batch[name].tensor_split(max(1, min(parts, rows // 2))) for name in _BY_ROW if name in batch}
    for values in zip(*cut.values(), strict=True):
        piece = dict(zip(cut, values, strict=True))
        yield piece, len(piece["price"]) / rows


def clip_gradients(gradients: Collection[Tensor], norms: Tensor, max_norm: float) -> None:
    """Scale dense and sparse gradients by one factor, so that their joint norm is at most `max_norm`.

    Args:
        gradients: P of them.
        norms: of each gradient, (P,).
        max_norm: above 0.
    """
    factor = (max_norm / (torch.linalg.vector_norm(norms) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([g for g in gradients if not g.is_sparse], factor)
    for gradient in gradients:
        if gradient.is_sparse:
            gradient.mul_(factor)
