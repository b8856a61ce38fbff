"""A model that reads a column of vectors: training, its bundle, and answers about it."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pricekit as pk
from conftest import TINY
from pricekit.config.layers import read_toml
from pricekit.errors import DataError

WIDTH = 20
VECTORS = np.random.default_rng(0).normal(size=(240, WIDTH)).astype(np.float32)


def shop() -> pd.DataFrame:
    """Products whose prices follow the first number of a vector."""
    table = pk.make_catalog(240)
    table["price"] = np.round(table["price"].astype(float) * np.exp(1.2 * VECTORS[:, 0]), 2) + 0.01
    return table.assign(seen=[None if row == 5 else vector for row, vector in enumerate(VECTORS)])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    settings = {"feature_options.vectors.components": WIDTH}
    run = pk.train(
        shop(),
        config={**TINY, "training": TINY["training"] | {"epochs": 8}},
        settings=settings,
        out=folder / "run",
    )
    run.export(folder / "bundle")
    return pk.load(folder / "bundle", engine="ort-cpu")


ROWS = shop().drop(columns="price").head(12)


def test_training_finds_the_vectors_and_the_report_names_them(model):
    config = read_toml(model.path.parent / "run" / "config.toml")
    assert config["columns"]["vectors"] == ["seen"]
    assert config["features"] == ["optimized22", "columns", "vectors"]
    assert config["feature_options"]["vectors"]["vectors"] == ["seen"]
    assert pk.check(shop()).train_arguments["vectors"] == ["seen"]


def test_named_texts_leave_vectors_out_unless_they_are_named(tmp_path, logged):
    tiny = {**TINY, "training": TINY["training"] | {"epochs": 1}}
    pk.train(shop(), text="catalog_content", config=tiny, out=tmp_path / "run")
    assert "columns of vectors that are not read: seen" in logged()
    assert "vectors" not in read_toml(tmp_path / "run" / "config.toml")["columns"]
    pk.train(shop(), settings={"columns.vectors": []}, config=tiny, out=tmp_path / "none")
    assert "vectors" not in read_toml(tmp_path / "none" / "config.toml")["features"]


def test_a_row_has_one_price_alone_and_in_every_kind_of_table(model, tmp_path):
    prices = model.predict(ROWS)
    alone = np.concatenate([model.predict(ROWS.iloc[[row]]) for row in range(len(ROWS))])
    assert np.array_equal(prices, alone)
    lists = [None if cell is None else cell.astype(float).tolist() for cell in ROWS["seen"]]
    fixed = pa.array(lists, pa.list_(pa.float32(), WIDTH))
    arrow = pa.table({"catalog_content": ROWS["catalog_content"], "seen": fixed})
    assert np.array_equal(model.predict(arrow), prices)
    ROWS.to_parquet(tmp_path / "new.parquet")
    written = ROWS.assign(seen=[None if each is None else json.dumps(each) for each in lists])
    written.to_csv(tmp_path / "new.csv", index=False)
    objects = ROWS.assign(seen=lists).to_dict("records")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    for name in ("new.parquet", "new.csv", "new.jsonl"):
        model.predict_file(tmp_path / name, tmp_path / f"{name}.prices.csv")
        assert np.array_equal(
            pd.read_csv(tmp_path / f"{name}.prices.csv")["price"].astype(np.float32), prices
        )


def test_prices_follow_the_vectors(model):
    low, high = (
        ROWS.assign(seen=[vector] * 12)
        for vector in VECTORS[[VECTORS[:, 0].argmin(), VECTORS[:, 0].argmax()]]
    )
    assert np.median(model.predict(high) / model.predict(low)) > 2
    missing = model.predict(ROWS.assign(seen=None))
    assert np.isfinite(missing).all()


def test_wrong_vectors_are_errors_that_name_the_row(model, raises):
    shorter = ROWS.assign(seen=[cell if row != 7 else cell[:9] for row, cell in enumerate(ROWS["seen"])])
    with raises(DataError, "table", column="seen", row=7, length=9, expected=WIDTH):
        model.predict(shorter)
    with raises(DataError, "features", column="seen"):
        model.predict(ROWS.drop(columns="seen"))
    ragged = shop()
    ragged.at[200, "seen"] = VECTORS[200, :7]
    with raises(DataError, "vectors", column="seen", length=7, expected=WIDTH):
        pk.train(ragged, vectors="seen", config=TINY)


def test_a_vector_is_one_part_of_an_explanation(model):
    explanation = model.explain(ROWS.head(2))[0]
    factors = [factor for factor in explanation.factors if factor.column == "seen"]
    assert [(factor.kind, factor.text) for factor in factors] == [("column", f"{WIDTH} numbers")]
    assert factors[0].factor != 1


def test_a_column_of_vectors_is_one_line_of_importance_and_of_drift(model):
    table = shop().head(200)
    importance = model.importance(table, repeats=1)
    assert importance.features["feature"].str.startswith("seen").sum() == 1
    assert importance.features["feature"].iloc[0] == "seen"
    assert importance.lines.set_index("line").loc["seen", "kind"] == "column"
    same, other = (model.drift(each) for each in (table, table.assign(seen=list(VECTORS[:200] * 3 + 2))))
    numbers = [drift.features[drift.features["name"].str.startswith("seen")] for drift in (same, other)]
    assert [len(each) for each in numbers] == [1, 1]
    assert numbers[0]["psi"].iloc[0] < 0.1 < numbers[1]["psi"].iloc[0]
    assert any("seen (PSI" in alarm for alarm in other.alarms)
    gone = model.drift(table.assign(seen=None)).missing.set_index("field")
    assert gone.loc["seen", "now"] == 1


def test_the_self_test_has_vectors(model):
    assert model.self_test().difference < 1e-5
    kept = json.loads((model.path / "self_test.json").read_text())
    cells = [row[kept["columns"].index("seen")] for row in kept["rows"]]
    assert {len(json.loads(cell)) for cell in cells if cell} == {WIDTH}
    assert cells.count("") == 1


def test_a_regressor_reads_vectors_of_a_frame():
    table = shop()
    names = ["catalog_content", "seen"]
    regressor = pk.PriceRegressor(config={**TINY, "training": TINY["training"] | {"epochs": 1}})
    regressor.fit(table[names], table["price"])
    prices = regressor.predict(table[names].head(5))
    assert len(set(prices)) == 5
    assert "vectors" in json.loads(regressor.bundle_["preprocess.json"])["features"][-1]["name"]
