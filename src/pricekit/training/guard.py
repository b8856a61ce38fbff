"""Values that are not finite: found in gradients before they reach the weights, and in whatever a checkpoint stores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from pricekit.config import RunConfig
from pricekit.errors import TrainingError
from pricekit.nets.network import PriceModel
from pricekit.training.batches import Batch

MOST_UNREAD = 256
"""Steps on a GPU after which their norms are read, which waits for the GPU."""

CHECK_EVERY = 16
"""On a CPU without clipping, all gradients are checked once in this many steps."""

ADVICE = (
    "Train again with a lower training.learning_rate, with training.max_grad_norm=1.0, or with "
    "training.retry_after_spike=true. The last checkpoint is kept, and contains only finite values"
)


class SpikeError(TrainingError):
    """A loss, a gradient, a weight or a price is no longer finite."""


def spike(problem: str) -> SpikeError:
    """Return the error for a value that is not finite, with advice."""
    return SpikeError(f"{problem}. {ADVICE}", parameters=("settings",))


class GradientGuard:
    """Checks gradients: at once on a CPU, and some steps later on a GPU, to avoid waiting for it.

    Clipping needs the norm of every gradient, so it checks all of them. Without clipping, to sum up all of them in each
    step would take two percent of a small model's training. So a CPU checks the loss of each step, and all gradients
    every `CHECK_EVERY` steps. A weight that becomes infinite or NaN in between makes the next loss so; a row of an
    embedding is found when a batch has it again, or before the next checkpoint.

    Args:
        model: the model in training.
        config: of the run; names the plugins.
        device: of the model.
        processes: that train together; with several, all must find a gradient in the same step.
    """

    def __init__(
        self, model: PriceModel, config: RunConfig, device: torch.device, processes: int = 1
    ) -> None:
        self.model = model
        self.config = config
        self.waits = device.type != "cpu"
        self.alone = processes == 1
        self.named = list(model.named_parameters())
        self.unread: list[tuple[int, Tensor, Tensor, list[str]]] = []

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients by the name of their parameter."""
        return {name: parameter.grad for name, parameter in self.named if parameter.grad is not None}

    def is_due(self, step: int, loss: Tensor) -> bool:
        """Return whether a step that does not clip its gradients has them checked.

        Args:
            step: counted from 1.
            loss: of the step, a scalar.
        """
        often = self.waits or not self.alone
        return often or step % CHECK_EVERY == 0 or not math.isfinite(loss.item())

    def watch(
        self,
        step: int,
        gradients: Mapping[str, Tensor],
        norms: Tensor,
        loss: Tensor,
        batches: Sequence[Batch],
    ) -> None:
        """Check the norms of a step's gradients, on a GPU some steps later.

        Args:
            step: counted from 1.
            gradients: by the name of their parameter.
            norms: of each gradient, (P,).
            loss: of the step, a scalar.
            batches: of the step, to find the cause.

        Raises:
            SpikeError: a norm is not finite.
        """
        self.unread.append((step, norms, loss, list(gradients)))
        if not self.waits:
            self.read(batches)
        elif len(self.unread) >= MOST_UNREAD:
            self.read()

    def explain(self, step: int) -> None:
        """Raise SpikeError if an earlier step left a value that is not finite: a plugin may have refused it now.

        Args:
            step: the last one that was taken.
        """
        self.read()
        check_finite(step, self.model, None, None, self.config)

    def read(self, batches: Sequence[Batch] = ()) -> None:
        """Check the norms that were remembered; raises SpikeError, whose cause is found in batches of the last step."""
        unread, self.unread = self.unread, []
        if unread and not bool(torch.cat([norms for _, norms, _, _ in unread]).isfinite().all()):
            for step, norms, loss, names in unread:
                if not bool(norms.isfinite().all()):
                    raise self._error(step, norms, loss, names, batches)

    def _error(
        self, step: int, norms: Tensor, loss: Tensor, names: Sequence[str], batches: Sequence[Batch]
    ) -> SpikeError:
        wrong = [name for name, norm in zip(names, norms.tolist(), strict=True) if not math.isfinite(norm)]
        try:
            cause = _cause(self.model, self.config, batches)
        except (RuntimeError, MemoryError):  # such as full memory: the error is reported without it
            cause = ""
        if math.isfinite(float(loss)):
            # The parameter that comes last in the forward pass: gradients flow from there to the others.
            order = ["loss", "heads", "numeric", "encoder"]
            parts = [*order, *(name.partition(".")[0] for name in wrong)]
            last = min(wrong, key=lambda name: parts.index(name.partition(".")[0]))
            cause = cause or _owner(last, self.config)
            return spike(
                f"the gradient of step {step} is not finite, though its loss is {float(loss):.4g}. It comes from "
                f"{cause}; first parameter: {wrong[0]}"
            )
        cause = cause or f"the loss '{self.config.loss.name}'"
        return spike(f"the loss of step {step} is not finite. It comes from {cause}")


