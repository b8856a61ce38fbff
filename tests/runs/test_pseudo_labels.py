import json

import numpy as np
import pandas as pd
import pytest

from conftest import tiny_config
from pricekit.datasets import make_catalog
from pricekit.errors import DataError
from pricekit.runs.cross_validation import cross_validate
from pricekit.runs.opened import open_run
from pricekit.runs.pseudo_labels import (
    MAX_RATIO,
    add_pseudo_labels,
    pseudo_label,
    read_pseudo_labelled,
    read_unpriced,
)
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train
from pricekit.table import DEFAULT_READ_OPTIONS, Columns, table_of_texts

ONE_EPOCH = {"training": {"epochs": 1}, "backbone": {"members": 1, "width": 4}}


class Teacher:
    """Prices each text by its length."""

    def predict(self, rows):
        return rows.text.str.len().to_numpy(np.float32)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """A table of 60 other products without prices."""
    path = tmp_path_factory.mktemp("tables") / "new.csv"
    make_catalog(60, seed=8).drop(columns="price").to_csv(path, index=False)
    return path


def test_unpriced_rows_are_those_with_a_text_and_no_price(tmp_path, new, raises):
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("catalog_content,price\nTea,3\nCoffee,\n,\nCocoa,\n")
    assert read_unpriced([mixed], Columns(), DEFAULT_READ_OPTIONS).text.tolist() == ["Coffee", "Cocoa"]
    assert len(read_unpriced([mixed, new], Columns(), DEFAULT_READ_OPTIONS)) == 62
    mixed.write_text("catalog_content,price\nTea,3\n")
    with raises(DataError, "unpriced"):
        read_unpriced([mixed], Columns(), DEFAULT_READ_OPTIONS)


def test_pseudo_labels_are_geometric_means_and_known_texts_are_left_out(raises):
    known = table_of_texts(["tea", "coffee"], "catalog_content")
    new = table_of_texts(["tea", "cocoa", "cocoa", "juice!!"], "catalog_content")
    tenfold = type("Tenfold", (), {"predict": lambda self, rows: 100 * Teacher().predict(rows)})()
    pseudo_labelled = pseudo_label(known, new, [Teacher(), tenfold], Columns(), 0)
    assert pseudo_labelled.text.tolist() == ["cocoa", "juice!!"]
    assert pseudo_labelled.price == pytest.approx([50, 70])
    many = table_of_texts([f"text {n}" for n in range(50)], "catalog_content")
    assert len(pseudo_label(known, many, [Teacher()], Columns(), 0)) == MAX_RATIO * len(known)
    with raises(DataError, "unpriced"):
        pseudo_label(known, known, [Teacher()], Columns(), 0)


def test_a_student_trains_on_both_kinds_of_rows_and_validates_on_true_prices(run, catalog, new, tmp_path):
    source = Source(catalog, unpriced=(new,), teachers=(run,))
    facts = train(source, tiny_config(ONE_EPOCH), tmp_path / "student")
    plain = load_split(Source(catalog), tiny_config(ONE_EPOCH))
    assert facts["rows"]["pseudo_labelled"] == 60
    assert facts["rows"]["train"] == len(plain.train) + 60
    assert facts["rows"]["valid"] == len(plain.valid)
    pseudo_labelled = read_pseudo_labelled(tmp_path / "student")
    assert pseudo_labelled.known_price == pytest.approx(
        open_run(run).predictor().predict(pseudo_labelled.text.tolist()), rel=1e-6
    )
    told = json.loads((tmp_path / "student" / "source.json").read_text())
    assert told["unpriced"] == ["new.csv"]
    resumed = add_pseudo_labels(Source(catalog), plain, tiny_config(ONE_EPOCH), tmp_path / "student")
    assert told["digest"] == resumed.digest()


