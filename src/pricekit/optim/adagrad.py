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
            found = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in found:
                if parameter.grad.is_sparse:
                    _adagrad_rows(parameter, parameter.grad, self.state[parameter], group)
            if dense := [parameter for parameter in found if not parameter.grad.is_sparse]:
                _adamw(dense, [self.state[parameter] for parameter in dense], group)


def _adagrad_rows(value: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    if not state:
        state["sum"] = torch.zeros(len(value), 1, device=value.device)
    grad = _coalesced(grad)
    rows, of_rows = grad.indices()[0], grad.values()
    total = state["sum"][rows] + of_rows.square().mean(1, keepdim=True)
    state["sum"][rows] = total
    value.add_(_sparse(grad.indices(), of_rows / (total.sqrt_() + group["eps"]), grad), alpha=-group["lr"])


def _coalesced(grad: Tensor) -> Tensor:
    """Return a gradient with each row once; sorting is for those whose rows do not ascend."""
    indices = grad._indices()
    if grad.is_coalesced() or not bool((indices[0, 1:] > indices[0, :-1]).all()):
        return grad.coalesce()
    return _sparse(indices, grad._values(), grad)


def _sparse(indices: Tensor, values: Tensor, like: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, like.shape, is_coalesced=True, check_invariants=False)


def _adamw(values: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Update dense parameters, all by the same few calls."""
    beta1, beta2 = group["betas"]
    for value, state in zip(values, states, strict=True):
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
        state["step"] += 1
    grads = [value.grad for value in values if value.grad is not None]
    means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
    torch._foreach_lerp_(means, grads, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
    denominators = torch._foreach_div(squares, [1 - beta2 ** state["step"] for state in states])
    torch._foreach_sqrt_(denominators)
    torch._foreach_add_(denominators, group["eps"])
    torch._foreach_mul_(values, 1 - group["lr"] * group["weight_decay"])
    rates = [-group["lr"] / (1 - beta1 ** state["step"]) for state in states]
    torch._foreach_addcdiv_(values, means, denominators, rates)
