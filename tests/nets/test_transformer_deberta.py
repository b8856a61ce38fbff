"""Slicing DeBERTa's relative table, or looking it up by distance, does not change the results."""

import copy

import pytest
import torch

from pricekit.nets import transformer
from pricekit.nets.transformer import export_by_distance, family_of, slice_positions


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    numbers = {**transformer.DEBERTA_V3_SMALL.numbers, "vocab_size": 99, "num_hidden_layers": 2}
    numbers |= {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    numbers |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    family = family_of("deberta-v2")
    whole = family.model(family.config.from_dict(numbers)).eval()
    sliced = copy.deepcopy(whole)
    slice_positions(sliced)
    return whole, sliced


@pytest.fixture(params=[16, 256])
def by_distance(models, request, monkeypatch):
    """A model with this many buckets, and a copy that computes as in the export."""
    whole = copy.deepcopy(models[0])
    if request.param != 256:
        numbers = {**whole.config.to_dict(), "position_buckets": request.param}
        whole = family_of("deberta-v2").model(type(whole.config).from_dict(numbers)).eval()
    twin = copy.deepcopy(whole)
    slice_positions(twin)
    export_by_distance(twin, 512)

    def exported(input_ids, attention_mask):
        with monkeypatch.context() as patch:
            patch.setattr(torch.compiler, "is_exporting", lambda: True)
            return twin(input_ids, attention_mask[:, None, None].bool()).last_hidden_state

    return whole, twin, exported


def inputs(length):
    ids = torch.randint(0, 99, (3, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    mask[1, length // 2 + 1 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("length", [1, 8, 64, 128, 255, 256, 300])
def test_the_output_is_equal_to_the_bit(models, length):
    whole, sliced = (m(**inputs(length)).last_hidden_state for m in models)
    assert torch.equal(whole, sliced)


def test_only_reachable_positions_are_projected(models):
    _, sliced = models
    seen = []
    query = sliced.encoder.layer[0].attention.self.query_proj
    handle = query.register_forward_hook(lambda module, args, output: seen.append(args[0].shape[-2]))
    for length in (8, 300):
        sliced(**inputs(length))
    handle.remove()
    assert seen == [8, 16, 300, 512]  # the tokens, then the positions


def test_gradients_are_the_same(models):
    gradients = []
    for model in models:
        model.zero_grad()
        model(**inputs(40)).last_hidden_state.square().sum().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    for name, expected in gradients[0].items():
        assert torch.allclose(gradients[1][name], expected, atol=1e-5, rtol=1e-4), name


def test_a_deep_copy_reads_its_own_table(models):
    _, sliced = models
    twin = copy.deepcopy(sliced)
    expected = twin(**inputs(8)).last_hidden_state
    with torch.no_grad():
        sliced.encoder.rel_embeddings.weight.add_(1.0)
    assert torch.equal(twin(**inputs(8)).last_hidden_state, expected)
    sliced(**inputs(300))
    assert torch.equal(twin(**inputs(8)).last_hidden_state, expected)
    with torch.no_grad():
        sliced.encoder.rel_embeddings.weight.sub_(1.0)


@pytest.mark.parametrize("length", [1, 2, 40, 257, 512])
def test_by_distance_the_real_tokens_are_the_same(by_distance, length):
    whole, twin, exported = by_distance
    batch = inputs(length)
    live = batch["attention_mask"].bool()
    expected = whole(**batch).last_hidden_state
    assert torch.allclose(exported(**batch)[live], expected[live], atol=2e-5, rtol=0)
    assert torch.allclose(twin(**batch).last_hidden_state, expected, atol=1e-6)  # as it trains


def test_positions_looked_up_by_distance_are_not_stored(by_distance):
    whole, twin, _ = by_distance
    assert twin.state_dict().keys() == whole.state_dict().keys()
