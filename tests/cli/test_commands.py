import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pricekit.cli.main import COMMANDS
from pricekit.datasets import make_catalog
from pricekit.predict.files import PredictionCheckpoint

SMALL = (
    *("--set", "backbone.vocab_size=500", "--set", "backbone.buckets=64", "--set", "backbone.width=4"),
    *("--epochs", "2", "--max-length", "64"),
)
TINY = (*SMALL, "--features", "fast15")
WITH_TREES = (*SMALL, "--set", "feature_options.trees.rounds=8")


def test_the_demo_runs_all_steps(pricekit, catalog, tmp_path):
    run, bundle, prices = tmp_path / "run", tmp_path / "bundle", tmp_path / "prices.csv"
    code, _, err = pricekit("train", catalog, "--out", run, *WITH_TREES)
    assert code == 0, err
    assert "validation SMAPE" in err
    code, _, err = pricekit("export", run, "--out", bundle)
    assert code == 0, err
    assert "verified at" in err
    code, _, err = pricekit("predict", bundle, catalog, "--out", prices)
    assert code == 0, err
    found = pd.read_csv(prices)
    assert found["sample_id"].tolist() == pd.read_csv(catalog)["sample_id"].tolist()
    assert (found["price"] > 0).all()
    from_run = pricekit("predict", run, catalog, "--out", tmp_path / "from_run.csv")
    assert from_run[0] == 0, from_run
    assert pd.read_csv(tmp_path / "from_run.csv")["price"].to_numpy() == pytest.approx(
        found["price"], rel=1e-5
    )
    scores = []
    for model in (run, bundle):
        code, out, err = pricekit("evaluate", model, catalog, "--json")
        assert code == 0, err
        scores.append(json.loads(out))
    numbers = [
        {name: score[name] for name in ("smape", "mdape", "mae", "rmsle", "r2_log")} for score in scores
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-4)
    assert scores[0]["rows"] == 400


def test_columns_of_any_name(pricekit, catalog, tmp_path):
    frame = pd.read_csv(catalog)
    shop = pd.DataFrame(
        {"title": frame["catalog_content"].str.split("\n").str[0], "about": "good", "eur": frame["price"]}
    )
    shop.to_parquet(tmp_path / "shop.parquet")
    columns = ("--text", "title,about", "--price", "eur")
    code, _, err = pricekit("train", tmp_path / "shop.parquet", *columns, "--out", tmp_path / "run", *TINY)
    assert code == 0, err
    assert "row number" in err
    code, _, err = pricekit(
        "predict", tmp_path / "run", tmp_path / "shop.parquet", "--out", tmp_path / "p.jsonl"
    )
    assert code == 0, err
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 400


def test_a_dry_run_prints_the_configuration_and_writes_nothing(pricekit, catalog, tmp_path):
    code, out, err = pricekit(
        "train", catalog, "--out", tmp_path / "run", "--dry-run", "--loss", "focal-smape", *TINY
    )
    assert code == 0, err
    config = tomllib.loads(out)
    assert config["loss"]["name"] == "focal-smape"
    assert config["backbone"]["width"] == 4
    assert config["training"]["epochs"] == 2
    assert not (tmp_path / "run").exists()


def test_a_run_continues_another_one(pricekit, catalog, run, tmp_path):
    frame = pd.read_csv(catalog)
    more = pd.concat([frame, make_catalog(80, seed=50).assign(sample_id=lambda rows: rows.index + 10_000)])
    more.to_csv(tmp_path / "more.csv", index=False)
    arguments = "train", tmp_path / "more.csv", "--out", tmp_path / "new", "--init", run
    code, out, _ = pricekit(*arguments, "--dry-run")
    assert code == 0
    assert f'init = "{run}"' in out
    code, _, err = pricekit(*arguments)
    assert code == 0
    assert "kept: weights, tokenizer, optimized22, columns" in err
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "none", "--init", run)
    assert code == 1
    assert "0 rows of 400 are new" in err
    assert "--init" in err


def test_resume_uses_the_saved_settings(pricekit, catalog, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "run.json").unlink()
    code, _, err = pricekit("train", catalog, "--out", copy, "--resume")
    assert code == 0, err
    assert (copy / "run.json").exists()
    code, _, err = pricekit("train", catalog, "--out", copy, "--resume", "--epochs", "9")
    assert code == 2
    assert "Leave out epochs, or train into a new folder. Check --epochs." in " ".join(err.split())
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "none", "--resume", *TINY)
    assert (code, "no run in" in err) == (0, True)
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "none", "--resume", *TINY)
    assert code == 0, err


