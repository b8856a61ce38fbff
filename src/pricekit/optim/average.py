"""The exponential moving average of the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """Return the moving average of `model`, its buffers included; `update_parameters(model)` after each step.

    After n steps an average keeps min(decay, (1 + n) / (10 + n)) of itself, so that a short training is
    not averaged with weights it began from (the warm-up that TensorFlow's ExponentialMovingAverage has
    under the name `num_updates`).
    """

    def average(kept: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        if not kept[0].is_floating_point():
            torch._foreach_copy_(kept, current)
            return
        share = (9 / (10 + steps)).clamp(min=1 - decay).to(kept[0].dtype)  # a tensor: nothing waits for a GPU
        torch._foreach_lerp_(kept, current, [share] * len(kept))

    return AveragedModel(model, multi_avg_fn=average, use_buffers=True)  # type: ignore[arg-type]
