import math

import pytest
import torch
from torch import nn

from pricekit.config import HeadConfig
from pricekit.nets.losses import smape
from pricekit.nets.network import BOUND, PriceModel, build_head


class Sums(nn.Module):
    """A toy encoder: the sum of the ids that are not masked, times 1 for the first member and 10 for the second."""

    hidden_size, members = 2, 2

    def forward(self, input_ids, attention_mask):
        total = (input_ids * attention_mask).sum(1, keepdim=True).float()
        return torch.cat([total, 10 * total], 1)


@pytest.fixture
def model():
    made = PriceModel(Sums(), HeadConfig(), smape(), features=1)
    for head in made.heads:
        nn.init.ones_(head[-1].weight)
        nn.init.zeros_(head[-1].bias)
    made.fit(torch.tensor([[0.0], [math.expm1(2.0)]]), torch.tensor([1.0, 100.0]))
    return made


def test_raw_by_hand(model):
    ids, mask = torch.tensor([[1, 2, 9], [3, 4, 5]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    # log(1 + x) of the features was 0 and 2, mean 1 and sd 1; 1e9 is clamped
    raw = model.raw(ids, mask, torch.tensor([[math.expm1(3.0)], [1e9]]))
    expected = torch.tensor([[3 + 2, 30 + 2], [12 + BOUND, 120 + BOUND]])
    assert torch.allclose(raw, expected)


def test_the_price_is_the_mean_member_through_the_link(model):
    ids, features = torch.zeros(1, 1, dtype=torch.int64), torch.tensor([[math.expm1(1.0)]])
    assert model(ids, ids, features).tolist() == pytest.approx([10.0])  # exp of the mean log price


def test_a_share_of_the_price_is_the_estimate_of_a_feature(model):
    ids, features = torch.zeros(1, 1, dtype=torch.int64), torch.tensor([[math.expm1(1.0)]])
    model.estimate = 0
    assert model(ids, ids, features).tolist() == pytest.approx([10.0])
    model.estimate_share = 0.25
    expected = math.exp(0.75 * math.log(10.0) + 0.25 * math.expm1(1.0))
    assert model(ids, ids, features).tolist() == pytest.approx([expected])


def test_each_member_has_its_own_loss(model):
    ids, features = torch.ones(1, 1, dtype=torch.int64), torch.tensor([[math.expm1(1.0)]])
    price = torch.tensor([10.0])
    expected = (model.loss(torch.tensor([1.0]), price) + model.loss(torch.tensor([10.0]), price)) / 2
    assert model.training_loss(ids, ids, features, price).item() == pytest.approx(expected.item())


def test_a_constant_feature_has_no_effect():
    model = PriceModel(Sums(), HeadConfig(), smape(), features=2)
    model.fit(torch.tensor([[5.0, 1.0], [5.0, 3.0]]), torch.tensor([1.0, 2.0]))
    ids = torch.zeros(1, 1, dtype=torch.int64)
    assert model(ids, ids, torch.tensor([[5.0, 2.0]])).isfinite().all()


@pytest.mark.parametrize(
    ("norm", "activation", "layers"),
    [
        ("layer", "gelu", [nn.Linear, nn.LayerNorm, nn.GELU, nn.Dropout, nn.Linear]),
        ("batch", "relu", [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout, nn.Linear]),
        ("none", "relu", [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]),
    ],
)
def test_head_blocks(norm, activation, layers):
    head = build_head(5, HeadConfig(widths=[3], dropout=[0.2], norm=norm, activation=activation))
    assert [type(layer) for layer in head] == layers
    assert (head[0].in_features, head[-1].in_features, head[-1].out_features) == (5, 3, 1)
