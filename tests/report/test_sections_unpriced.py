"""The report on a table without prices."""

from pathlib import Path

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import ConfigError, DataError
from pricekit.report.sections import sections_for
from pricekit.runs.load import ModelReader

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"


def _sections(model, table, **options):
    among = options.pop("among", None)
    return {
        section.title: section.blocks
        for section in sections_for(ModelReader(model), table, options | {"among": among})
    }


def _texts(sections):
    return " ".join(
        block.text for blocks in sections.values() for block in blocks if block.block == "paragraph"
    )


@pytest.fixture(scope="module")
def table():
    return pk.make_catalog(30, seed=5).drop(columns="price")


def test_it_says_what_cannot_be_said_and_shows_the_predicted_prices(run, table):
    found = _sections(run, table)
    assert list(found) == [
        "In short",
        "What was predicted",
        "Which prices to doubt",
        "The price intervals",
        "The data",
        "How to reproduce this",
    ]
    assert "The table has no prices" in found["What was predicted"][0].text
    sentences = [sentence for _, sentence in found["In short"][0].sentences]
    assert "on the held-out rows of the training, the SMAPE was" in sentences[0]
    assert sentences[1].startswith("Without products with known prices")
    quantiles = next(block for block in found["What was predicted"] if block.block == "table").rows
    expected = pk.load(run).predict(table)
    assert float(quantiles[0][1]) == pytest.approx(expected.min(), rel=0.01)
    assert float(quantiles[-1][1]) == pytest.approx(expected.max(), rel=0.01)


def test_without_products_the_extreme_prices_are_explained(run, table):
    (rows,) = (block for block in _sections(run, table)["Which prices to doubt"] if block.block == "products")
    prices = pk.load(run).predict(table)
    assert len(rows.products) == 10
    assert rows.products[0].title == str(table["sample_id"].iloc[prices.argmax()])
    assert rows.products[-1].title == str(table["sample_id"].iloc[prices.argmin()])
    assert rows.products[0].factors


def test_prices_far_from_similar_products_come_first(run, table):
    cheap = table.assign(price=0.01)
    cheap["sample_id"] = [f"other{place}" for place in range(len(cheap))]
    copies = pd.concat([cheap.assign(sample_id=cheap["sample_id"] + str(copy)) for copy in range(3)])
    found = _sections(run, table, among=copies)["Which prices to doubt"]
    assert found[0].text.startswith("Of 30 rows, 30 have a predicted price that is far from")
    assert len(found[1].products) == 10
    assert found[1].products[0].similar
    assert "median of similar products 0.01" in found[1].products[0].facts
    assert found[1].products[0].title == str(table["sample_id"].iloc[pk.load(run).predict(table).argmax()])


def test_the_data_are_described_without_prices(run, table):
    found = _sections(run, table)["The data"]
    assert any(block.block == "table" and block.caption.startswith("Columns of ") for block in found)


def test_a_file_with_prices_is_compared_with_them(run, tmp_path):
    pk.make_catalog(30, seed=5).to_csv(tmp_path / "priced.csv", index=False)
    pk.make_catalog(30, seed=5).drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    for model in (run, GOLDEN):
        assert "What was predicted" not in _sections(model, tmp_path / "priced.csv")
        assert "What was predicted" in _sections(model, tmp_path / "new.csv")


def test_what_needs_prices_is_refused_in_one_sentence(run, table, raises):
    with raises(ConfigError, "against"):
        sections_for(ModelReader(run), table, {}, against=[run])
    with raises(ConfigError, "metric"):
        sections_for(ModelReader(run), table, {"metric": "rmsle"})
    with raises(
        DataError, "price", column="cost", candidates=["sample_id", "catalog_content"], suggestion=None
    ):
        _sections(run, table, price="cost")
    with raises(DataError, "table"):
        _sections(run, table.head(0))
    with raises(ConfigError, "decimal"):
        sections_for(ModelReader(run), None, {"decimal": ","})
