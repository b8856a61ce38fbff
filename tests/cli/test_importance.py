"""The command `importance`."""

import json

import pytest

import pricekit as pk


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit_the_terminal(pricekit, run, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, err = pricekit("importance", run, "--repeats", 1)
    assert (code, out) == (0, "")
    tables = [line for line in err.splitlines() if line and line[0] in "┏┃┡│└"]
    assert max(map(len, tables)) <= width
    assert sum(line.startswith("┏") for line in tables) == 3
    for title in (
        "Features by increase of SMAPE; 15 of ",
        "Lines by increase of SMAPE",
        "Words in 60 explained",
    ):
        assert title in err
    assert "60 rows, SMAPE " in err
    assert "Item Name" in err


def test_json_is_one_object(pricekit, bundle, catalog):
    code, out, _ = pricekit(
        "importance", bundle, catalog, "--limit", 30, "--repeats", 1, "--metric", "mae", "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert (found["rows"], found["metric"]) == (30, "mae")
    assert {"features", "lines", "words"} <= set(found)


def test_control_characters_do_not_reach_the_terminal(pricekit, bundle, tmp_path):
    frame = pk.make_catalog(20)
    frame["catalog_content"] += "\n\x1b[2J[bold]: " + frame["sample_id"].astype(str)
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = pricekit("importance", bundle, tmp_path / "t.csv", "--repeats", 1)
    assert code == 0
    assert "\x1b[2J" not in err
    assert "[bold]" in err


def test_wrong_input_is_one_sentence(pricekit, bundle, run, tmp_path):
    pk.make_catalog(1).to_csv(tmp_path / "one.csv", index=False)
    for arguments, said, expected in (
        ((bundle,), "is a bundle, which contains no held-out rows", 1),
        ((bundle, tmp_path / "one.csv"), "only 1 row with a price", 1),
        ((run, "--metric", "smap"), "there is no metric 'smap'", 2),
        ((run, "--limit", 5), "no table is given", 2),
    ):
        code, out, err = pricekit("importance", *arguments)
        assert (code, out, err.count("pricekit: ")) == (expected, "", 1), err
        assert said in err
