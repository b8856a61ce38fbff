"""Row-wise Adagrad: an optimizer for models that are mostly embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw


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
    sums = state["sum"][:, 0]
    total = sums[rows].add_(torch.linalg.vecdot(of_rows, of_rows), alpha=1 / of_rows.shape[1])
    sums[rows] = total
    rate = total.sqrt_().add_(group["eps"]).reciprocal_().mul_(-group["lr"])
    value.add_(_sparse(grad.indices(), of_rows * rate[:, None], grad))


def _coalesced(grad: Tensor) -> Tensor:
    """Return a gradient with each row once; sorting is for those whose rows do not ascend."""
    indices = grad._indices()
    if grad.is_coalesced() or not bool((indices[0, 1:] > indices[0, :-1]).all()):
        return grad.coalesce()
    return _sparse(indices, grad._values(), grad)


def _sparse(indices: Tensor, values: Tensor, like: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(indices, values, like.shape, is_coalesced=True, check_invariants=False)


def _adamw(values: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """Update dense parameters, all by one call."""
    for value, state in zip(values, states, strict=True):
        if not state:
            state |= {"step": 0, "exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
        # A number in a new state and in checkpoints of version 0.1.
        state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=value.device)
    means, squares, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
    adamw(
        values,
        [value.grad for value in values if value.grad is not None],
        means,
        squares,
        [],
        steps,
        fused=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )
