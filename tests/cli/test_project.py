"""Commands in a folder with a project file, and the folders that they choose."""

import os
import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import pricekit as pk
from pricekit.cli.project import interrupted_run
from pricekit.datasets import make_catalog
from pricekit.io.record import advance_to

SETTINGS = """
features = ["optimized22", "columns"]
[table]
path = "shop.csv"
delimiter = ";"
decimal = ","
[columns]
text = ["title"]
price = "eur"
[training]
epochs = 1
[backbone]
vocab_size = 500
buckets = 64
width = 4
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a table and its project file; it becomes the current folder."""
    frame = make_catalog(60, seed=1)
    table = pd.DataFrame({"title": frame["catalog_content"].str.split("\n").str[0], "eur": frame["price"]})
    table.to_csv(tmp_path / "shop.csv", sep=";", decimal=",", index=False)
    (tmp_path / "pricekit.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_export_and_predict_need_no_path(pricekit, shop):
    code, _, err = pricekit("train", "--loss", "focal-smape")
    assert code == 0, err
    assert err.startswith("using pricekit.toml\nreading shop.csv\n")
    code, _, err = pricekit("train", "--loss", "smape")
    assert code == 0, err
    assert sorted(path.name for path in (shop / "runs").iterdir()) == ["quick-1", "quick-2"]
    config = tomllib.loads((shop / "runs" / "quick-1" / "config.toml").read_text())
    assert (config["training"]["epochs"], config["loss"]["name"]) == (1, "focal-smape")
    os.utime(shop / "runs" / "quick-1" / "pricekit.json", (2e9, 2e9))
    code, _, err = pricekit("export")
    assert code == 0, err
    assert "using runs/quick-1, the latest in runs/" in err
    assert (shop / "bundles" / "quick-1" / "manifest.json").is_file()
    given = ["shop.csv", "--out", "prices.csv", "--delimiter", ";", "--engine", "ort-cpu"]
    code, _, err = pricekit("predict", *given)
    assert code == 0, err
    assert "using bundles/quick-1, the latest in bundles/" in err
    assert len(pd.read_csv(shop / "prices.csv")) == 60


def test_options_and_configuration_files_override_it(pricekit, shop):
    (shop / "more.toml").write_text("[training]\nepochs = 2\nbatch_size = 8\n")
    code, out, err = pricekit("train", "--dry-run", "--config", "more.toml", "--set", "training.batch_size=4")
    assert code == 0, err
    config = tomllib.loads(out)
    assert config["training"]["epochs"] == 2
    assert config["training"]["batch_size"] == 4
    assert config["backbone"]["width"] == 4
    code, out, err = pricekit("config", "show")
    assert code == 0, err
    assert "epochs = 1" in out
    assert "file pricekit.toml" in out


def test_another_table_is_read_with_its_own_options(pricekit, shop, catalog):
    code, _, err = pricekit("check", catalog, "--text", "catalog_content", "--price", "price", "--json")
    assert code == 0, err


def test_check_writes_a_project_file(pricekit, shop):
    (shop / "pricekit.toml").unlink()
    code, _, err = pricekit("check", "shop.csv", "--price", "eur", "--write", "pricekit.toml")
    assert code == 0, err
    written = tomllib.loads((shop / "pricekit.toml").read_text())
    assert written == {"table": {"path": "shop.csv"}, "columns": {"text": ["title"], "price": "eur"}}
    code, out, err = pricekit("check")
    assert code == 0, err
    assert out.startswith("shop.csv: 60 rows")
    assert pricekit("check", "--write", "pricekit.toml")[0] == 0  # nothing changes
    code, out, err = pricekit("check", "--id", "eur", "--price", "eur", "--write", "pricekit.toml")
    assert (code, out, "--overwrite" in err) == (2, "", True)
    assert pricekit("check", "--write", "pricekit.toml", "--overwrite")[0] == 0


def test_the_written_file_is_that_of_the_python_function_and_trains(pricekit, shop):
    (shop / "pricekit.toml").unlink()
    code, _, err = pricekit("check", "shop.csv", "--write", "a.toml", "--price", "eur")
    assert code == 0, err
    pk.check("shop.csv", price="eur").write("b.toml")
    assert (shop / "a.toml").read_text() == (shop / "b.toml").read_text()
    (shop / "a.toml").replace(shop / "pricekit.toml")
    code, out, err = pricekit("train", "shop.csv", "--dry-run")
    assert code == 0, err
    assert tomllib.loads(out)["columns"]["text"] == ["title"]


def test_an_invalid_target_stops_before_the_table_is_read(pricekit, shop):
    (shop / "other.toml").write_text("[columns\n")
    code, out, err = pricekit("check", "--write", "other.toml")
    assert (code, out, "not valid TOML" in err) == (2, "", True)


def test_without_a_table_the_file_is_named(pricekit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = pricekit("train")
    assert (code, "check TABLE --write pricekit.toml" in err) == (2, True)
    for command, missing in ((["export"], "RUN"), (["predict", "new.csv", "--out", "p.csv"], "MODEL")):
        code, _, err = pricekit(*command)
        assert (code, f"Missing {missing}" in err) == (2, True)


def test_a_single_argument_that_is_a_model_is_not_a_table(pricekit, bundle, tmp_path):
    code, _, err = pricekit("predict", bundle, "--out", tmp_path / "prices.csv")
    assert (code, "Missing argument 'TABLE'" in err) == (2, True)


def test_a_mistake_in_the_project_file_is_wrong_usage(pricekit, shop):
    (shop / "pricekit.toml").write_text("[tabel]\npath = 'shop.csv'\n")
    code, _, err = pricekit("train")
    assert (code, "Did you mean 'table'?" in err) == (2, True)


def test_resume_uses_the_latest_run(pricekit, shop):
    assert pricekit("train")[0] == 0
    newer = shutil.copytree(shop / "runs" / "quick-1", shop / "runs" / "quick-0")
    advance_to(newer, "unfinished")
    shutil.copytree(newer, shop / "runs" / ".quick-1.new")
    for name, time in (("quick-1", 1e9), ("quick-0", 2e9), (".quick-1.new", 3e9)):
        os.utime(shop / "runs" / name / "config.toml", (time, time))
    assert interrupted_run() == Path("runs", "quick-1")
    for folder in (".quick-1.new", "quick-0"):
        shutil.rmtree(shop / "runs" / folder)
    (shop / "runs" / "quick-1" / "run.json").unlink()
    code, _, err = pricekit("train", "--resume")
    assert code == 0, err
    assert "using runs/quick-1" in err
    assert (shop / "runs" / "quick-1" / "run.json").is_file()
