"""Backbone `mlp`: prices depend on the features and on nothing else."""

import pytest
import torch

from pricekit.config import HeadConfig
from pricekit.core.loader import registry
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel


@pytest.fixture
def model():
    torch.manual_seed(0)
    backbone = registry().create("backbone", "mlp")
    tokenizer = backbone.tokenizer([])
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, None)
    head = HeadConfig(widths=[16], dropout=[0.0], norm="none")
    return PriceModel(encoder, head, smape(), 2).eval()


@pytest.mark.parametrize("text", ["tea", "Item Name: Green Tea, 12 oz\nBullet: 茶", "[PAD]", " "])
def test_each_text_is_one_token(text):
    tokenizer = registry().create("backbone", "mlp").tokenizer(["Item Name: tea"])
    assert len(tokenizer.encode(text).ids) == 1


@torch.no_grad()
def test_prices_depend_on_the_features_alone(model):
    tokens = torch.ones(3, 4, dtype=torch.int64)
    features = torch.tensor([[1.0, 2.0], [1.0, 2.0], [5.0, 2.0]])
    prices = model(tokens, tokens, features)
    assert torch.equal(model(tokens[:, :1] * 0, tokens[:, :1], features), prices)
    assert prices[0] == prices[1]
    assert abs(prices[0] / prices[2] - 1) > 0.01


def test_it_learns_a_price_from_the_features(model):
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(64, 2, generator=generator) * 9
    price = (features[:, 0] - 4).exp()
    model.fit(features, price.double())
    tokens = torch.ones(64, 1, dtype=torch.int64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        loss = model.train().training_loss(tokens, tokens, features, price)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2
