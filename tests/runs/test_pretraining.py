"""Pretraining: the result, resuming, and errors."""

import json
import logging
import shutil
import signal
from dataclasses import replace

import pandas as pd
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from pricekit.cli.common import exit_code
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, DataError, TrainingError
from pricekit.io.record import begin, state_of
from pricekit.nets.pretrained import PRETRAINED, find_weights
from pricekit.nets.transformer import (
    SmallTransformer,
)
from pricekit.runs import pretraining
from pricekit.runs.pretraining import PretrainCallback, PretrainSettings, explain_write_errors, pretrain
from pricekit.text.tokens import encode, train_bpe
from tests.nets.test_contract import TEXTS
from tests.nets.tiny_weights import write_weights

TINY = PretrainSettings(
    "transformer",
    {"width": 16, "layers": 1, "heads": 2, "vocab_size": 300},
    max_length=24,
    epochs=2,
    batch_size=8,
    learning_rate=0.01,
)
FILES = {"config.json", "model.safetensors", "tokenizer.json", PRETRAINED, "files.json", "pricekit.json"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Sixty texts, including a duplicate and two blank ones, without prices."""
    texts = make_catalog(60, seed=5)["catalog_content"].tolist()
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    pd.DataFrame({"catalog_content": [*texts, texts[0], "", " "]}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def pretrained(table, tmp_path_factory):
    """A folder of weights, and its log messages."""
    out = tmp_path_factory.mktemp("weights") / "weights"
    return out, pretrain([table], TINY, out)


def test_the_loss_falls_and_the_folder_is_whole(pretrained):
    out, facts = pretrained
    assert {path.name for path in out.iterdir()} == FILES
    assert list(out.parent.iterdir()) == [out]  # no checkpoints are left
    assert facts["loss_after"] < facts["loss_before"] - 0.1
    assert (facts["rows"], facts["texts"], facts["held_out"]) == (63, 60, 3)
    assert json.loads((out / PRETRAINED).read_text()) == facts | {
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


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", PRETRAINED, "files.json"]
)
def test_damaged_weights_are_named_before_they_are_used(pretrained, tmp_path, name, raises):
    folder = tmp_path / "weights"
    shutil.copytree(pretrained[0], folder)
    assert find_weights(str(folder), "bert") == folder
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with raises(ConfigError):
        find_weights(str(folder), "bert")


def test_an_interrupt_leaves_a_checkpoint_that_leads_to_the_same_weights(
    pretrained, table, tmp_path, monkeypatch, capsys, raises
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
    assert state_of(out).name == "unfinished"
    assert (out / "checkpoints" / "checkpoint-11").is_dir()
    with raises(TrainingError, "resume", "overwrite", "out"):
        pretrain([table], TINY, out)
    with raises(TrainingError, "resume", "overwrite"):
        pretrain([table], replace(TINY, learning_rate=0.02), out, mode="resume")
    damaged = out / "checkpoints" / "checkpoint-99"  # killed while it was written
    damaged.mkdir()
    facts = pretrain([table], TINY, out, mode="resume")
    assert {path.name for path in out.iterdir()} == FILES
    expected, found = (load_file(folder / "model.safetensors") for folder in (pretrained[0], out))
    assert all(torch.equal(expected[name], tensor) for name, tensor in found.items())
    assert facts["loss_before"] == pretrained[1]["loss_before"]
    assert facts["loss_after"] == pretrained[1]["loss_after"]


def test_an_unsupported_backbone_is_an_error_before_a_table_is_read(tmp_path, raises):
    for name in ("bag", "lstm"):
        with raises(ConfigError, "backbone"):
            pretrain([tmp_path / "absent.csv"], PretrainSettings(name), tmp_path / "out")
    with raises(ConfigError, "max_length", max_length=513, longest=512):
        pretrain([tmp_path / "absent.csv"], replace(TINY, max_length=513), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_too_few_texts_and_a_folder_that_is_taken(table, pretrained, tmp_path, raises):
    with raises(DataError, "text", texts=5, rows=5):
        pretrain([table], replace(TINY, limit=5), tmp_path / "out")
    with raises(TrainingError, "resume", "overwrite", "out"):
        pretrain([table], TINY, pretrained[0])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with raises(TrainingError, "out"):
        pretrain([table], TINY, tmp_path / "mine", mode="overwrite")


def test_files_of_users_beside_the_weights_are_kept(pretrained, table, tmp_path):
    out = shutil.copytree(pretrained[0], tmp_path / "weights")
    (out / "letter.txt").write_text("dear")
    pretrain([table], replace(TINY, epochs=1), out, mode="overwrite")
    assert {path.name for path in out.iterdir()} == FILES | {"letter.txt"}
    assert (out / "letter.txt").read_text() == "dear"
    assert list(tmp_path.iterdir()) == [out]


def test_resume_starts_a_pretraining_that_has_not_begun_and_keeps_a_finished_one(
    pretrained, table, tmp_path, caplog, raises
):
    caplog.set_level(logging.INFO, "pricekit")
    out = tmp_path / "out"
    begin(out, "pretraining")
    mine = out / "checkpoint-best" / "trainer_state.json"
    mine.parent.mkdir()
    mine.write_text("mine")
    pretrain([table], TINY, out, mode="resume")
    assert "to resume yet; a new one starts" in caplog.text
    weights = (out / "model.safetensors").read_bytes()
    assert weights == (pretrained[0] / "model.safetensors").read_bytes()
    (out / "start.json").touch()  # a process was killed after it had published the weights
    (out / "checkpoints" / "checkpoint-9").mkdir(parents=True)
    facts = pretrain([table], TINY, out, mode="resume")
    assert "is finished already" in caplog.text
    assert facts == json.loads((out / "pretrain.json").read_text())
    assert {path.name for path in out.iterdir()} == FILES | {"checkpoint-best"}
    assert mine.read_text() == "mine"
    with raises(TrainingError, "overwrite", "out"):
        pretrain([table], replace(TINY, learning_rate=0.02), out, mode="resume")


@pytest.mark.parametrize(
    ("broken", "error", "epochs"),
    [
        ("torch.save", RuntimeError("unexpected pos 576"), 2),
        pytest.param(
            "transformers.PreTrainedModel.save_pretrained",
            SafetensorError("No space"),
            1,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_full_disk_is_reported_with_a_fix(table, tmp_path, monkeypatch, broken, error, epochs, raises):
    def full(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(broken, full)
        with raises(TrainingError):
            pretrain([table], replace(TINY, epochs=epochs, limit=20), tmp_path / "out")
    assert state_of(tmp_path / "out").name == "absent"
    pretrain([table], replace(TINY, epochs=1, limit=20), tmp_path / "out")


def test_training_continues_after_a_full_disk(table, tmp_path, monkeypatch, raises):
    settings = replace(TINY, epochs=2, limit=20)
    with monkeypatch.context() as patch:
        patch.setattr("pricekit.runs.pretraining._publish", _unwritten)
        with raises(TrainingError, "resume"):
            pretrain([table], settings, tmp_path / "out")
    pretrain([table], settings, tmp_path / "out", mode="resume")


def _unwritten(_, work, __):
    with explain_write_errors(work):
        raise OSError("full")


def test_a_loss_that_does_not_decrease_is_reported(table, tmp_path, logged, raises):
    out = tmp_path / "out"
    facts = pretrain([table], replace(TINY, epochs=1, learning_rate=1e-12, limit=20), out, mode="overwrite")
    assert facts["loss_after"] == pytest.approx(facts["loss_before"], abs=1e-4)
    said = " ".join(logged().split())
    assert ("the loss did not decrease" in said) == (facts["loss_after"] >= facts["loss_before"])
    with raises(TrainingError, "learning_rate", "overwrite"):
        pretrain([table], replace(TINY, epochs=1, learning_rate=1e30, limit=20), out, mode="overwrite")
    assert (
        json.loads((out / PRETRAINED).read_text())["settings"]["learning_rate"] == 1e-12
    )  # the old ones stay


def test_a_library_that_does_not_name_a_full_disk(tmp_path, monkeypatch, raises):
    """torch.save only says that a position in the file is unexpected."""
    (tmp_path / "probe").symlink_to("/dev/full")
    monkeypatch.setattr(pretraining, "temporary_path", lambda path: path)
    with (
        raises(TrainingError) as raised,
        explain_write_errors(tmp_path),
    ):
        raise RuntimeError("unexpected pos 576 vs 464")
    assert exit_code(raised.value) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_overwriting_that_was_interrupted_is_continued(table, tmp_path, monkeypatch, raises):
    """Also with the settings of the old weights, which had another table."""
    settings, out = replace(TINY, epochs=2, limit=20), tmp_path / "out"
    other = tmp_path / "other.csv"
    pd.read_csv(table).iloc[::-1].to_csv(other, index=False)
    pretrain([table], settings, out)
    old = (out / "model.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("pricekit.runs.pretraining._publish", _unwritten)
        with raises(TrainingError, "resume"):
            pretrain([other], settings, out, mode="overwrite")
    assert (out / "model.safetensors").read_bytes() == old
    pretrain([other], settings, out, mode="resume")
    pretrain([other], settings, tmp_path / "new")
    assert (
        (out / "model.safetensors").read_bytes()
        == (tmp_path / "new" / "model.safetensors").read_bytes()
        != old
    )


@pytest.mark.slow
def test_deberta_1_is_pretrained_in_float32_where_others_are_in_bf16(table, tmp_path, monkeypatch):
    """Its mask of float32 does not fit into scores of half precision."""
    monkeypatch.setattr(pretraining, "choose_precision", lambda speed, device: "bf16")
    weights = write_weights(tmp_path / "tiny", "deberta")
    chosen = replace(TINY, backbone="encoder", options={"weights": str(weights)}, epochs=1)
    pretrain([table], chosen, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