def _owner(name: str, config: RunConfig) -> str:
    """Describe the part of the model that contains a parameter."""
    part = name.partition(".")[0]
    if part == "encoder":
        return f"the backbone '{config.backbone.name}'"
    return (
        f"the loss '{config.loss.name}'" if part == "loss" else f"the head, or the loss '{config.loss.name}'"
    )


def _culprit(config: RunConfig) -> str:
    """Describe what may have changed weights: with clipping, all gradients were finite."""
    policy = f"the policy '{config.policy.name}'"
    return policy if config.training.max_grad_norm is not None else f"a gradient or {policy}"


@torch.no_grad()
def _cause(model: PriceModel, config: RunConfig, batches: Sequence[Batch]) -> str:
    """Compute the parts of the model again; return the first whose result is not finite, "" for none.

    Without batches nothing is computed: on a GPU, later steps have already changed the weights.
    """
    for name, parameter in model.named_parameters() if batches else ():
        if not _is_finite(parameter):
            owner = _owner(name, config)
            return f"the weights of {owner} ({name}), which {_culprit(config)} changed in an earlier step"
    for batch in batches:
        ids, mask, features, price = (
            batch[name] for name in ("input_ids", "attention_mask", "features", "price")
        )
        if not _is_finite(features):
            return f"the features {', '.join(config.features)}"
        if not _is_finite(price):
            return "the prices of the training rows"
        if not _is_finite(model.encoder(ids, mask)):
            return f"the backbone '{config.backbone.name}', whose encoding is not finite"
        raw = model.raw(ids, mask, features)
        if not _is_finite(raw):
            return "the head, whose output is not finite"
        with torch.enable_grad():
            raw = raw.detach().requires_grad_()
            loss = model.loss(raw, price[:, None].expand_as(raw))
            (gradient,) = torch.autograd.grad(loss, raw)
        if not (_is_finite(loss) and _is_finite(gradient)):
            return f"the loss '{config.loss.name}', for finite outputs of the model"
    return ""


def _is_finite(tensor: Tensor) -> bool:
    """Return whether all values are finite; a sum is quick, but may overflow."""
    if not tensor.is_floating_point():
        return True
    tensor = tensor.detach()
    return math.isfinite(float(tensor.sum())) or bool(tensor.isfinite().all())


def check_finite(
    step: int,
    model: nn.Module,
    average: nn.Module | None,
    optimizer: torch.optim.Optimizer | None,
    config: RunConfig,
) -> None:
    """Raise SpikeError if a weight, an average or the optimizer's state is not finite, so it must not be saved.

    Buffers may be infinite, such as a mask of -inf, but not NaN.

    Args:
        step: the last one that was taken.
        model: the model in training.
        average: moving average of its weights.
        optimizer: of the model.
        config: of the run; names the plugins.
    """
    for kind, module in (("weights", model), ("averaged weights", average)):
        for name, value in () if module is None else _values(module):
            if not _is_finite(value):
                plain = name.removeprefix("module.")
                raise spike(
                    f"after step {step}, the {kind} of {_owner(plain, config)} are not finite ({plain}); "
                    f"{_culprit(config)} changed them. They are not saved"
                )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for parameter, state in optimizer.state.items() if optimizer else ():
        for value in state.values():
            if isinstance(value, Tensor) and not _is_finite(value):
                name = names.get(id(parameter), "")
                raise spike(
                    f"after step {step}, the optimizer of the policy '{config.policy.name}' has a state that is not "
                    f"finite, for {_owner(name, config)} ({name}). It is not saved"
                )


def _values(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """Yield the parameters of a module, and the buffers that contain NaN."""
    yield from module.named_parameters()
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point() and bool(buffer.sum().isnan()) and bool(buffer.isnan().any()):
            yield name, buffer


def gradient_norms(gradients: Iterable[Tensor]) -> Tensor:
    """Return the norm of each gradient, dense or sparse, float32 (P,)."""
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    return torch.stack(torch._foreach_norm(values))
