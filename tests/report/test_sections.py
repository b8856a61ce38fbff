"""What the sections of a report say."""

import re

import numpy as np
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
        "In short",
        "How good the prices are",
        "Where the prices fail",
        "Whether the price intervals hold",
        "Which prices may go out without a person",
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
    assert any(caption.startswith("Groups of rows") for caption in tables)
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


def _summary(sections):
    (summary,) = _blocks(sections, "summary")
    return [sentence for _, sentence in summary.sentences]


def _judged(bundle, factors, shelf, prices=None):
    """The report on rows whose true prices are the predictions divided by factors."""
    table = pk.make_catalog(len(factors), seed=5).assign(shelf=shelf)
    predicted = pk.load(bundle, "ort-cpu").predict(table) if prices is None else prices
    return _sections(bundle, table.assign(price=predicted / np.array(factors)))


def test_three_sentences_say_how_good_a_model_is_where_it_fails_and_what_to_do(bundle):
    shelf = ["left"] * 150 + ["right"] * 50
    good, fails, then = _summary(_judged(bundle, [1.1] * 150 + [2.0] * 50, shelf))
    assert good.startswith(
        "Half of the predictions are within 10% of the true price, over 200 rows of the table"
    )
    assert good.endswith("so the model is good.")
    assert "shelf is right (SMAPE 66.67, 50 rows, typically 100% too high)" in fails
    assert then.startswith("Add training rows where shelf is right")


def test_a_model_without_a_weakness_gets_no_invented_one(bundle):
    _, fails, then = _summary(_judged(bundle, [1.1] * 200, ["left", "right"] * 100))
    assert fails.startswith("No group of at least 20 rows has 1.25 times the SMAPE of all rows")
    assert then.startswith("Train with more rows")


def test_few_rows_with_most_of_the_error_come_first(bundle):
    _, _, then = _summary(_judged(bundle, [1.02] * 190 + [20.0] * 10, [f"b{n % 2}" for n in range(200)]))
    assert then.startswith("Look at the 10 rows with the largest errors below")


def test_a_model_no_better_than_a_constant_price_is_not_called_good(bundle):
    constant = np.full(200, 10.0) * np.tile([0.98, 1.02], 100)
    good, _, then = _summary(_judged(bundle, [1.0] * 200, ["left", "right"] * 100, constant))
    assert good.endswith("it is no better than a constant price.")
    assert then.startswith("Check the table first")


def test_too_few_rows_have_no_weak_group(bundle):
    _, fails, _ = _summary(_sections(bundle, pk.make_catalog(15, seed=5)))
    assert fails == "There are too few rows to tell: no group has 20."


def test_doubtful_true_prices_are_checked_first(run, catalog):
    table = pk.read_table(catalog).frame.assign(price=lambda frame: frame["price"].astype(float))
    other = table.assign(price=table["price"] * np.where(np.arange(len(table)) < 5, 1000, 1))
    other["sample_id"] = [f"other {place}" for place in range(len(other))]
    sections = _sections(run, other.head(60), among=table)
    assert _summary(sections)[2].startswith("Check the true prices of the rows with the largest errors")


def test_a_group_of_two_columns_is_shown_once(bundle):
    table = pk.make_catalog(200, seed=5)
    table["shelf"], table["handle"] = ["left", "right"] * 100, ["@l", "@r"] * 100
    sections = _sections(bundle, table)
    groups = next(table for table in _blocks(sections, "table") if table.caption.startswith("Groups"))
    named = [tuple(row[:2]) for row in groups.rows]
    assert ("shelf", "left = handle: @l") in named
    assert "handle" not in [by for by, _ in named]
    captions = [picture.caption for picture in _blocks(sections, "picture")]
    assert "The SMAPE by shelf." in captions
    assert "The SMAPE by handle." not in captions


def test_the_two_models_of_a_refit_are_not_mixed(tmp_path):
    table = pk.make_catalog(120)
    small = {"epochs": 2, "features": "fast15", "max_length": 32}
    sections = _sections(pk.train(table, out=tmp_path / "run", refit=True, **small).path)
    (products,) = _blocks(sections, "products")
    assert all("predicts" not in fact for product in products.products for fact in product.facts)
    assert all(
        product.why.startswith("The final model, which has also learned from this row, predicts")
        for product in products.products[:3]
    )


def test_without_a_refit_the_price_is_that_of_its_factors(of_run):
    (products,) = _blocks(of_run, "products")
    assert all(re.match(r"[\d.,]+ = [\d.,]+, the price", product.why) for product in products.products)
