"""The scale of a loss and the norm at which its gradients are clipped."""

import copy

import pytest
import torch
from torch import nn

from pricekit.config import TrainingConfig
from pricekit.training.guard import gradient_norms
from pricekit.training.optimizers import adamw
from pricekit.training.step import clip_gradients


def trained(model, scale, most):
    """Return a copy of a model after eight steps on a loss times `scale`, clipped at `most`."""
    model = copy.deepcopy(model)
    optimizer = adamw(model, TrainingConfig(learning_rate=0.05, weight_decay=0.01), fused=False)
    for step in range(8):
        optimizer.zero_grad()
        rows = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
        (scale * (model(rows) - rows.sum(1, keepdim=True) * 0.03 * step).square().mean()).backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        clip_gradients(gradients, gradient_norms(gradients), most)
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_hundredfold_loss_clipped_at_1_is_the_loss_clipped_at_a_hundredth():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    published = trained(model, 100.0, 1.0)
    assert published.numpy() == pytest.approx(trained(model, 1.0, 0.01).numpy(), abs=1e-3)  # but for epsilons
    assert (published - trained(model, 1.0, 1.0)).abs().max() > 0.02
