"""Masking, and the loss of predicting masked tokens."""

import shutil

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from pricekit.errors import ConfigError
from pricekit.nets import transformer
from pricekit.nets.transformer import (
    DebertaOptions,
    Pretrained,
    PretrainedOptions,
)
from pricekit.runs.pretraining import Masking, attach_masking, make_masking, total_loss
from pricekit.text.tokens import encode, pad_id_of, pad_rows, train_bpe
from tests.nets.test_contract import TEXTS, tiny


def test_masking_follows_devlin_and_skips_special_tokens():
    ordinary = torch.ones(1000, dtype=torch.bool)
    ordinary[:5] = False
    ids = torch.randint(5, 1000, (200, 500))
    ids[:, 0], ids[:, 400:] = 2, 0
    hidden, chosen = Masking(4, ordinary).apply(ids, torch.Generator().manual_seed(0))
    assert not chosen[:, 0].any()
    assert not chosen[:, 400:].any()
    assert chosen[:, 1:400].float().mean() == pytest.approx(0.15, abs=0.005)
    assert torch.equal(hidden[~chosen], ids[~chosen])
    masked, same = hidden[chosen] == 4, hidden[chosen] == ids[chosen]
    assert masked.float().mean() == pytest.approx(0.8, abs=0.015)
    assert same.float().mean() == pytest.approx(0.1, abs=0.01)
    assert ordinary[hidden[chosen][~masked]].all()


def test_short_texts_have_one_hidden_and_a_text_of_special_tokens_none():
    ordinary = torch.tensor([False, False, True, True])
    ids = torch.tensor([[2, 0, 0], [1, 3, 1], [1, 1, 0]])
    hidden, chosen = Masking(1, ordinary).apply(ids)
    assert chosen.tolist() == [[True, False, False], [False, True, False], [False] * 3]
    assert torch.equal(hidden[2], ids[2])


def test_a_mask_token_is_added_after_all_others():
    tokenizer = train_bpe(TEXTS, 120, ["[PAD]", "[UNK]"], unknown="[UNK]")
    before = tokenizer.get_vocab()
    masking = make_masking(tokenizer)
    assert masking.mask_id == tokenizer.token_to_id("[MASK]") == len(before)
    assert tokenizer.get_vocab() == before | {"[MASK]": len(before)}
    assert masking.ordinary.logical_not().nonzero()[:, 0].tolist() == [0, 1, len(before)]
    again = make_masking(Tokenizer.from_str(tokenizer.to_str()))
    assert again.mask_id == masking.mask_id


def backbones():
    return {
        "roberta": tiny(transformer.DISTILROBERTA, PretrainedOptions(random_weights=True)),
        "deberta": tiny(
            transformer.DEBERTA_V3_SMALL, DebertaOptions(random_weights=True), position_buckets=8
        ),
    }


@pytest.mark.parametrize("name", ["roberta", "deberta"])
def test_each_family_learns_and_is_opened_again(name, tmp_path):
    torch.manual_seed(0)
    backbone = backbones()[name]
    tokenizer = backbone.tokenizer(TEXTS)
    masking, pad_id = make_masking(tokenizer), pad_id_of(tokenizer)
    tokens = encode(tokenizer, TEXTS, 32, pad_id)
    model = backbone.masked_language_model(backbone.architecture(tokenizer))
    attach_masking(model, masking, tokens)
    assert model.config.vocab_size >= tokenizer.get_vocab_size()
    ids, mask = map(torch.from_numpy, pad_rows(tokens, np.arange(len(TEXTS)), pad_id))
    hidden, chosen = masking.apply(ids)
    model.eval()
    with torch.no_grad():
        logits = type(model).forward(model, input_ids=hidden, attention_mask=mask).logits
        whole = torch.nn.functional.cross_entropy(logits[chosen], ids[chosen], reduction="sum")
        assert float(total_loss(model, hidden, mask, ids, chosen)) == pytest.approx(float(whole), rel=1e-4)
    model(ids, mask)["loss"].backward()
    assert all(p.grad is not None for p in model.parameters())
    model.save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = Pretrained(backbone.published, type(backbone.options)(weights=str(tmp_path)))
    encoder = again.encoder(again.architecture(again.tokenizer([])), tokenizer, tokens)
    expected = model.base_model.state_dict()
    assert all(torch.equal(expected[n], t) for n, t in encoder.model.state_dict().items())


def test_weights_without_a_head_get_a_new_one(tmp_path, raises):
    torch.manual_seed(0)
    backbone = backbones()["roberta"]
    tokenizer = backbone.tokenizer(TEXTS)
    tokens = encode(tokenizer, TEXTS, 32, 1)
    encoder = backbone.encoder(backbone.architecture(tokenizer), tokenizer, tokens)
    encoder.model.save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    given = Pretrained(backbone.published, PretrainedOptions(weights=str(tmp_path)))
    model = given.masked_language_model(given.architecture(given.tokenizer([])))
    state = model.base_model.state_dict()
    assert all(torch.equal(state[n], t) for n, t in encoder.model.state_dict().items())
    attach_masking(model, make_masking(tokenizer), tokens)
    share = model.get_output_embeddings().bias.detach().exp()
    count = np.bincount(tokens.ids, minlength=len(share)) + 1
    assert np.allclose(share, count / count.sum())
    bad = shutil.copytree(tmp_path, tmp_path / "bad")
    (bad / "config.json").write_text(
        (bad / "config.json").read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 3')
    )
    wrong = Pretrained(backbone.published, PretrainedOptions(weights=str(bad)))
    with raises(ConfigError, "weights"):
        wrong.masked_language_model(wrong.architecture(tokenizer))
