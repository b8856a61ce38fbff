"""The policy of encoders without pretrained weights."""

import pytest

from pricekit.config.resolve import configure
from pricekit.core.loader import registry
from pricekit.nets.network import PriceModel
from pricekit.training.optimizers import adamw

TINY = {
    "lstm": {"vocab_size": 256, "embedding": 4, "width": 4},
    "transformer": {"vocab_size": 256, "width": 8, "heads": 2, "layers": 1},
    "mlp": {},
}


@pytest.mark.parametrize("name", TINY)
def test_encoder_and_head_have_their_own_rates_in_batches_of_256(name):
    config = configure([{"policy": "scratch", "backbone": {"name": name, **TINY[name]}}])
    training = config.training
    assert (training.batch_size, training.gradient_accumulation_steps) == (256, 1)
    backbone = registry().create("backbone", name, config.backbone.options)
    tokenizer = backbone.tokenizer(["green tea", "black tea"])
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, None)
    model = PriceModel(encoder, config.head, registry().create("loss", "smape"), 2)
    of_encoder = {id(parameter) for parameter in encoder.parameters()}
    for group in adamw(model, training, fused=False).param_groups:
        rates = {
            training.learning_rate if id(p) in of_encoder else training.head_learning_rate
            for p in group["params"]
        }
        assert rates == {group["lr"]}
    assert training.learning_rate < training.head_learning_rate < 0.01  # bag's embeddings learn with 0.2
