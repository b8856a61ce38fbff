"""`Model.drift`: how it reads tables."""

import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError


def test_files_and_frames_give_the_same(bundle, tmp_path):
    frame = pk.make_catalog(120, seed=9)
    frame.to_csv(tmp_path / "t.csv", index=False)
    read, given = (pk.load(bundle, engine="ort-cpu").drift(table) for table in (tmp_path / "t.csv", frame))
    assert read.features["psi"].tolist() == pytest.approx(given.features["psi"].tolist(), abs=1e-6)
    assert read.measures["smape"].value == pytest.approx(given.measures["smape"].value, abs=1e-3)
    assert read.rows == given.rows == 120


def test_columns_may_have_other_names(bundle, raises):
    frame = pk.make_catalog(120, seed=9).rename(columns={"catalog_content": "title", "price": "cost"})
    found = pk.load(bundle, engine="ort-cpu").drift(frame, text="title", price="cost")
    assert found.measures["missing_columns"].value == 0
    assert found.measures["smape"].value is not None
    with raises(
        DataError, "price", column="nowhere", candidates=["sample_id", "title", "cost"], suggestion=None
    ):
        pk.load(bundle).drift(frame, text="title", price="nowhere")


def test_a_limit_is_checked_before_the_table_is_read(bundle, tmp_path, raises):
    with raises(ConfigError, "fail_over"):
        pk.load(bundle).drift(tmp_path / "absent.csv", fail_over=["pis=1"])


def test_a_page_is_written(bundle, tmp_path):
    pk.load(bundle, engine="ort-cpu").drift(pk.make_catalog(60), out=tmp_path / "d.html")
    assert "Drift of bundle" in (tmp_path / "d.html").read_text("utf-8")
