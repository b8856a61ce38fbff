"""An Adam that touches only the embedding rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor


class LazyAdamW(torch.optim.Optimizer):
    """AdamW for dense gradients, the same lazily for sparse ones.

    Rows of a sparse gradient that are zero keep weights and moments as they are, as in torch's
    SparseAdam; so a step costs what the batch touched and not the size of the table. Weight decay is
    decoupled (Loshchilov & Hutter 2019, arXiv:1711.05101) and reaches the touched rows only.

    Args:
        params: parameters or groups of them.
        lr: learning rate.
        betas: decay of the running mean of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: share of lr by which weights shrink a step.
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
                    self._update(parameter, group)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state |= {
                "step": 0,
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        state["step"] += 1
        grad = parameter.grad
        assert grad is not None  # the caller checked
        if not grad.is_sparse:
            parameter.copy_(
                _adamw(parameter, grad, state["exp_avg"], state["exp_avg_sq"], state["step"], group)
            )
            return
        grad = grad.coalesce()
        rows = grad.indices()[0]
        mean, square = state["exp_avg"][rows], state["exp_avg_sq"][rows]
        parameter[rows] = _adamw(parameter[rows], grad.values(), mean, square, state["step"], group)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square


def _adamw(
    value: Tensor, grad: Tensor, mean: Tensor, square: Tensor, step: int, group: dict[str, Any]
) -> Tensor:
    """Return the new value; updates both moments in place."""
    beta1, beta2 = group["betas"]
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
    decayed = value * (1 - group["lr"] * group["weight_decay"])
    return cast(Tensor, decayed.addcdiv_(mean, denominator, value=-group["lr"] / (1 - beta1**step)))
