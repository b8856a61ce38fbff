import numpy as np
import pytest
import torch

import pricekit.nets.bag as bag_module
from pricekit.nets.bag import PAD, UNK, Bag
from pricekit.text.tokens import encode, splits_at_spaces

TEXTS = ["Green Tea 12 Ounce", "green tea, pack of 6", "Olive Oil 500 ml", "Dark chocolate bar"] * 4


@pytest.fixture(scope="module")
def bag():
    return Bag(
        Bag.Options(vocab_size=300, buckets=64, width=4, members=2, token_dropout=0.0, span_dropout=0.0)
    )


@pytest.fixture(scope="module")
def tokenizer(bag):
    return bag.tokenizer(TEXTS)


@pytest.fixture
def encoder(bag, tokenizer):
    torch.manual_seed(0)
    return bag.encoder({}, tokenizer, encode(tokenizer, TEXTS, 32, 0))


def _ids(tokenizer, text):
    return torch.tensor([tokenizer.encode(text).ids])


def test_the_tokenizer_lowers_case_and_knows_its_special_tokens(tokenizer):
    assert tokenizer.encode("GREEN Tea").ids == tokenizer.encode("green tea").ids
    assert (tokenizer.token_to_id(PAD), tokenizer.token_to_id(UNK)) == (0, 1)


def test_the_tokenizer_reads_letters_and_digits_alone_word_by_word(tokenizer):
    assert tokenizer.encode("(green) tea, ☃!").ids == tokenizer.encode("green tea").ids
    assert tokenizer.encode("green-tea").ids == tokenizer.encode("green tea").ids
    assert splits_at_spaces(tokenizer)


def test_bigrams_are_hashed_within_the_bits_that_engines_have():
    factors = bag_module._FIRST + bag_module._SECOND
    assert factors * bag_module._MOST_TOKENS < 2**31
    assert factors * Bag.Options().vocab_size < 2**24


def test_training_without_dropout_equals_inference(encoder, tokenizer):
    ids = _ids(tokenizer, TEXTS[0])
    mask = torch.ones_like(ids)
    trained = encoder.train()(ids, mask)
    assert torch.allclose(trained, encoder.eval()(ids, mask), atol=1e-7)
    assert trained.shape == (1, 8)


def test_padding_changes_nothing(encoder, tokenizer):
    ids = _ids(tokenizer, TEXTS[1])
    mask = torch.ones_like(ids)
    padded = torch.nn.functional.pad(ids, (0, 5), value=7)
    padded_mask = torch.nn.functional.pad(mask, (0, 5))
    for mode in (True, False):
        encoder.train(mode)
        assert torch.allclose(encoder(ids, mask), encoder(padded, padded_mask), atol=1e-7)


def test_bigrams_make_the_bag_depend_on_word_order(encoder, tokenizer):
    encoder.eval()
    one, other = (_ids(tokenizer, text) for text in ("green tea", "tea green"))
    assert not torch.allclose(
        encoder(one, torch.ones_like(one)), encoder(other, torch.ones_like(other)), atol=1e-4
    )


def test_weights_by_hand(encoder, tokenizer):
    """idf of a token in half of the texts; 0 for a token that is in none."""
    tea = tokenizer.token_to_id("tea")
    assert encoder.idf[tea].item() == pytest.approx(np.log(17 / 9))
    assert encoder.idf[tokenizer.token_to_id(UNK)].item() == 0
    ids = _ids(tokenizer, TEXTS[0])
    rows, weights = encoder._terms(ids, torch.ones_like(ids))
    assert rows.shape == weights.shape == (1, 2 * ids.shape[1])
    assert weights.square().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert weights[0, -1].item() == 0  # the last token begins no bigram


@pytest.mark.parametrize("text", ["", "☃☃☃"])
def test_a_text_of_unknown_tokens_encodes_to_zero(encoder, tokenizer, text):
    tokens = encode(tokenizer, [text], 8, 0)
    ids = torch.from_numpy(tokens.ids.astype(np.int64))[None]
    for mode in (True, False):
        encoding = encoder.train(mode)(ids, torch.ones_like(ids))
        assert torch.equal(encoding, torch.zeros(1, 8))


def test_only_the_rows_of_the_batch_get_a_gradient(encoder, tokenizer):
    encoder.train()
    ids = _ids(tokenizer, TEXTS[2])
    encoder(ids, torch.ones_like(ids)).sum().backward()
    gradient = encoder.embedding.weight.grad
    assert gradient.is_sparse
    rows, weights = encoder._terms(ids, torch.ones_like(ids))
    assert set(gradient.coalesce().indices()[0].tolist()) == set(rows[weights > 0].tolist())


