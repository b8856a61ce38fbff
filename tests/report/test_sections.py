"""What the sections of a report say."""

import pandas as pd
import pytest

import pricekit as pk
from pricekit.report.sections import sections_of, subject_of
from pricekit.runs.load import ModelReader


def _sections(model, table=None, against=(), **options):
    return {
        section.title: section.blocks
        for section in sections_of(subject_of(ModelReader(model), table, options, against))
    }


def _blocks(sections, kind):
    return [block for blocks in sections.values() for block in blocks if block.block == kind]


@pytest.fixture(scope="module")
def of_run(run, catalog):
    return _sections(run, catalog, against=[run])


def test_the_sections_come_in_a_fixed_order(of_run):
    assert list(of_run) == [
        "How good the prices are",
        "Where the prices fail",
        "Whether the price intervals hold",
        "The data",
        "How to reproduce this",
    ]


def test_the_first_section_has_the_metric_with_its_interval_and_a_baseline(of_run, run):
    (figures,) = _blocks(of_run, "figures")
    values = {figure.name: figure for figure in figures.figures}
    assert values["SMAPE"].value == f"{pk.load(run).metrics['smape']:.2f}"
    assert values["SMAPE"].note.startswith("95% interval ")
    assert float(values["the best constant price"].value) > 0
    assert values["rows"].value == "60"


def test_the_worst_rows_are_explained(of_run, run):
    (products,) = _blocks(of_run, "products")
    assert len(products.products) == 10
    worst = pk.load(run).evaluate(worst=1).worst
    first = products.products[0]
    assert first.title == worst["id"][0]
    assert "".join(piece.text for piece in first.pieces).startswith(worst["text"][0][:40])
    assert any(piece.effect > 0 for product in products.products for piece in product.pieces)
    assert any(piece.effect < 0 for product in products.products for piece in product.pieces)
    assert first.factors[0].startswith("× ")


def test_the_worst_rows_have_similar_products_of_the_training_table(of_run, catalog):
    (products,) = _blocks(of_run, "products")
    lines = [line for product in products.products for line in product.similar]
    names = pk.read_table(catalog).text.str.partition("\n")[0].str.removeprefix("Item Name: ")
    assert lines
    assert {line.partition("  ")[2].rstrip("…") for line in lines} <= {
        name[:89].rstrip() for name in names
    } | set(names)


def test_tables_name_groups_columns_plugins_and_the_difference(of_run):
    tables = {table.caption: table for table in _blocks(of_run, "table")}
    assert "Groups of rows" in tables
    assert "Models on the 60 rows that all of them hold out; differences are paired" in tables
    assert list(tables[next(c for c in tables if c.startswith("Columns of"))].rows[1][:2]) == [
        "catalog_content",
        "text",
    ]
    assert next(row[:2] for row in tables["Plugins"].rows if row[0] == "backbone") == ["backbone", "bag"]
    for table in tables.values():
        assert len(table.headers) == len(table.numeric)
        assert all(len(row) == len(table.headers) for row in table.rows)


def test_pictures_are_described_in_words(of_run):
    pictures = _blocks(of_run, "picture")
    assert len(pictures) >= 6
    assert all(picture.description and picture.caption for picture in pictures)


def test_the_last_section_has_the_settings_and_the_command(of_run):
    codes = [block.text for block in of_run["How to reproduce this"] if getattr(block, "kind", "") == "code"]
    assert 'name = "bag"' in codes[0]
    assert codes[1] == "pricekit train TABLE --config config.toml --out run"


def test_a_cross_validation_shows_its_folds(tmp_path):
    small = {"epochs": 1, "refit": False, "features": "fast15", "max_length": 32}
    cv = pk.cross_validate(pk.make_catalog(80), folds=2, out=tmp_path / "cv", **small)
    folds = next(table for table in _blocks(_sections(cv.path), "table") if table.caption == "Folds")
    assert [row[0] for row in folds.rows] == ["0", "1"]


@pytest.mark.parametrize("rows", [10, 40])
def test_few_rows_leave_sentences_instead_of_pictures(bundle, rows):
    sections = _sections(bundle, pk.make_catalog(rows, seed=5))
    texts = [block.text for block in _blocks(sections, "paragraph")]
    assert any(text.startswith("Not shown: ") for text in texts) == (rows < 20)


def test_one_price_is_not_an_error(bundle):
    table = pk.make_catalog(40, seed=5).assign(price=7.0)
    (figures,) = _blocks(_sections(bundle, table), "figures")
    assert {figure.name: figure.value for figure in figures.figures}["the best constant price"] == "0.00"
    assert "R² of the log price" not in {figure.name for figure in figures.figures}


def test_columns_whose_groups_differ_are_drawn(bundle):
    table = pk.make_catalog(200, seed=5)
    table["shelf"] = pd.Series(["left", "right"] * 100)
    captions = [picture.caption for picture in _blocks(_sections(bundle, table), "picture")]
    assert "The SMAPE by shelf." in captions
