"""The pretrained architectures have the sizes that were published."""

import pytest
import torch

from pricekit.nets import transformer
from pricekit.nets.transformer import family_of

# Millions of parameters without the pooling layer; widths and layers as in the published configurations.
PUBLISHED = [
    (transformer.ROBERTA_BASE, 124.1, 12),
    (transformer.DISTILROBERTA, 81.5, 6),
    (transformer.DEBERTA_V3_BASE, 183.8, 12),
    (transformer.DEBERTA_V3_SMALL, 141.3, 6),
]


@pytest.mark.parametrize(
    ("architecture", "millions", "layers"), PUBLISHED, ids=[a.name for a, *_ in PUBLISHED]
)
def test_the_architecture_has_its_size(architecture, millions, layers):
    family = family_of(architecture.family)
    config = family.config.from_dict(dict(architecture.numbers))
    with torch.device("meta"):
        model = family.create(config)
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.06)
    assert (config.hidden_size, config.num_hidden_layers) == (768, layers)
    assert (config.num_attention_heads, config.intermediate_size) == (12, 3072)
