"""The rows of importance: of tables, of held-out rows, of the folds of a cross-validation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.answers import importance as module
from pricekit.answers.importance import cells_of, judged_parts, table_of
from pricekit.errors import ConfigError, DataError
from pricekit.evaluation.held_out import HELD_OUT, read_held_out
from pricekit.insight.parts import Cells
from pricekit.runs.load import ModelReader
from pricekit.table import Columns, read_frame
from pricekit.text.normal import normal_text

CELLS = st.sampled_from(["", "tea", "a\nb", "name", "x: y", "stars:", "\n", " mild \n"]).map(
    lambda cell: cell if cell.strip() else ""
)


def _priced(share):
    return share.predictor.prices(share.table)


def test_held_out_rows_have_the_prices_of_their_run(run):
    (share,) = judged_parts(ModelReader(run), None, {})
    held_out = read_held_out(run)
    assert share.table.known_price.tolist() == held_out.price.tolist()
    assert _priced(share) == pytest.approx(held_out.predicted, rel=1e-4)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4))
def test_texts_are_divided_into_the_cells_that_they_were_joined_from(given_cells):
    names = ("name", "notes", "stars")
    table = read_frame(pd.DataFrame(given_cells, columns=names), Columns(names, None, None))
    found = cells_of(table.text.tolist(), names)
    expected = [list(map(normal_text, cells)) for cells in given_cells]
    assert pd.DataFrame(found).to_numpy().tolist() == expected


def test_held_out_rows_of_several_columns_have_the_prices_of_their_run(tmp_path, logged):
    frame = pk.make_catalog(200).rename(columns={"catalog_content": "title"})
    frame = frame.assign(stars=np.arange(200) % 7 + 0.5)
    options = {"epochs": 1, "refit": False, "features": ["fast15", "columns"], "max_length": 32}
    run = pk.train(frame, text=["title", "stars"], out=tmp_path / "run", **options)
    (share,) = judged_parts(ModelReader(run.path), None, {})
    assert list(share.table.frame)[:2] == ["title", "stars"]
    assert _priced(share) == pytest.approx(read_held_out(run.path).predicted, rel=1e-4)
    logged()
    (table,) = judged_parts(ModelReader(run.path), frame, {"limit": 30})
    assert len(table.table) == 30
    assert "so it probably also contains training rows" in logged()


def test_columns_that_held_out_rows_lack_are_reported(run, monkeypatch, logged):
    held_out = read_held_out(run)
    judged_parts(ModelReader(run), None, {})
    assert "does not contain" not in logged()
    other = replace(held_out, predicted=1.1 * held_out.predicted)  # a feature that saw more priced it
    monkeypatch.setattr(module, "read_held_out", lambda _: other)
    judged_parts(ModelReader(run), None, {})
    assert f"read columns that {HELD_OUT} does not contain" in logged()


def test_each_fold_prices_its_own_rows(catalog, tmp_path):
    options = {"epochs": 1, "features": ["fast15"], "max_length": 16, "folds": 2}
    cv = pk.cross_validate(catalog, out=tmp_path / "cv", **options)
    shares = judged_parts(ModelReader(cv.path), None, {})
    held_out = read_held_out(cv.path)
    assert len(shares) == 2
    for fold, share in enumerate(shares):
        assert _priced(share) == pytest.approx(held_out.predicted[held_out.fold == fold], rel=1e-4)


def test_a_refit_is_reported(tmp_path, logged):
    run = pk.train(pk.make_catalog(100), epochs=1, features="fast15", refit=True, out=tmp_path / "run")
    logged()
    judged_parts(ModelReader(run.path), None, {})
    assert "the score is too optimistic; add a table with other rows" in logged()


def test_many_rows_are_drawn_by_chance_but_always_the_same(run, monkeypatch, logged):
    monkeypatch.setattr(module, "MOST_ROWS", 12)
    first, again = (judged_parts(ModelReader(run), None, {})[0].table.ids.tolist() for _ in range(2))
    assert len(first) == 12
    assert first == again
    assert first != read_held_out(run).ids.tolist()[:12]
    assert "importance is measured on a random sample of 12 of the 60 rows" in logged()


def test_a_table_of_held_out_rows_keeps_groups_and_weights(rows):
    held_out = rows(4, shop=list("abab"))
    found = table_of(held_out, Columns(("title",), "price", None))
    assert list(found.frame) == ["title", "shop"]
    assert found.text.tolist() == held_out.text.tolist()
    assert found.weight is None


def test_wrong_input_is_one_sentence(bundle, run, raises):
    frame = pk.make_catalog(3)
    with raises(DataError):
        judged_parts(ModelReader(bundle), None, {})
    with raises(DataError, "table", rows=1):
        judged_parts(ModelReader(bundle), frame[:1], {})
    with raises(ConfigError, "limit"):
        judged_parts(ModelReader(run), None, {"limit": 5})


def test_numbers_of_held_out_rows_are_read_as_they_are_stored(tmp_path, logged):
    weight = [f"{1 + row / 8:.{1 + 2 * (row % 2)}f}".replace(".", ",") for row in range(100)]
    frame = pd.DataFrame(
        {"name": [f"tea {row % 9}" for row in range(100)], "weight": weight, "price": range(1, 101)}
    )
    options = {"epochs": 1, "refit": False, "features": "fast15", "max_length": 32}
    run = pk.train(frame, text=["name", "weight"], price="price", out=tmp_path / "run", **options)
    (rows,) = judged_parts(ModelReader(run.path), None, {})
    same = np.arange(len(rows.table))
    assert rows.table.text.str.contains(r"\d\.\d{3}$").any()
    assert Cells(rows.table, rows.columns).swapped("weight", same).text.tolist() == rows.table.text.tolist()
    run.report(out=tmp_path / "report.html")
    run.export(tmp_path / "bundle")
    assert pk.load(tmp_path / "bundle").self_test().rows
    assert "contradict" not in logged()
