import json
from dataclasses import replace

import pandas as pd
import pytest

from conftest import tiny_config
from pricekit.core.loader import registry
from pricekit.datasets import make_catalog
from pricekit.errors import DataError
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train
from tests.cli.test_commands import TINY

TWO = {"columns": {"text": ["catalog_content", "market"]}}


def split_of(frame, tmp_path, *layers, valid=None, allow_leak=False, **named):
    frame.to_csv(tmp_path / "t.csv", index=False)
    if valid is not None:
        valid.to_csv(tmp_path / "v.csv", index=False)
    source = Source(tmp_path / "t.csv", None if valid is None else tmp_path / "v.csv", allow_leak=allow_leak)
    return load_split(source, tiny_config(*layers), **named)


def with_market(rows=60):
    frame = make_catalog(rows, seed=2)
    return frame.assign(market=(frame["price"] * 1.2).round(1))


def test_a_column_that_the_model_reads_stops_training(tmp_path, logged, raises):
    with raises(DataError, "text", "allow_leak", columns=["market"]):
        split_of(with_market(), tmp_path, TWO)
    split = split_of(with_market(), tmp_path, TWO, allow_leak=True)
    assert split.leaks == ()
    assert "the model reads them, because leaks are allowed" in logged()


def test_all_leaks_of_a_table_are_named_at_once(tmp_path, raises):
    frame = with_market().assign(copy=lambda table: table["price"], gross=lambda table: table["price"] * 1.19)
    text = {"columns": {"text": ["catalog_content", "gross", "copy", "market"]}}
    with raises(DataError, "text", "allow_leak", columns=["market", "copy", "gross"]):
        split_of(frame, tmp_path, text)


def test_a_leaking_column_that_the_model_does_not_read_is_named(tmp_path, logged):
    assert split_of(with_market(), tmp_path).leaks == ("market",)
    assert "columns leak the price: 'market'" in logged()
    split_of(with_market(), tmp_path, resumed=[tmp_path])
    assert "market" not in logged()


def test_a_clean_table_causes_no_notices(tmp_path, logged):
    split = split_of(make_catalog(300, seed=2), tmp_path)
    assert split.leaks == ()
    assert logged() == "45 of 300 rows are held out to validate on"


def test_a_price_in_the_text_stops_training(tmp_path, logged, raises):
    frame = make_catalog(60, seed=2)
    frame["catalog_content"] += frame["price"].map("\nNow only ${:.2f}".format)
    with raises(DataError, "allow_leak", share=0.95):
        split_of(frame, tmp_path)
    split_of(frame, tmp_path, allow_leak=True)
    assert "texts contain their own price" in logged()


READS = """
import pandas as pd
from pricekit import plugin

@plugin.feature("reads")
class Reads(plugin.Feature):
    names = ("read",)
    columns = ("market",)
    def transform(self, table, state):
        return pd.to_numeric(table.frame["market"]).to_numpy("float32")[:, None]
"""


@pytest.mark.parametrize("column", ["market", "weight"])
def test_a_feature_that_reads_such_a_column_stops_training(tmp_path, monkeypatch, column, raises):
    (tmp_path / "reads.py").write_text(READS.replace("market", column))
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "reads.py"))
    registry.cache_clear()
    with_market(20).assign(weight=range(20)).to_csv(tmp_path / "t.csv", index=False)
    given = Source(tmp_path / "t.csv"), tiny_config({"features": ["reads"], "training": {"epochs": 1}})
    if column == "weight":
        train(*given, tmp_path / "run")
        return
    with raises(DataError, "features", "allow_leak", columns=["market"]):
        train(*given, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train(replace(given[0], allow_leak=True), given[1], tmp_path / "run")


def test_rows_shared_with_the_validation_table_are_counted(tmp_path, logged, raises):
    frame, other = make_catalog(60, seed=2), make_catalog(20, seed=3)
    shared = frame.head(5).assign(sample_id=range(100, 105))
    shared.loc[0, "price"] *= 2
    shared["catalog_content"] = shared["catalog_content"].str.upper() + "!"
    split_of(frame, tmp_path, valid=pd.concat([other, shared]))
    assert "5 of 25 validation rows have the text of a training row, 4 of them at the same price" in (
        " ".join(logged().split())
    )
    split_of(frame, tmp_path, valid=other)
    assert "validation rows" not in logged()
    with raises(DataError, "valid", "allow_leak", rows=20):
        split_of(frame, tmp_path, valid=frame.head(20))
    assert len(split_of(frame, tmp_path, valid=frame.head(20), allow_leak=True).valid) == 20


def test_equal_texts_stay_on_one_side_and_their_noise_is_reported(tmp_path, logged):
    frame = make_catalog(100, seed=2)
    twins = frame.head(40).assign(price=frame["price"].head(40) * 3, sample_id=range(100, 140))
    split = split_of(pd.concat([frame, twins]), tmp_path)
    assert not set(split.train.text) & set(split.valid.text)
    assert 10 <= len(split.valid) <= 32
    # One price for p and 3p: SMAPE 100 of one of both.
    assert (
        "80 rows have equal texts but different prices: no model of the text can reach a SMAPE below 50.0"
        in (logged())
    )


def test_prices_in_another_currency_validate_nothing(pricekit, tmp_path):
    for name, sign in (("usd", "$"), ("jpy", "¥"), ("bare", "")):
        rows = [f"{name} tea {n},{sign}{n + 1}.50" for n in range(12)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["catalog_content,price", *rows]))
    train = ("train", tmp_path / "usd.csv", "--out", tmp_path / "run", "--dry-run", "--valid")
    code, _, err = pricekit(*train, tmp_path / "jpy.csv")
    assert code == 1
    assert "Convert one of them, or use prices in the same currency" in " ".join(err.split())
    assert pricekit(*train, tmp_path / "bare.csv")[0] == 0


def test_a_model_is_not_scored_in_another_currency(pricekit, tmp_path):
    for name, sign in (("usd", "$"), ("jpy", "¥")):
        rows = [f"{name} tea {n * 7 % 12},{sign}{n + 1}.50" for n in range(12)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["catalog_content,price", *rows]))
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    assert pricekit("train", tmp_path / "usd.csv", "--out", run, "--allow-leak", *TINY)[0] == 0
    assert pricekit("export", run, "--out", bundle)[0] == 0
    assert json.loads(pricekit("bundle", "inspect", bundle, "--json")[1])["currency"] == "$"
    for model in (run, bundle):
        assert pricekit("evaluate", model, tmp_path / "usd.csv")[0] == 0
        code, _, err = pricekit("evaluate", model, tmp_path / "jpy.csv")
        assert (code, "Convert one of them, or use prices in the same currency" in " ".join(err.split())) == (
            1,
            True,
        )