def test_a_student_killed_before_its_first_checkpoint_keeps_its_pseudo_labelled_rows(
    run, catalog, new, tmp_path, monkeypatch, pricekit, raises
):
    source, out = Source(catalog, unpriced=(new,), teachers=(run,)), tmp_path / "student"
    config = tiny_config(ONE_EPOCH)
    whole = train(source, config, tmp_path / "whole")
    with monkeypatch.context() as broken:
        broken.setattr("pricekit.training.loop.save_checkpoint", _full)
        with raises(OSError):
            train(source, config, out)
    code, _, err = pricekit("train", catalog, "--out", out, "--resume")
    assert code == 0, err
    assert "has no checkpoint: its first epoch is repeated" in " ".join(err.split())
    facts = json.loads((out / "run.json").read_text())
    assert facts["rows"] == whole["rows"]
    assert facts["metrics"] == whole["metrics"]


def _full(*_, **__):
    raise OSError("full")


def test_a_teacher_that_saw_the_validation_rows_causes_a_warning(
    pricekit, run, bundle, catalog, new, tmp_path
):
    flags = ["--epochs", "1", "--no-refit", "--features", "optimized22", "--unpriced", new, "--dry-run"]
    code, _, err = pricekit(
        "train", catalog, "--out", tmp_path / "a", *flags[:-1], "--teacher", run, "--seed", 5
    )
    assert code == 0
    assert "validation rows, so validation metrics are optimistic" in " ".join(err.split())
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "b", *flags[:-1], "--teacher", bundle)
    assert code == 0
    assert "does not record its training rows" in " ".join(err.split())
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "c", *flags[:-1])
    assert code == 2
    assert "set both or neither" in " ".join(err.split())


def test_a_dry_run_counts_the_pseudo_labelled_rows(pricekit, run, catalog, new, tmp_path):
    pseudo_labelled = [
        "--unpriced",
        new,
        "--teacher",
        run,
        "--set",
        "training.batch_size=12",
    ]  # 34 steps an epoch
    code, out, err = pricekit("train", catalog, "--out", tmp_path / "a", "--dry-run", *pseudo_labelled)
    assert (code, f"{340 + 60} rows to train on" in err) == (0, True), err
    assert "epochs = 30\n" in out


def test_a_teacher_of_another_currency_is_refused(catalog, new, tmp_path, raises):
    folders = {}
    for sign in ("$", "€"):
        frame = pd.read_csv(catalog)
        frame["price"] = sign + frame["price"].astype(str)
        folders[sign] = tmp_path / f"{sign}.csv"
        frame.to_csv(folders[sign], index=False)
    train(Source(folders["€"]), tiny_config(ONE_EPOCH), tmp_path / "teacher")
    source = Source(folders["$"], unpriced=(new,), teachers=(tmp_path / "teacher",))
    with raises(DataError, "currency", expected="$", found="EUR"):
        train(source, tiny_config(ONE_EPOCH), tmp_path / "student")
    assert not (tmp_path / "student").exists()


def test_the_teacher_of_a_fold_has_not_seen_its_rows(pricekit, catalog, new, run, tmp_path):
    config = tiny_config(ONE_EPOCH, {"training": {"keep": "last"}, "speed": {"progress": False}})
    cross_validate(Source(catalog), config, tmp_path / "teacher", 2)
    source = Source(catalog, unpriced=(new,), teachers=(tmp_path / "teacher",))
    cross_validate(source, config, tmp_path / "student", 2)
    for fold in ("fold-0", "fold-1"):
        pseudo_labelled = read_pseudo_labelled(tmp_path / "student" / fold)
        expected = open_run(tmp_path / "teacher" / fold).predictor().predict(pseudo_labelled.text.tolist())
        assert pseudo_labelled.known_price == pytest.approx(expected, rel=1e-6)
    before = pd.read_parquet(tmp_path / "student" / "held_out.parquet")
    cross_validate(Source(catalog), config, tmp_path / "student", 2, mode="resume")
    assert pd.read_parquet(tmp_path / "student" / "held_out.parquet").equals(before)
    for wrong, said in (
        (run, "is not a cross-validation"),
        (tmp_path / "teacher", "different rows or folds"),
    ):
        code, _, err = pricekit(
            "cv", catalog, "--out", tmp_path / "x", "--folds", 3, "--unpriced", new, "--teacher", wrong
        )
        assert code == 1
        assert said in " ".join(err.split())
