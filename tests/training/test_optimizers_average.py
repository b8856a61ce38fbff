"""The moving average of the weights."""

import pytest
import torch
from torch import nn

from pricekit.training.optimizers import averaged


def _after(values, decay):
    model = nn.Linear(1, 1, bias=False)
    model.register_buffer("seen", torch.tensor(0))
    average = averaged(model, decay)
    for number, value in enumerate(values):
        with torch.no_grad():
            model.weight.fill_(value)
            model.seen.fill_(number)
        average.update_parameters(model)
    return average.module


def test_the_first_step_replaces_the_average_and_later_steps_weigh_less():
    kept = 1.0
    for steps, value in enumerate([2.0, 3.0, 5.0], start=1):
        share = (1 + steps) / (10 + steps)
        kept = share * kept + (1 - share) * value
    assert _after([1.0, 2.0, 3.0, 5.0], 0.999).weight.item() == pytest.approx(kept)


def test_a_long_training_uses_the_configured_decay():
    values = [0.0] * 50 + [1.0]
    assert _after(values, 0.5).weight.item() == pytest.approx(0.5)
    assert _after(values, 0.999).weight.item() == pytest.approx(9 / 60)


def test_whole_numbers_are_copied_not_averaged():
    assert _after([1.0, 2.0, 3.0], 0.9).seen.item() == 2
