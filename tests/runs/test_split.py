"""Sources of training: files, and frames in memory."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd

from conftest import tiny_config
from pricekit.datasets import make_catalog
from pricekit.errors import DataError
from pricekit.evaluation.held_out import read_held_out
from pricekit.features.fit import folds_of
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train

ONE_EPOCH = {"training": {"epochs": 1}}


def test_training_on_a_frame_equals_training_on_its_file(catalog, tmp_path):
    frame = pd.read_csv(catalog)
    from_frame = train(Source(frame), tiny_config(ONE_EPOCH), tmp_path / "frame")
    from_file = train(Source(catalog), tiny_config(ONE_EPOCH), tmp_path / "file")
    assert from_frame["metrics"] == from_file["metrics"]
    assert (from_frame["table"], from_file["table"]) == ("DataFrame", "products.csv")
    source = json.loads((tmp_path / "frame" / "source.json").read_text())
    assert (source["table"], source["valid"]) == ("DataFrame", None)
    assert json.loads((tmp_path / "frame" / "run.json").read_text())["table"] == "DataFrame"


def test_frames_to_validate_on_and_to_pseudo_label(run, catalog, tmp_path):
    valid = make_catalog(30, seed=9)
    unpriced = make_catalog(20, seed=10).drop(columns="price")
    source = Source(pd.read_csv(catalog), valid, unpriced=(unpriced,), teachers=(run,))
    facts = train(source, tiny_config(ONE_EPOCH), tmp_path / "run")
    assert facts["rows"] == {"train": 420, "valid": 30, "rejected": 0, "pseudo_labelled": 20}
    kept = json.loads((tmp_path / "run" / "source.json").read_text())
    assert (kept["valid"], kept["unpriced"]) == ("DataFrame", ["DataFrame"])
    assert np.allclose(np.sort(read_held_out(tmp_path / "run").price), np.sort(valid["price"]))


def test_a_run_on_a_frame_resumes_only_with_equal_rows(catalog, tmp_path):
    frame = pd.read_csv(catalog)
    split = load_split(Source(frame), tiny_config())
    assert split.digest() == load_split(Source(catalog), tiny_config()).digest()
    assert (
        split.digest() != load_split(Source(frame.assign(price=frame["price"] * 2)), tiny_config()).digest()
    )


def test_a_frame_without_usable_rows_is_named(tmp_path, raises):
    frame = pd.DataFrame({"catalog_content": ["tea"] * 12, "price": [None] * 12})
    with raises(DataError, "text", "price", reasons={"no price": 12}):
        train(Source(frame), tiny_config(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def packs(products=60):
    """Invented products, each in three sizes: texts that differ in numbers alone are near-duplicates."""
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "aeiou"])
    names = [" ".join(rng.choice(words, 10, replace=False)) for _ in range(products)]
    texts = [f"{name}, pack of {pack}" for name in names for pack in (6, 12, 24)]
    return pd.DataFrame({"catalog_content": texts, "price": rng.lognormal(2, 1, 3 * products)})


def sizes(products=60):
    """Products of short names in four sizes, whose prices follow the product."""
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}m" for a in "bcdfghjklnpr" for b in "aeiou"])
    names = [" ".join(rng.choice(words, 3, replace=False)) for _ in range(products)]
    level = rng.lognormal(2, 1, products)
    texts = [f"{name}, {size}" for name in names for size in ("250 g", "500g", "1 kg", "2 kg")]
    return pd.DataFrame(
        {"catalog_content": texts, "price": np.repeat(level, 4) * np.tile([1, 1.2, 1.5, 1.9], products)}
    )


def test_sizes_of_a_product_are_in_one_part_and_both_errors_are_said(logged):
    split = load_split(Source(sizes()), tiny_config())
    assert split.variants.products == 60
    assert len(split.valid) > 0
    assert not products_of(split.train) & products_of(split.valid)
    assert split.variants.new_product_smape > split.variants.known_product_smape
    assert "240 of 240 rows are variants, such as sizes, of 60 products" in logged()


def test_groups_of_the_user_decide_alone():
    frame = sizes().assign(row=range(240))
    split = load_split(Source(frame), tiny_config({"columns": {"group": "row"}}))
    assert split.variants is None
    assert products_of(split.train) & products_of(split.valid)


def products_of(table):
    return {text.split(",")[0] for text in table.text}


def test_near_duplicates_are_in_one_part_and_the_log_says_so(logged):
    split = load_split(Source(packs()), tiny_config())
    assert len(split.valid) > 0
    assert not products_of(split.train) & products_of(split.valid)
    held_out = f"{len(split.valid)} of 180 rows are held out to validate on"
    assert f"{held_out}; near-duplicates stay together: 180 rows in 60 groups" in logged()


def test_the_groups_of_the_split_are_those_of_the_out_of_fold_features():
    train_rows = load_split(Source(packs()), tiny_config()).train
    names = train_rows.text.str.split(",").str[0]
    assert (names.groupby(train_rows.cluster).nunique() == 1).all()
    fold = folds_of(train_rows)
    assert (pd.Series(fold).groupby(train_rows.cluster).nunique() == 1).all()
    assert (pd.Series(folds_of(replace(train_rows, cluster=None))).groupby(names).nunique() > 1).any()