def test_an_existing_run_is_kept_without_overwrite(pricekit, catalog, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    code, _, err = pricekit("train", catalog, "--out", copy, *TINY)
    assert (code, "--overwrite" in err) == (1, True)
    code, _, err = pricekit("train", catalog, "--out", copy, "--overwrite", *TINY)
    assert code == 0, err


def test_names_repeat_and_join(pricekit, tmp_path):
    frame = pd.DataFrame(
        {"title": ["tea", "jam"] * 20, "size": ["1 kg", "2 kg", "3 kg", "4 kg"] * 10, "price": range(2, 42)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    joined = pricekit("check", tmp_path / "t.csv", "--text", "title,size", "--json")
    assert "--text title,size" in json.loads(joined[1])["command"]
    assert pricekit("check", tmp_path / "t.csv", "--text", "title", "--text", "size", "--json") == joined
    shown = [
        pricekit("config", "show", *words, "--track", "mlflow", "--track", "tensorboard")[1]
        for words in (["--features", "fast15,columns"], ["--features", "fast15", "--features", "columns"])
    ]
    assert shown[0] == shown[1]
    assert 'track = ["mlflow", "tensorboard"]' in shown[0]
    frame.to_csv(tmp_path / "headless.csv", index=False, header=False)
    names = [("--columns", "title,size,price"), ("--columns", "title", "--columns", "size,price")]
    read = [pricekit("check", tmp_path / "headless.csv", *words, "--json")[1] for words in names]
    assert json.loads(read[0])["columns"] == json.loads(read[1])["columns"]


def test_help_groups_the_commands_by_the_part_of_the_work(pricekit):
    code, shown, _ = pricekit("--help")
    titles = re.findall(r"^(Prepare|Train|Judge|Understand|Deploy|Extend):$", shown, re.M)
    assert (code, titles) == (0, ["Prepare", "Train", "Judge", "Understand", "Deploy", "Extend"])
    assert "  bundle" in shown.split("Deploy:")[1].split("Extend:")[0]


def test_plugins(pricekit):
    code, out, _ = pricekit("plugins", "list", "--json")
    assert code == 0
    assert {(p["kind"], p["name"]) for p in json.loads(out)} >= {("backbone", "bag"), ("policy", "quick")}
    code, out, _ = pricekit("plugins", "list", "--kind", "loss")
    assert "focal-smape" in out
    assert "bag" not in out
    code, out, _ = pricekit("plugins", "show", "focal-smape", "--json")
    assert json.loads(out)["options"][0]["default"] == 2.0
    for name in ("quick", "bag", "fast15"):
        code, out, err = pricekit("plugins", "show", name)
        assert code == 0, err
        assert "pricekit." in out
    code, _, err = pricekit("plugins", "show", "quik")
    assert (code, "Did you mean 'quick'" in err) == (3, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(pricekit, command):
    code, out, _ = pricekit(command, "--help")
    assert code == 0
    assert len(out.splitlines()) > 8
    assert "\\b" not in out


def test_wrong_usage_exits_with_2(pricekit):
    assert pricekit("train")[0] == 2
    assert pricekit("nonsense")[0] == 2
    assert pricekit("predict", "a", "b", "--out", "c", "--limit", "0")[0] == 2


def test_an_interrupt_exits_with_130(pricekit, catalog, run, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("pricekit.runs.train.fit", interrupted)
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run", *TINY)
    assert code == 130
    assert "--resume" in err


def test_a_terminated_prediction_keeps_its_finished_windows(
    pricekit, catalog, run, bundle, tmp_path, monkeypatch
):
    def terminated(parts, ids, prices, add=PredictionCheckpoint.add):
        add(parts, ids, prices)
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    given = ("predict", bundle, catalog, "--out", tmp_path / "prices.csv", "--engine", "ort-cpu")
    with monkeypatch.context() as patch:
        patch.setattr(PredictionCheckpoint, "add", terminated)
        code, _, err = pricekit(*given)
    assert (code, "with resume to continue" in " ".join(err.split())) == (130, True)
    assert signal.getsignal(signal.SIGTERM) is before
    code, _, err = pricekit(*given, "--resume")
    assert (code, "resuming after 1 window" in err) == (0, True)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from pricekit.cli.main import cli; cli(['--help'], standalone_mode=False);"
        "assert not {'torch', 'pandas', 'numpy', 'pydantic', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_run_interrupted_before_its_start_shows_no_resume_command(
    pricekit, catalog, run, tmp_path, monkeypatch
):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    old = shutil.copytree(run, tmp_path / "old")
    monkeypatch.setattr("pricekit.runs.prepare.load_split", interrupted)
    for line in (["--out", tmp_path / "new"], ["--out", old, "--overwrite"]):
        code, _, err = pricekit("train", catalog, *line)
        assert (code, "continue with" in err) == (130, False)
    code, _, err = pricekit("train", catalog, "--out", old, "--resume", "--time-budget", "2h")
    assert code == 130
    assert "--resume --time-budget 2h" in " ".join(err.split())


@pytest.mark.parametrize("flags", [["--overwrite"], ["--unpriced", "x.csv"], ["--teacher", "x"]])
def test_options_that_would_change_a_resumed_run_are_rejected(pricekit, catalog, run, flags):
    code, _, err = pricekit("train", catalog, "--out", run, "--resume", *flags)
    assert (code, f"Check {flags[0]}." in err) == (2, True)


@pytest.mark.examples
def test_the_demo_shows_prices(pricekit, tmp_path, monkeypatch):
    monkeypatch.setattr("pricekit.cli.demo.TRAINING", WITH_TREES)
    code, _, err = pricekit("demo", "--out", tmp_path / "demo", "--rows", "1000")
    assert code == 0, err
    assert "true price" in err
    assert "SMAPE of the 500 new products" in err
    code, _, err = pricekit(
        "demo", "--out", tmp_path / "demo", "--rows", "1000"
    )  # again, over its own folder
    assert code == 0, err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "products.csv").write_text("x")  # called as the demo's own
    code, _, err = pricekit("demo", "--out", tmp_path / "mine")
    assert (code, "contains files that are not from a demo" in err) == (1, True)
    assert (tmp_path / "mine" / "products.csv").read_text() == "x"


def test_an_unexpected_error_is_one_paragraph(pricekit, catalog, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("three\nlines\nlong")

    monkeypatch.setattr("pricekit.runs.prepare.load_split", broken)
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run")
    assert code == 1
    assert "unexpected error: ZeroDivisionError: three lines long" in err
    assert "PRICEKIT_TRACEBACK=1" in err


def test_a_missing_extra_is_named(catalog, tmp_path):
    code = "import sys; sys.modules['torch'] = None; from pricekit.cli.main import main; main()"
    command = [sys.executable, "-c", code, "train", catalog, "--out", tmp_path / "run"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip install 'pricekit[train]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_full_disk_is_reported_with_the_folder_and_a_fix(pricekit, run, tmp_path, monkeypatch):
    write = Path.write_bytes

    def full(path, content):
        if path.is_relative_to(tmp_path):
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, err = pricekit("export", run, "--out", tmp_path / "bundle")
    assert code == 4
    assert f"pricekit: {tmp_path / 'bundle'}: No space left on device; free some space" in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_no_better_than_a_constant_price_exits_with_5(pricekit, tmp_path):
    """The texts say nothing about the prices."""
    frame = make_catalog(120, seed=3)
    frame["price"] = np.exp(np.random.default_rng(0).normal(2, 1, len(frame)))
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = ["--epochs", "6", "--set", "training.learning_rate=0.1", "--set", "training.keep=last"]
    options += [
        "--features",
        "optimized22",
        "--no-refit",
        "--set",
        "backbone.buckets=512",
        "--set",
        "backbone.width=8",
    ]
    for command, out, more in (("train", tmp_path / "run", []), ("cv", tmp_path / "cv", ["--folds", "2"])):
        code, _, err = pricekit(command, tmp_path / "t.csv", "--out", out, *options, *more)
        assert (code, "not below that of a constant price" in " ".join(err.split())) == (5, True), err
    assert pricekit("predict", tmp_path / "run", tmp_path / "t.csv", "--out", tmp_path / "p.csv")[0] == 0
