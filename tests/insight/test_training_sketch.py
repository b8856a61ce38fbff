"""What of the training rows a sketch contains, and where it is kept."""

import json
import shutil

import numpy as np
import pytest

import pricekit as pk
from pricekit.errors import BundleError, TrainingError
from pricekit.insight.sketch import read_sketch
from pricekit.runs.load import load_model


@pytest.fixture(scope="module")
def sketch(run):
    return read_sketch((run / "sketch.json").read_bytes(), run)


def test_a_bundle_has_the_sketch_of_its_run(run, bundle, sketch):
    assert (bundle / "sketch.json").read_bytes() == (run / "sketch.json").read_bytes()
    assert "## Sketch of the training table" in (bundle / "README.md").read_text()
    assert load_model(bundle, "ort-cpu").sketch == load_model(run).sketch == sketch


def test_the_numbers_are_those_of_the_training_rows(run, sketch):
    assert sketch.rows == 340
    assert sum(sketch.features["value"].rows) == 340
    assert sum(sketch.prices.predicted.rows) == 60
    assert sketch.prices.smape == pytest.approx(pk.load(run).metrics["smape"], abs=0.001)
    assert sketch.words["item"] == 340


def test_no_word_and_no_value_of_few_rows_is_kept(sketch):
    assert min(sketch.words.values()) >= 5
    assert min(rows for field in sketch.fields.values() for rows in field.values.values()) >= 5


def test_no_text_of_a_row_is_kept(run, catalog):
    content = (run / "sketch.json").read_text()
    frame = pk.read_table(catalog).frame
    texts = frame["catalog_content"].str.split("\n").str[0].str.removeprefix("Item Name: ")
    assert not any(text.lower() in content.lower() for text in texts)


def test_features_that_remember_rows_are_known(tmp_path):
    """Each text has its own brand, which training rows know and new rows do not."""
    frame = pk.make_catalog(300, seed=2)
    brands = [f"Brand{n // 2} " for n in range(300)]
    frame["catalog_content"] = [
        text.replace("Item Name: ", f"Item Name: {brand}")
        for brand, text in zip(brands, frame["catalog_content"], strict=True)
    ]
    run = pk.train(frame, out=tmp_path / "run", features="fast15", epochs=1, refit=False)
    found = load_model(run.path).sketch.features
    assert found["brand"].own > 0.05
    assert found["word_count"].own == 0


def test_an_ensemble_has_the_sketch_of_its_first_member(run, tmp_path):
    made = pk.ensemble([run, shutil.copytree(run, tmp_path / "copy")], out=tmp_path / "two")
    own, first = load_model(made.path).sketch, load_model(run).sketch
    assert own.features == first.features
    assert own.prices is not None
    made.export(tmp_path / "bundle")
    assert load_model(tmp_path / "bundle", "ort-cpu").sketch == own


def test_a_damaged_sketch_is_named(run, tmp_path, raises):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "sketch.json").write_text("{}")
    with raises(TrainingError):
        pk.load(copy).predict(["tea"])
    listing = json.loads((copy / "files.json").read_text())
    assert "sketch.json" in json.dumps(listing)
    (copy / "files.json").unlink()
    with raises(BundleError):
        pk.load(copy).predict(["tea"])
    (copy / "sketch.json").unlink()
    with raises(TrainingError):
        pk.load(copy).predict(["tea"])


def test_of_many_rows_some_are_sketched():
    from pricekit.features.fit import some_rows
    from pricekit.insight.training_sketch import MOST_ROWS

    chosen = some_rows(MOST_ROWS + 5, MOST_ROWS)
    assert len(chosen) == MOST_ROWS
    assert (np.diff(chosen) > 0).all()
    assert some_rows(3, MOST_ROWS).tolist() == [0, 1, 2]
