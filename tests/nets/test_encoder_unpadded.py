"""Attention without padding returns the same results and gradients as with padding."""

import pytest
import torch

from pricekit.nets import transformer
from pricekit.nets.encoder import NAME
from pricekit.nets.transformer import Architecture, UnpaddedOptions
from tests.nets.test_contract import TEXTS, tiny

BERT = Architecture("minilm", "none", "bert", {"pad_token_id": 0})


def make(architecture, pooling, unpadded):
    torch.manual_seed(0)
    options = UnpaddedOptions(random_weights=True, pooling=pooling, unpadded=unpadded, dropout=0.0)
    backbone = tiny(architecture, options)
    tokenizer = backbone.tokenizer(TEXTS)
    return backbone.encoder(backbone.architecture(tokenizer), tokenizer, None)


def batch():
    ids = torch.randint(5, 40, (4, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 5:], mask[2, 1:] = 0, 0
    return ids, mask


@pytest.mark.parametrize("pooling", ["mean", "cls", "lead"])
@pytest.mark.parametrize("architecture", [transformer.ROBERTA_BASE, BERT], ids=["roberta", "bert"])
def test_unpadded_training_equals_padded_training(architecture, pooling):
    ids, mask = batch()
    results = []
    for unpadded in (False, True):
        encoder = make(architecture, pooling, unpadded)
        found = encoder(ids, mask)
        found.square().sum().backward()
        results.append((found, {n: p.grad for n, p in encoder.named_parameters()}))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-5)
    for name, expected in results[0][1].items():
        assert (expected is None) == (results[1][1][name] is None), name
        if expected is not None:
            assert torch.allclose(results[1][1][name], expected, atol=1e-4), name


def test_it_predicts_with_padding():
    encoder = make(transformer.ROBERTA_BASE, "mean", True)
    assert encoder.model.config._attn_implementation == NAME
    encoder.eval()
    assert encoder.model.config._attn_implementation == encoder.padded_attention != NAME
    assert torch.equal(encoder(*batch()), make(transformer.ROBERTA_BASE, "mean", False).eval()(*batch()))


def test_real_tokens_are_packed_in_order():
    encoder, packed = make(BERT, "mean", True), {}
    encoder.model.register_forward_pre_hook(lambda _, args, named: packed.update(named), with_kwargs=True)
    ids, mask = batch()
    encoder(ids, mask)
    assert packed["input_ids"].tolist() == [ids[mask > 0].tolist()]
    assert packed["position_ids"].tolist() == [[*range(9), *range(5), 0, *range(9)]]
    assert packed["starts"].tolist() == [0, 9, 14, 15, 24]
    assert packed["starts"].dtype == torch.int32
