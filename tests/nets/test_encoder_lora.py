"""LoRA in every family: what learns, what stays, and the merged weights."""

import copy
import sys

import pytest
import torch

from pricekit.core.loader import registry
from pricekit.errors import ConfigError
from pricekit.nets import encoder as adapters
from pricekit.testing import check_backbone
from pricekit.text.tokens import encode, pad_id_of
from tests.nets.tiny_weights import KINDS, TEXTS

pytest.importorskip("peft")
RANK = 2


def backbone_of(folder, rank=RANK):
    return registry().create("backbone", "encoder", {"weights": str(folder), "lora": rank})


def encoder_of(backbone):
    tokenizer = backbone.tokenizer(TEXTS)
    tokens = encode(tokenizer, TEXTS, 32, pad_id_of(tokenizer))
    return backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens).eval()


@torch.no_grad()
def disturb(encoder):
    """Change the adapters, as training does."""
    for parameter in encoder.parameters():
        if parameter.requires_grad:
            parameter.add_(0.2 * torch.randn_like(parameter))


BATCH = torch.randint(6, 200, (2, 20), generator=torch.Generator().manual_seed(0)), torch.ones(2, 20).long()


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_learn_the_base_stays_and_both_merge(folders, kind):
    torch.manual_seed(0)
    plain, encoder = (encoder_of(backbone_of(folders(kind), rank)) for rank in (0, RANK))
    assert torch.equal(plain(*BATCH), encoder(*BATCH))  # B is 0
    trained = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert trained
    assert all(".lora_A." in name or ".lora_B." in name for name in trained)
    disturb(encoder)
    adapted = encoder(*BATCH)
    assert not torch.allclose(adapted, plain(*BATCH), atol=1e-3)
    (adapted * torch.randn_like(adapted)).sum().backward()
    assert {name for name, p in encoder.named_parameters() if p.grad is not None and p.grad.any()} == trained
    before = copy.deepcopy(encoder.state_dict())
    merged = encoder.merged().eval()
    assert merged.state_dict().keys() == plain.state_dict().keys()
    assert torch.allclose(merged(*BATCH), adapted, atol=2e-6)
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    assert merged.embedding.weight.data_ptr() == encoder.embedding.weight.data_ptr()  # shared, not copied


def test_the_product_counts_twice_in_each_projection(folders):
    encoder = encoder_of(backbone_of(folders("bert")))
    disturb(encoder)
    layer = encoder.model.encoder.layer[0].attention.self.query
    a, b = layer.lora_A.default.weight, layer.lora_B.default.weight
    assert (a.shape, b.shape) == ((RANK, 32), (32, RANK))
    merged = encoder.merged().model.encoder.layer[0].attention.self.query.weight
    assert torch.allclose(merged, layer.base_layer.weight + 2 * b @ a, atol=1e-6)
    assert adapters.projections(encoder_of(backbone_of(folders("bert"), 0)).model)[:4] == [
        f"encoder.layer.0.attention.{name}"
        for name in ("self.query", "self.key", "self.value", "output.dense")
    ]


def test_an_encoder_without_adapters_is_its_own_merged_one(folders):
    encoder = encoder_of(backbone_of(folders("bert"), 0))
    assert encoder.merged() is encoder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["roberta", pytest.param("deberta-v2", marks=pytest.mark.slow)])
def test_it_passes_the_checks_of_backbones(folders, kind):
    for check in check_backbone(lambda: backbone_of(folders(kind))):
        check()


def test_without_peft_the_error_names_the_extra(folders, monkeypatch, raises):
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with raises(ConfigError, "settings"):
        registry().create("backbone", "roberta-base", {"lora": 2})
    with raises(ConfigError, "settings"):
        backbone_of(folders("bert")).tokenizer(TEXTS)
    monkeypatch.setitem(sys.modules, "peft", None)
    assert encoder_of(backbone_of(folders("bert"), 0)).merged()


def test_an_encoder_without_attention_is_refused(raises):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.config = type("Config", (), {"model_type": "plain"})
    with raises(ConfigError, "settings", "weights"):
        adapters.add_adapters(model, 2)


def test_pretraining_refuses_lora(folders, raises):
    backbone = backbone_of(folders("bert"))
    architecture = backbone.architecture(backbone.tokenizer(TEXTS))
    with raises(ConfigError, "settings"):
        backbone.masked_language_model(architecture)


def test_a_negative_rank_is_refused(raises):
    with raises(ConfigError, "lora", "settings", setting="lora"):
        registry().create("backbone", "roberta-base", {"lora": -1})
