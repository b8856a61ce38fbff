"""`pricekit pretrain` on the command line."""

import json
import signal

import pytest

from pricekit.datasets import make_catalog

TINY = [
    *("--backbone", "transformer", "--max-length", 24, "--batch-size", 16, "--epochs", 1),
    *("--set", "backbone.width=16", "--set", "backbone.layers=1", "--set", "backbone.heads=2"),
    *("--set", "backbone.vocab_size=300", "--learning-rate", 0.01),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A table with prices, and one with other rows without prices."""
    folder = tmp_path_factory.mktemp("tables")
    frame = make_catalog(60, seed=5)
    frame.to_csv(folder / "train.csv", index=False)
    make_catalog(40, seed=6).drop(columns="price").to_csv(folder / "test.csv", index=False)
    return folder / "train.csv", folder / "test.csv"


def test_weights_of_two_tables_are_trained_with(pricekit, tables, tmp_path):
    out = tmp_path / "weights"
    code, said, err = pricekit("pretrain", *tables, "--out", out, *TINY)
    assert (code, said) == (0, "")
    reading, first, second, third = err.splitlines()  # and nothing of the libraries
    assert reading.startswith("reading ")
    assert first == "100 distinct texts in 100 rows"
    assert second.startswith("loss of masked tokens, 5 held-out texts: ")
    assert f"pricekit train TABLE --backbone transformer --weights {out} --out RUN" in third
    assert json.loads((out / "pretrain.json").read_text())["tables"] == ["train.csv", "test.csv"]
    run = tmp_path / "run"
    given = ["--backbone", "transformer", "--weights", out, "--max-length", 24, "--epochs", 1, "--out", run]
    code, _, err = pricekit("train", tables[0], *given)
    assert code == 0, err
    assert json.loads((run / "backbone.json").read_text())["hidden_size"] == 16
    assert (run / "tokenizer.json").read_text().count("[MASK]") >= 1


def test_ctrl_c_prints_the_command_that_continues(pricekit, tables, tmp_path, monkeypatch):
    from pricekit.runs.pretraining import PretrainCallback

    step = PretrainCallback.on_step_end

    def interrupted(self, args, state, control, **kwargs):
        if state.global_step == 2:
            signal.raise_signal(signal.SIGTERM)
        return step(self, args, state, control, **kwargs)

    line = ["pretrain", tables[0], "--out", tmp_path / "weights", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr(PretrainCallback, "on_step_end", interrupted)
        code, _, err = pricekit(*line)
    assert code == 130
    assert f"continue with: pricekit {' '.join(map(str, line))} --resume" in err
    code, _, err = pricekit(*line, "--resume")
    assert code == 0, err
    assert (tmp_path / "weights" / "model.safetensors").is_file()


WRONG = {
    "another setting": (
        ["--set", "loss.gamma=1"],
        "settings of the backbone, such as backbone.layers=2, and facts_first=true; found loss",
    ),
    "an unknown option": (["--set", "backbone.depth=2"], "'transformer' has no option 'depth'"),
    "noise for a small one": (["--random-weights"], "'transformer' has no option 'random_weights'"),
    "another column": (["--text", "title"], "has no column 'title'"),
    "no weights": (["--weights", "./nowhere"], "the weights ./nowhere are not a folder"),
}


@pytest.mark.parametrize("what", WRONG)
def test_invalid_input_is_reported_in_one_paragraph(pricekit, tables, tmp_path, what):
    given, message = WRONG[what]
    code, said, err = pricekit("pretrain", tables[0], "--out", tmp_path / "weights", *TINY, *given)
    assert (code, said) == (1 if what == "another column" else 2, "")
    assert message in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_unsupported_backbone_error_lists_supported_backbones(pricekit, tables, tmp_path):
    code, _, err = pricekit("pretrain", tables[0], "--out", tmp_path / "weights", "--backbone", "bag")
    assert code == 2
    assert "'bag' cannot be pretrained; these can: " in err
    assert "distilroberta" in err
