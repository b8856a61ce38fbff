"""Row-wise Adagrad: an optimizer for models that are mostly embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class RowwiseAdagrad(torch.optim.Optimizer):
    """Row-wise Adagrad for sparse gradients, AdamW for dense ones.

    A sparse gradient is that of an embedding: only rows of the batch are read or written, so a step
    costs what the batch touched and not the size of the table, and each row keeps one number of
    state, the sum of the mean squares of its gradients (Adagrad: Duchi et al. 2011; one sum a row as
    in FBGEMM's row-wise Adagrad). Dense parameters follow AdamW (Loshchilov & Hutter 2019,
    arXiv:1711.05101); weight decay reaches them alone.

    Args:
        params: parameters, or groups with an `lr` of their own.
        lr: learning rate.
        betas: AdamW's decay of the running mean of the gradient and of its square.
        eps: added to the denominators.
        weight_decay: share of lr by which dense weights shrink a step.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update = _adagrad_rows if parameter.grad.is_sparse else _adamw
                    update(parameter, parameter.grad, self.state[parameter], group)


def _adagrad_rows(value: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:
        state["sum"] = torch.zeros(len(value), 1, device=value.device)
    grad = grad.coalesce()
    rows, of_rows = grad.indices()[0], grad.values()
    total = state["sum"][rows] + of_rows.square().mean(1, keepdim=True)
    state["sum"][rows] = total
    value.index_add_(0, rows, of_rows / (total.sqrt() + group["eps"]), alpha=-group["lr"])


def _adamw(value: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:
        state |= {"step": 0, "exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
    beta1, beta2 = group["betas"]
    state["step"] += 1
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (square / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
    value.mul_(1 - group["lr"] * group["weight_decay"])
    value.addcdiv_(mean, denominator, value=-group["lr"] / (1 - beta1 ** state["step"]))
