import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from conftest import tiny_config
from pricekit.export.export import export_run
from pricekit.features.fit import fit_features
from pricekit.features.preprocess import SHORT_LINE_CHARACTERS, Preprocessor, short_lines_first
from pricekit.predict.predictor import Predictor
from pricekit.runs.opened import open_run
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.table import Columns, read_table


def test_short_lines_come_directly_after_the_first():
    prose = "Bullet Point 1: " + "soft " * 20
    text = f"Item Name: {'Tea ' * 20}\n{prose}\nBullet Point 2: organic\n{prose}\nValue: 12.0\nUnit: Ounce"
    lines = short_lines_first(text).split("\n")
    assert lines[1:4] == ["Bullet Point 2: organic", "Value: 12.0", "Unit: Ounce"]
    assert lines[0].startswith("Item Name")
    assert lines[4:] == [prose, prose]


@given(st.text(alphabet="ab\n", max_size=400))
def test_no_line_is_lost_and_a_second_call_changes_nothing(text):
    once = short_lines_first(text)
    assert sorted(once.split("\n")) == sorted(text.split("\n"))
    assert short_lines_first(once) == once
    assert once.split("\n")[0] == text.split("\n")[0]
    short = [len(line) <= SHORT_LINE_CHARACTERS for line in once.split("\n")[1:]]
    assert short == sorted(short, reverse=True)


@pytest.mark.parametrize("facts_first", [True, False])
def test_run_and_bundle_read_facts_first(catalog, tmp_path, facts_first):
    layer = {"facts_first": facts_first, "max_length": 16, "training": {"epochs": 1}}
    train(Source(catalog), tiny_config(layer), tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "bundle")
    texts = pd.read_csv(catalog)["catalog_content"].tolist()[:20]
    long = [f"{text.splitlines()[0]}\n{'prose ' * 60}\n" for text in texts]
    predictor = Predictor.load(tmp_path / "bundle", "ort-cpu")
    prices = predictor.predict([text + "Value: 900\nUnit: Ounce" for text in long])
    rearranged = [f"{text.splitlines()[0]}\nValue: 900\nUnit: Ounce\n{'prose ' * 60}" for text in texts]
    same = np.isclose(prices, open_run(tmp_path / "run").predictor().predict(rearranged), rtol=1e-3)
    assert same.all() == facts_first
    first, second = (
        predictor.members[0].preprocessor(predictor_table).tokens.ids.tolist()
        for predictor_table in map(_table, (long[0] + "Value: 900", long[0] + "Value: 1"))
    )
    assert (first != second) == facts_first  # what stands behind the long line is read


def _table(text):
    from pricekit.table import table_of_texts

    return table_of_texts([text], "catalog_content")


@pytest.mark.parametrize("cpus", [1, 3])
def test_parts_of_a_table_have_the_features_of_the_whole(catalog, monkeypatch, cpus):
    columns = Columns(price=None)
    table = read_table(catalog, columns)
    features, _ = fit_features(["optimized22", "columns"], {}, table)
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "Item": 1}, "?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    preprocessor = Preprocessor(columns, tokenizer, 16, 0, features)
    whole, sizes = preprocessor(table), []
    transform = features.__class__.transform
    monkeypatch.setattr(
        features.__class__, "transform", lambda self, part: sizes.append(len(part)) or transform(self, part)
    )
    monkeypatch.setattr("pricekit.features.preprocess.PART_ROWS", 50)
    monkeypatch.setattr("pricekit.io.cpus.usable_cpus", lambda: cpus)
    parts = preprocessor(table)
    assert max(sizes) == 50
    assert sum(sizes) == len(table) > 100
    assert np.array_equal(parts.features, whole.features)
    assert np.array_equal(parts.tokens.ids, whole.tokens.ids)
