"""The command `comparables`."""

import json

import pytest

import pricekit as pk


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")


def test_the_screen_shows_price_similarity_and_name(pricekit, bundle, catalog):
    code, out, err = pricekit("comparables", bundle, catalog, "--among", catalog, "--engine", "ort-cpu")
    assert code == 0
    assert out.count("  predicted ") == 5
    assert out.count("median of similar products ") >= 3
    assert " / 100 g" in out or " / piece" in out
    assert "these are the first 5 rows; choose others with --row or --limit" in err


def test_json_has_one_object_per_row(pricekit, bundle, catalog):
    ids = pk.read_table(catalog).ids
    words = ("--among", catalog, "--engine", "ort-cpu", "-k", 2, "--same", "unit", "--row", ids[3], "--json")
    code, out, _ = pricekit("comparables", bundle, catalog, *words)
    (row,) = map(json.loads, out.splitlines())
    assert code == 0
    assert (row["id"], len(row["products"])) == (ids[3], 2)
    assert ids[3] not in {product["id"] for product in row["products"]}


def test_control_characters_do_not_reach_the_terminal(pricekit, bundle, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "sample_id,catalog_content,price\n7,Tea \x1b[2J [bold]mild[/bold],2\n8,Tea \x1b[2J,3\n", "utf-8"
    )
    code, out, _ = pricekit("comparables", bundle, table, "--among", table, "--engine", "ort-cpu")
    assert code == 0
    assert "\x1b[2J" not in out
    assert "[bold]" in out


def test_a_bundle_without_products_is_one_sentence(pricekit, bundle, catalog):
    code, out, err = pricekit("comparables", bundle, catalog, "--engine", "ort-cpu")
    assert (code, out) == (2, "")
    assert "this model contains no products to compare with" in err
    assert "--among" in err
