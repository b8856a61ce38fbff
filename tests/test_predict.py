import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import pricekit.predict as predict_module
from pricekit.errors import DataError
from pricekit.predict import Predictor
from pricekit.training.run import open_run


@pytest.fixture(scope="module")
def predictor(bundle):
    return Predictor.load(bundle)


@pytest.fixture(scope="module")
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()


def test_run_and_bundle_agree(run, predictor, texts):
    assert predictor.predict(texts) == pytest.approx(open_run(run).predictor().predict(texts), rel=1e-5)


def test_a_price_does_not_depend_on_the_company_a_row_keeps(predictor, texts):
    together = predictor.predict(texts)
    alone = np.concatenate([predictor.predict([text]) for text in texts[:40]])
    assert alone == pytest.approx(together[:40], rel=1e-6)
    order = np.random.default_rng(0).permutation(len(texts))
    assert predictor.predict([texts[i] for i in order]) == pytest.approx(together[order], rel=1e-6)


def test_prices_are_finite_and_positive_for_any_text(predictor):
    prices = predictor.predict(
        ["", " ", "\0", "☃" * 10_000, "9" * 5_000, "Value: 1e308\nUnit: Ounce", "a" * 300_000]
    )
    assert np.isfinite(prices).all()
    assert (prices > 0).all()
    assert prices.dtype == np.float32
    assert len(predictor.predict([])) == 0


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_every_row_gets_one_price_in_order(predictor, texts, catalog, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(predict_module, "WINDOW", 64)  # several windows
    out = tmp_path / f"prices.{suffix}"
    assert predictor.predict_file(catalog, out) == 400
    read = {"parquet": pd.read_parquet, "jsonl": lambda p: pd.read_json(p, lines=True)}
    found = read.get(suffix, lambda p: pd.read_csv(p, sep="\t" if suffix == "tsv" else ","))(out)
    assert found["sample_id"].astype(str).tolist() == pd.read_csv(catalog)["sample_id"].astype(str).tolist()
    assert found["price"].to_numpy() == pytest.approx(predictor.predict(texts), rel=1e-5)
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_a_failure_in_the_middle_leaves_no_output(predictor, catalog, tmp_path, monkeypatch):
    monkeypatch.setattr(predict_module, "WINDOW", 64)
    calls = []

    def fails_later(batch):
        calls.append(1)
        if len(calls) > 3:
            raise MemoryError
        return predictor.price_batch(batch)

    with pytest.raises(MemoryError):
        Predictor(predictor.preprocessor, fails_later).predict_file(catalog, tmp_path / "prices.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_id_column_becomes_row_numbers_and_is_said(predictor, catalog, tmp_path):
    pd.read_csv(catalog)[["catalog_content"]].to_csv(tmp_path / "t.csv", index=False)
    said = []
    predictor.predict_file(tmp_path / "t.csv", tmp_path / "p.csv", notices=said.append)
    assert pd.read_csv(tmp_path / "p.csv").iloc[:, 0].tolist() == list(range(400))
    assert any("row number" in s for s in said)


def test_unknown_categories_and_empty_texts_are_priced_and_counted(predictor, tmp_path):
    rows = {"sample_id": ["a", "b"], "catalog_content": ["Brand: Nobody\nCategory: Unheard Of", ""]}
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    said = []
    assert predictor.predict_file(tmp_path / "t.csv", tmp_path / "p.csv", notices=said.append) == 2
    assert said == ["1 of 2 rows have no text; they were priced all the same."]


def test_prediction_imports_no_torch(bundle, catalog, tmp_path):
    code = (
        "import sys; from pathlib import Path; from pricekit import Predictor;"
        "Predictor.load(sys.argv[1]).predict_file(Path(sys.argv[2]), Path(sys.argv[3]));"
        "assert not {'torch', 'transformers', 'onnx', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, bundle, catalog, tmp_path / "p.csv"], check=True)
    assert len(pd.read_csv(tmp_path / "p.csv")) == 400


def test_the_table_itself_is_never_overwritten(predictor, catalog, tmp_path):
    table = tmp_path / "t.csv"
    table.write_bytes(catalog.read_bytes())
    with pytest.raises(DataError, match="is the table itself"):
        predictor.predict_file(table, tmp_path / "." / "t.csv")
    assert table.read_bytes() == catalog.read_bytes()
