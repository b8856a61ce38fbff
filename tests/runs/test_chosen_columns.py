"""Columns that nobody names: training uses those that `check` suggests, and stores them."""

import fsspec
import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.config.layers import read_toml
from pricekit.errors import DataError
from pricekit.io import storage
from pricekit.runs import chosen_columns

TINY = {
    "epochs": 1,
    "max_length": 32,
    "refit": False,
    "features": ["fast15"],
    "settings": {
        "backbone.vocab_size": 300,
        "backbone.buckets": 64,
        "backbone.width": 4,
        "backbone.members": 1,
    },
}


def test_a_run_is_the_same_whether_its_table_is_read_early_or_late(tmp_path, monkeypatch):
    pk.make_catalog(120).to_csv(tmp_path / "products.csv", index=False)
    for out, most in (("early", 1 << 20), ("late", 1)):
        monkeypatch.setattr(chosen_columns, "MOST_BYTES", most)
        pk.train(tmp_path / "products.csv", out=tmp_path / out, **TINY)
    for name in ("config.toml", "split.parquet", "held_out.parquet"):
        assert (tmp_path / "early" / name).read_bytes() == (tmp_path / "late" / name).read_bytes()


def shop(rows=120, seed=0) -> pd.DataFrame:
    random = np.random.RandomState(seed)
    kinds, sizes = random.choice(["green tea", "plum jam", "dark ink"], rows), random.randint(1, 60, rows)
    price = np.round(sizes * random.uniform(0.2, 5, rows) + 1, 2)
    return pd.DataFrame(
        {
            "sku": [f"A-{seed}-{number:05d}" for number in range(rows)],
            "title": [f"{kind} number {random.randint(999)} of {random.randint(999)}" for kind in kinds],
            "size": [f"box of {size} g" for size in sizes],
            "picture": [f"https://shop.example/{number}.jpg" for number in range(rows)],
            "list_price": np.round(price * 1.19, 2),
            "price_eur": [f"{one:.2f} €" for one in price],
            "rows": random.randint(1, 4, rows),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "shop.csv"
    shop().to_csv(path, index=False)
    return path


def columns_of(folder, name="config.toml"):
    return read_toml(folder / name)["columns"]


def test_train_uses_what_check_suggests_and_says_why_others_are_left_out(table, logged, tmp_path):
    report = pk.check(table)
    logged()
    pk.train(table, out=tmp_path / "run", **TINY)
    said = logged()
    columns = columns_of(tmp_path / "run")
    assert columns == {"text": list(report.text), "price": "price_eur", "id": "sku"}
    assert {"picture", "list_price"}.isdisjoint(columns["text"])
    assert "columns of shop.csv, as check suggests them: text: title, " in said
    assert "; price: price_eur; id: sku" in said
    assert "picture (addresses of pages or images)" in said
    assert said.count("list_price") == 1
    assert "columns leak the price: 'list_price' (" in said
    assert "To choose others, name all text columns in text" in said


def test_the_chosen_columns_are_those_of_validation_tables_and_of_prediction(table, tmp_path):
    shop(40, seed=1).to_csv(tmp_path / "valid.csv", index=False)
    model = pk.train(table, valid=tmp_path / "valid.csv", out=tmp_path / "run", **TINY)
    assert len(model.held_out) == 40
    assert model.evaluate(tmp_path / "valid.csv").rows == 40
    columns = columns_of(tmp_path / "run")["text"]
    assert model.predict(shop(9, seed=2)[columns]).shape == (9,)


def test_a_resumed_run_keeps_its_columns(table, tmp_path, logged):
    pk.train(table, out=tmp_path / "run", text="title", price="price_eur", **TINY)
    logged()
    pk.train(table, out=tmp_path / "run", resume=True, **TINY)
    assert columns_of(tmp_path / "run")["text"] == ["title"]
    assert "as check suggests" not in logged()


@pytest.mark.parametrize(
    "named",
    [
        {"text": "size"},
        {"config": {"columns": {"text": ["size"]}}},
        {"settings": {**TINY["settings"], "columns.text": ["size"]}},
    ],
    ids=["option", "file", "setting"],
)
def test_named_columns_win(table, tmp_path, named):
    pk.train(table, out=tmp_path / "run", **(TINY | named))
    columns = columns_of(tmp_path / "run")
    assert columns["text"] == ["size"]
    assert columns["price"] == "price_eur"


def test_catalog_content_and_price_win_over_a_suggestion(tmp_path, logged):
    frame = shop().rename(columns={"title": "catalog_content"}).assign(price=shop()["price_eur"])
    pk.train(frame, out=tmp_path / "run", **TINY)
    assert columns_of(tmp_path / "run") == {"text": ["catalog_content"], "price": "price"}
    assert "as check suggests" not in logged()


def test_weights_are_no_text(table, tmp_path):
    pk.train(table, out=tmp_path / "run", weight="rows", **TINY)
    assert "rows" not in columns_of(tmp_path / "run")["text"]
    assert columns_of(tmp_path / "run")["weight"] == "rows"


def test_an_id_that_repeats_later_is_not_chosen(tmp_path):
    frame = pd.concat([shop(8192), shop(9)], ignore_index=True)
    model = pk.train(frame, out=tmp_path / "run", **TINY)
    assert "id" not in columns_of(tmp_path / "run")
    assert len(model.held_out) > 1000


def test_a_file_without_a_header_is_trained_on_and_priced(tmp_path, logged):
    shop().to_csv(tmp_path / "shop.csv", index=False, header=False)
    model = pk.train(tmp_path / "shop.csv", out=tmp_path / "run", **TINY)
    assert columns_of(tmp_path / "run")["price"] == "column6"
    assert "so its columns are called column1 and so on; set columns" in logged()
    assert model.evaluate(tmp_path / "shop.csv").rows == 120
    model.predict_file(tmp_path / "shop.csv", tmp_path / "prices.csv")
    assert len(pd.read_csv(tmp_path / "prices.csv")) == 120
    assert model.drift(tmp_path / "shop.csv").measures["missing_columns"].value == 0


def test_a_table_without_prices_or_text_says_what_is_missing(raises):
    with raises(DataError, "price", column="price"):
        pk.train(shop()[["title", "size"]], **TINY)
    with raises(DataError, "text"):
        pk.train(pd.DataFrame({"price": np.arange(1.0, 60), "size": np.arange(59)}), **TINY)


def test_a_cross_validation_stores_the_columns(table, tmp_path):
    pk.cross_validate(table, folds=2, out=tmp_path / "cv", **TINY)
    assert columns_of(tmp_path / "cv", "cv.toml")["text"] == list(pk.check(table).text)


def test_a_search_stores_the_columns(table, tmp_path):
    pytest.importorskip("optuna")
    tuning = pk.tune(table, trials=1, folds=2, out=tmp_path / "tuned", **TINY)
    assert columns_of(tuning.path, "tune.toml")["text"] == list(pk.check(table).text)


def test_a_pretraining_reads_the_columns(table, tmp_path):
    tiny = {"backbone.width": 16, "backbone.layers": 1, "backbone.heads": 2}
    folder = pk.pretrain(table, tmp_path / "weights", backbone="transformer", epochs=1, settings=tiny)
    settings = pd.read_json(folder / "pretrain.json", typ="series")["settings"]
    assert settings["text"] == list(pk.check(table).text)


def test_the_estimator_reads_what_check_suggests(logged):
    frame = shop()
    price = frame["price_eur"].str.rstrip(" €").astype(float)
    rows = frame.drop(columns="price_eur")
    model = pk.PriceRegressor(epochs=1, max_length=32, settings=TINY["settings"]).fit(rows, price)
    assert "picture (addresses of pages or images)" in logged()
    without = rows.assign(picture="", list_price=0.0)
    assert model.predict(without).tolist() == model.predict(rows).tolist()


def test_a_chosen_id_may_be_missing_later(table, tmp_path):
    model = pk.train(table, out=tmp_path / "run", **TINY)
    later = shop(30, seed=3).drop(columns="sku")
    assert model.evaluate(later).rows == 30
    later.to_csv(tmp_path / "later.csv", index=False)
    pk.train(table, valid=tmp_path / "later.csv", **TINY)
    model.predict_file(tmp_path / "later.csv", tmp_path / "prices.csv")
    assert pd.read_csv(tmp_path / "prices.csv").columns[0] == "row"


def test_a_remote_table_is_fetched_once(monkeypatch):
    fetched = []
    download = storage.download
    monkeypatch.setattr(storage, "download", lambda *each: (fetched.append(each[0].text), download(*each)))
    with fsspec.open("memory://chosen/shop.csv", "w") as file:
        shop().to_csv(file, index=False)
    pk.train("memory://chosen/shop.csv", **TINY)
    assert fetched == ["memory://chosen/shop.csv"]
