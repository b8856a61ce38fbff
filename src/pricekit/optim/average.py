"""The exponential moving average of the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """Return a moving average of a model's weights and buffers; call `update_parameters(model)` after each step.

    At step n the average keeps min(decay, (1 + n) / (10 + n)) of itself. So the initial weights have little effect on
    a short training. TensorFlow's ExponentialMovingAverage has this warmup as `num_updates`.

    Args:
        model: to average.
        decay: share that the average keeps in a step, above 0 and below 1.
    """

    def average(kept: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        if not kept[0].is_floating_point():
            torch._foreach_copy_(kept, current)
            return
        share = (
            (9 / (10 + steps)).clamp(min=1 - decay).to(kept[0].dtype)
        )  # a tensor, so nothing waits for the GPU
        torch._foreach_lerp_(kept, current, [share] * len(kept))

    return AveragedModel(model, multi_avg_fn=average, use_buffers=True)  # type: ignore[arg-type]
