"""The optimizers and the learning-rate schedule of the built-in policies, and the average of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from pricekit.config import TrainingConfig


class RowwiseAdagrad(torch.optim.AdamW):
    """Row-wise Adagrad for sparse gradients, AdamW for dense ones.

    Sparse gradients come from embeddings. A step reads and writes only the rows of the batch, so its cost does not
    depend on the size of the table. The state of a row is one number, the sum of the mean squares of its gradients
    (Adagrad: Duchi et al. 2011; one sum per row as in FBGEMM's row-wise Adagrad). Dense parameters follow AdamW
    (Loshchilov & Hutter 2019, arXiv:1711.05101). Weight decay applies only to them.

    Args:
        params: parameters, or groups with their own `lr`.
        lr: learning rate.
        betas: AdamW's decay of the running mean of the gradient and of its square.
        eps: added to the denominators.
        weight_decay: share of lr by which dense weights shrink per step.
    """

    # Torch wraps these so that its compiler leaves them alone, and imports the compiler for it: a second of CPU.
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)
    _step_dense = unwrap(torch.optim.AdamW.step)
    __setstate__ = (
        torch.optim.Optimizer.__setstate__
    )  # that of AdamW expects the state of dense parameters alone

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=True)
        self._step_supports_amp_scaling = False  # the scaler itself unscales gradients and skips steps

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    _adagrad_rows(parameter, parameter.grad, self.state[parameter], group)
                    parameter.grad = None
        self._step_dense()


def _adagrad_rows(value: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:
        state["sum"] = torch.zeros(len(value), 1, device=value.device)
    grad = coalesced(grad)
    rows, of_rows = grad.indices()[0], grad.values()
    sums = state["sum"][:, 0]
    total = sums[rows].add_(torch.linalg.vecdot(of_rows, of_rows), alpha=1 / of_rows.shape[1])
    sums[rows] = total
    rate = total.sqrt_().add_(group["eps"]).reciprocal_().mul_(-group["lr"])
    value.add_(sparse_rows(grad.indices(), of_rows * rate[:, None], grad))


def coalesced(grad: Tensor) -> Tensor:
    """Return a gradient with each row once; it is sorted only if its rows do not ascend."""
    indices = grad._indices()
    if grad.is_coalesced() or not bool((indices[0, 1:] > indices[0, :-1]).all()):
        return grad.coalesce()
    return sparse_rows(indices, grad._values(), grad)


def sparse_rows(indices: Tensor, values: Tensor, like: Tensor) -> Tensor:
    """Return a sparse gradient of the shape of another one, from ascending rows."""
    return torch.sparse_coo_tensor(indices, values, like.shape, is_coalesced=True, check_invariants=False)


_NORMS = (nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm)


def adamw(model: nn.Module, training: TrainingConfig, *, fused: bool = True) -> torch.optim.Optimizer:
    """Return AdamW over `parameter_groups`; embeddings with sparse gradients use row-wise Adagrad.

    Source: Loshchilov & Hutter 2019, arXiv:1711.05101.

    Args:
        model: all of its trainable parameters are optimized.
        training: provides the learning rates and the weight decay.
        fused: use torch's fused AdamW.
    """
    groups = parameter_groups(model, training)
    if sparse_embeddings(model):
        return RowwiseAdagrad(groups, lr=training.learning_rate, weight_decay=training.weight_decay)
    return torch.optim.AdamW(
        groups, lr=training.learning_rate, weight_decay=training.weight_decay, fused=fused
    )


def warmup_cosine(step: float, warmup_steps: int, total_steps: int) -> float:
    """Return the factor of the learning rate, 0 to 1: a linear warmup, then a cosine down to 0.

    The cosine is 0.5·(1 + cos(π·t)), where t is the finished share of the steps after the warmup: SGDR without
    restarts, Loshchilov & Hutter 2017, arXiv:1608.03983.

    Example:
        >>> [round(warmup_cosine(step, warmup_steps=2, total_steps=6), 2) for step in range(7)]
        [0.5, 1.0, 1.0, 0.85, 0.5, 0.15, 0.0]
    """
    if step < warmup_steps:
        return min(1.0, (step + 1) / warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, total_steps - warmup_steps)))


def parameter_groups(model: nn.Module, training: TrainingConfig) -> list[dict[str, Any]]:
    """Return the trainable parameters as groups, each with its `lr` and `weight_decay`.

    Layer i of the encoder's n layers has the rate learning_rate · layer_decay^(n - 1 - i) (Howard & Ruder 2018,
    arXiv:1801.06146), and the rest of the encoder learning_rate. The head has head_learning_rate and the token
    embeddings embedding_learning_rate, if these are set. Biases and norms have no weight decay unless
    `decay_biases_and_norms` is set.
    """
    rates = _rates(model, training)
    undecayed = set() if training.decay_biases_and_norms else _biases_and_norms(model)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            decay = 0.0 if id(parameter) in undecayed else training.weight_decay
            groups.setdefault((rates[id(parameter)], decay), []).append(parameter)
    return [{"params": same, "lr": rate, "weight_decay": decay} for (rate, decay), same in groups.items()]


def _rates(model: nn.Module, training: TrainingConfig) -> dict[int, float]:
    """Return the learning rate of each parameter by its id."""
    encoder, base = getattr(model, "encoder", nn.Module()), training.learning_rate
    rates = {id(p): training.head_learning_rate or base for p in model.parameters()}
    rates |= {id(p): base for p in encoder.parameters()}
    for depth, layer in enumerate(reversed(list(getattr(encoder, "layers", ())))):
        rates |= {id(p): base * training.layer_decay**depth for p in layer.parameters()}
    if training.embedding_learning_rate is not None:
        table = getattr(encoder, "embedding", nn.Module())
        embeddings = [*sparse_embeddings(model), *table.parameters()]
        rates |= {id(p): training.embedding_learning_rate for p in embeddings}
    return rates


def sparse_embeddings(model: nn.Module) -> list[Tensor]:
    """Return the weights of embeddings with sparse gradients, such as those of `bag`."""
    return [m.weight for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse]


def _biases_and_norms(model: nn.Module) -> set[int]:
    norms = {id(p) for m in model.modules() if isinstance(m, _NORMS) for p in m.parameters()}
    return norms | {id(p) for name, p in model.named_parameters() if name.endswith("bias")}


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """Return a moving average of a model's weights and buffers; call `update_parameters(model)` after each step.

    At step n the average retains a share of min(decay, (1 + n) / (10 + n)). So the initial weights have little effect
    on a short training. TensorFlow's ExponentialMovingAverage has this warmup as `num_updates`.

    Args:
        model: the model to average.
        decay: share of the average that a step retains, above 0 and below 1.
    """

    def average(averages: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        if not averages[0].is_floating_point():
            torch._foreach_copy_(averages, current)
            return
        # A tensor, so nothing waits for the GPU.
        weight = (9 / (10 + steps)).clamp(min=1 - decay).to(averages[0].dtype)
        torch._foreach_lerp_(averages, current, [weight] * len(averages))

    return AveragedModel(model, multi_avg_fn=average, use_buffers=True)  # type: ignore[arg-type]
