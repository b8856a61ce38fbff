"""The command `explain`."""

import json

import pytest

import pricekit as pk


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_the_screen_shows_price_base_and_the_largest_factors(pricekit, bundle, catalog):
    code, out, err = pricekit("explain", bundle, catalog, "--engine", "ort-cpu", "--evaluations", 60)
    assert code == 0
    assert out.count(" × the factors of") == 5
    assert "▲" in out
    assert "▼" in out
    assert " other parts" in out
    assert "these are the first 5 rows; choose others with --row or --limit" in err


def test_json_has_one_object_per_row(pricekit, bundle, catalog):
    ids = pk.read_table(catalog).ids
    code, out, _ = pricekit(
        "explain", bundle, catalog, "--engine", "ort-cpu", "--row", ids[3], "--row", ids[1], "--json"
    )
    rows = list(map(json.loads, out.splitlines()))
    assert code == 0
    assert [row["id"] for row in rows] == [ids[1], ids[3]]


def test_control_characters_do_not_reach_the_terminal(pricekit, bundle, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("sample_id,catalog_content\n7,Tea \x1b[2J red [bold]mild[/bold]\n", "utf-8")
    code, out, _ = pricekit("explain", bundle, table, "--engine", "ort-cpu")
    assert code == 0
    assert "\x1b[2J" not in out
    assert "[bold]" in out


def test_an_unknown_row_is_one_sentence(pricekit, bundle, catalog):
    code, out, err = pricekit("explain", bundle, catalog, "--row", "nowhere")
    assert (code, out) == (1, "")
    assert "no row with the id nowhere" in err
    assert "--row" in err