def test_members_drop_different_tokens(tokenizer):
    bag = Bag(Bag.Options(vocab_size=300, buckets=64, width=4, members=2, token_dropout=0.5))
    encoder = bag.encoder({}, tokenizer, encode(tokenizer, TEXTS, 32, 0))
    with torch.no_grad():
        encoder.embedding.weight[:, 4:] = encoder.embedding.weight[:, :4]
    ids = _ids(tokenizer, TEXTS[0])
    torch.manual_seed(1)
    first, second = encoder.train()(ids, torch.ones_like(ids)).chunk(2, dim=1)
    assert not torch.equal(first, second)
    first, second = encoder.eval()(ids, torch.ones_like(ids)).chunk(2, dim=1)
    assert torch.allclose(first, second)


@pytest.mark.parametrize("dropout", [(0.5, 0.0), (0.0, 0.5), (0.4, 0.3)])
def test_dropping_terms_and_spans_leaves_the_mean(tokenizer, dropout):
    """The mean over many draws is the encoding without dropout, up to chance."""
    token, span = dropout
    bag = Bag(
        Bag.Options(vocab_size=300, buckets=64, width=4, members=200, token_dropout=token, span_dropout=span)
    )
    encoder = bag.encoder({}, tokenizer, encode(tokenizer, TEXTS, 32, 0))
    with torch.no_grad():
        encoder.embedding.weight.copy_(torch.ones_like(encoder.embedding.weight))
    ids = _ids(tokenizer, TEXTS[0] * 20)
    torch.manual_seed(0)
    drawn = encoder.train()(ids, torch.ones_like(ids))
    expected = encoder.eval()(ids, torch.ones_like(ids)).mean().item()
    assert drawn.std() > 0
    assert drawn.mean().item() == pytest.approx(expected, rel=0.05)


def _drawn_batch(encoder, tokenizer):
    ids = torch.cat([_ids(tokenizer, TEXTS[0])[:, :3], _ids(tokenizer, TEXTS[1])[:, :3]])
    return ids, torch.ones_like(ids)


def test_the_sparse_gradient_is_that_of_the_sum(tokenizer):
    """Against torch's own gradient of Σ w·E, computed term by term from the same random numbers."""
    bag = Bag(
        Bag.Options(vocab_size=300, buckets=64, width=4, members=3, token_dropout=0.3, span_dropout=0.2)
    )
    encoder = bag.encoder({}, tokenizer, encode(tokenizer, TEXTS, 32, 0)).train()
    batch = _drawn_batch(encoder, tokenizer)
    torch.manual_seed(2)
    encoding = encoder(*batch)
    weighting = torch.randn_like(encoding)
    encoding.backward(weighting)

    rows, weights = encoder._terms(*batch)
    torch.manual_seed(2)
    kept = encoder._kept(rows, None)
    table = encoder.embedding.weight.detach().clone().requires_grad_()
    members = table.view(-1, 3, 4)[rows]  # (B, 2L, M, D)
    share = (weights[:, None] * kept / encoder._share_kept).transpose(1, 2)  # (B, 2L, M)
    expected = (share[..., None] * members).sum(1).flatten(1)
    expected.backward(weighting)
    assert torch.allclose(encoding, expected, atol=1e-6)
    assert torch.allclose(encoder.embedding.weight.grad.to_dense(), table.grad, atol=1e-6)


def test_a_prepared_batch_has_the_same_encoding_as_an_unprepared_one(tokenizer):
    bag = Bag(Bag.Options(vocab_size=300, buckets=64, width=4, members=2))
    encoder = bag.encoder({}, tokenizer, encode(tokenizer, TEXTS, 32, 0)).train()
    batch = _drawn_batch(encoder, tokenizer)
    prepared = encoder.prepare_batch(*batch, torch.Generator().manual_seed(7))
    torch.manual_seed(7)
    assert torch.equal(encoder(*batch, **prepared), encoder(*batch))
    assert not torch.equal(encoder(*batch, **prepared), encoder(*batch))  # which drops other terms


def test_a_batch_without_remaining_terms_encodes_to_zero(encoder):
    ids = torch.zeros(2, 3, dtype=torch.int64)
    encoder.train()(ids, torch.zeros_like(ids)).sum().backward()
    assert encoder.embedding.weight.grad.to_dense().abs().sum() == 0
