import numpy as np
import pytest
import torch

import pricekit.model.backbones.bag as bag_module
from pricekit.model.backbones.bag import PAD, UNK, Bag
from pricekit.tokens import encode, splits_at_spaces

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


def test_a_bag_with_bigrams_knows_order(encoder, tokenizer):
    encoder.eval()
    one, other = (_ids(tokenizer, text) for text in ("green tea", "tea green"))
    assert not torch.allclose(
        encoder(one, torch.ones_like(one)), encoder(other, torch.ones_like(other)), atol=1e-4
    )


def test_weights_by_hand(encoder, tokenizer):
    """idf of a token in half of the texts, 0 for one that is in none."""
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


def test_members_drop_tokens_of_their_own(tokenizer):
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
