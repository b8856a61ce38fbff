"""Masked-language pretraining: what is hidden, what is learned, what is written, and how it goes on."""

import json
import shutil
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.model.backbones import architectures
from pricekit.model.backbones.bpe import train_bpe
from pricekit.model.backbones.transformer import (
    DebertaOptions,
    Pretrained,
    PretrainedOptions,
    SmallTransformer,
)
from pricekit.tokens import encode, pad_id_of, pad_rows
from pricekit.workflows.pretraining.loop import PretrainCallback, explain_write_errors
from pricekit.workflows.pretraining.masked import Masking, attach_masking, make_masking, total_loss
from pricekit.workflows.pretraining.pretrain import FACTS, pretrain
from pricekit.workflows.pretraining.start import PretrainSettings, create_backbone, prepare_job
from tests.model.backbones.test_contract import TEXTS, tiny

TINY = PretrainSettings(
    "transformer",
    {"width": 16, "layers": 1, "heads": 2, "vocab_size": 300},
    max_length=24,
    epochs=2,
    batch_size=8,
    learning_rate=0.01,
)
FILES = {"config.json", "model.safetensors", "tokenizer.json", FACTS}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Sixty texts, the first of them twice, two of them blank, and no prices."""
    texts = make_catalog(60, seed=5)["catalog_content"].tolist()
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    pd.DataFrame({"catalog_content": [*texts, texts[0], "", " "]}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def pretrained(table, tmp_path_factory):
    """A folder of weights, and what was said of it."""
    out = tmp_path_factory.mktemp("weights") / "weights"
    return out, pretrain([table], TINY, out)


def test_as_many_are_hidden_as_devlin_says_and_never_a_special_one():
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


def test_a_mask_token_is_added_behind_all_others():
    tokenizer = train_bpe(TEXTS, 120, ["[PAD]", "[UNK]"], unknown="[UNK]")
    before = tokenizer.get_vocab()
    masking = make_masking(tokenizer)
    assert masking.mask_id == tokenizer.token_to_id("[MASK]") == len(before)
    assert tokenizer.get_vocab() == before | {"[MASK]": len(before)}
    assert masking.ordinary.logical_not().nonzero()[:, 0].tolist() == [0, 1, len(before)]
    again = make_masking(Tokenizer.from_str(tokenizer.to_str()))
    assert again.mask_id == masking.mask_id


def test_the_loss_falls_and_the_folder_is_whole(pretrained):
    out, facts = pretrained
    assert {path.name for path in out.iterdir()} == FILES
    assert list(out.parent.iterdir()) == [out]  # no checkpoints are left
    assert facts["loss_after"] < facts["loss_before"] - 0.1
    assert (facts["rows"], facts["texts"], facts["held_out"]) == (63, 60, 3)
    assert json.loads((out / FACTS).read_text()) == facts | {
        "settings": facts["settings"] | {"text": ["catalog_content"]}
    }


def test_the_encoder_has_the_very_tensors(pretrained):
    out = pretrained[0]
    backbone = SmallTransformer(SmallTransformer.Options(weights=str(out)))
    tokenizer = backbone.tokenizer(["others"])
    assert tokenizer.to_str() != train_bpe(["others"], 300, ["[PAD]"], unknown="[PAD]").to_str()
    assert tokenizer.token_to_id("[MASK]") == tokenizer.get_vocab_size() - 1
    architecture = backbone.architecture(tokenizer)
    encoder = backbone.encoder(architecture, tokenizer, encode(tokenizer, TEXTS, 24, 0))
    saved = load_file(out / "model.safetensors")
    state = encoder.model.state_dict()
    assert set(state) == {name.removeprefix("bert.") for name in saved if name.startswith("bert.")}
    assert all(torch.equal(saved[f"bert.{name}"], tensor) for name, tensor in state.items())
    assert encoder.hidden_size == 16
    absent = SmallTransformer(SmallTransformer.Options(weights="absent/folder"))
    empty = absent.encoder(architecture, tokenizer, None)  # a run opens without the folder
    assert {n: t.shape for n, t in empty.model.state_dict().items()} == {n: t.shape for n, t in state.items()}


def test_an_interrupt_leaves_a_checkpoint_that_leads_to_the_same_weights(
    pretrained, table, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "again"
    step = PretrainCallback.on_step_end

    def interrupted(self, args, state, control, **kwargs):
        if state.global_step == 11:  # inside the second epoch
            signal.raise_signal(signal.SIGINT)
        return step(self, args, state, control, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(PretrainCallback, "on_step_end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pretrain([table], TINY, out)
    assert not out.exists()
    assert (tmp_path / ".again.pretrain" / "checkpoint-11").is_dir()
    with pytest.raises(TrainingError, match=r"unfinished pretraining .* resume it, or overwrite it"):
        pretrain([table], TINY, out)
    with pytest.raises(TrainingError, match="differ from those of the unfinished pretraining"):
        pretrain([table], replace(TINY, learning_rate=0.02), out, resume=True)
    damaged = out.with_name(".again.pretrain") / "checkpoint-99"  # killed while it was written
    damaged.mkdir()
    facts = pretrain([table], TINY, out, resume=True)
    assert list(tmp_path.iterdir()) == [out]
    expected, found = (load_file(folder / "model.safetensors") for folder in (pretrained[0], out))
    assert all(torch.equal(expected[name], tensor) for name, tensor in found.items())
    assert facts["loss_before"] == pretrained[1]["loss_before"]
    assert facts["loss_after"] == pretrained[1]["loss_after"]


def backbones():
    return {
        "roberta": tiny(architectures.DISTILROBERTA, PretrainedOptions(random_weights=True)),
        "deberta": tiny(
            architectures.DEBERTA_V3_SMALL, DebertaOptions(random_weights=True), position_buckets=8
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


def test_weights_without_a_head_get_a_new_one(tmp_path):
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
    with pytest.raises(ConfigError, match=r"lack .* tensors"):
        wrong.masked_language_model(wrong.architecture(tokenizer))


def test_what_cannot_be_pretrained_is_told_before_a_table_is_read(tmp_path):
    for name in ("bag", "lstm"):
        with pytest.raises(ConfigError, match=f"'{name}' cannot be pretrained; these can: .*transformer"):
            pretrain([tmp_path / "absent.csv"], PretrainSettings(name), tmp_path / "out")
    with pytest.raises(ConfigError, match="accepts at most 512"):
        pretrain([tmp_path / "absent.csv"], replace(TINY, max_length=513), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_too_few_texts_and_a_folder_that_is_taken(table, pretrained, tmp_path):
    with pytest.raises(DataError, match="5 distinct texts in 5 rows"):
        pretrain([table], replace(TINY, limit=5), tmp_path / "out")
    with pytest.raises(TrainingError, match="already exists; overwrite it"):
        pretrain([table], TINY, pretrained[0])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(TrainingError, match="is not the result of a pretraining"):
        pretrain([table], TINY, tmp_path / "mine", overwrite=True)
    with pytest.raises(TrainingError, match="no unfinished pretraining"):
        pretrain([table], TINY, tmp_path / "out", resume=True)


@pytest.mark.parametrize(
    ("broken", "error", "epochs", "cure"),
    [
        ("torch.save", RuntimeError("unexpected pos 576"), 2, "pretrain again"),
        ("transformers.PreTrainedModel.save_pretrained", SafetensorError("No space"), 1, "pretrain again"),
    ],
)
def test_a_full_disk_is_told_with_the_cure(table, tmp_path, monkeypatch, broken, error, epochs, cure):
    def full(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(broken, full)
        with pytest.raises(
            TrainingError, match=f"cannot be written: {error}. Free space on that disk and {cure}"
        ):
            pretrain([table], replace(TINY, epochs=epochs, limit=20), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    pretrain([table], replace(TINY, epochs=1, limit=20), tmp_path / "out")


def test_a_full_disk_after_a_checkpoint_is_gone_on_from(table, tmp_path, monkeypatch):
    settings = replace(TINY, epochs=2, limit=20)
    with monkeypatch.context() as patch:
        patch.setattr("pricekit.workflows.pretraining.pretrain._files", _unwritten)
        with pytest.raises(TrainingError, match="resume from the last checkpoint"):
            pretrain([table], settings, tmp_path / "out")
    pretrain([table], settings, tmp_path / "out", resume=True)


def _unwritten(_, work, __):
    with explain_write_errors(work):
        raise OSError("full")


def test_a_loss_that_does_not_fall_is_said(table, tmp_path, logged):
    out = tmp_path / "out"
    facts = pretrain([table], replace(TINY, epochs=1, learning_rate=1e-12, limit=20), out, overwrite=True)
    assert facts["loss_after"] == pytest.approx(facts["loss_before"], abs=1e-4)
    said = " ".join(logged().split())
    assert ("the loss did not decrease" in said) == (facts["loss_after"] >= facts["loss_before"])
    with pytest.raises(TrainingError, match="no longer finite"):
        pretrain([table], replace(TINY, epochs=1, learning_rate=1e30, limit=20), out, overwrite=True)
    assert json.loads((out / FACTS).read_text())["settings"]["learning_rate"] == 1e-12  # the old ones stay


def test_facts_are_read_first_where_training_reads_them_first():
    texts = [f"Item Name: tea {n}\n{'long prose ' * 9}\nValue: {n}" for n in range(20)]
    found = {}
    for facts_first in (False, True):
        settings = replace(TINY, facts_first=facts_first)
        start = prepare_job(create_backbone(settings), settings, texts, torch.device("cpu"))
        row = start.train.take(np.array([0]))
        found[facts_first] = start.tokenizer.decode(row.ids.tolist()).replace(" ", "")
    assert "value" not in found[False]
    assert found[True].index("value") < found[True].index("prose")
