"""The command `drift`."""

import json

import pytest

import pricekit as pk


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A table whose units all changed."""
    path = tmp_path_factory.mktemp("tables") / "other.csv"
    frame = pk.make_catalog(300, seed=9)
    frame["catalog_content"] = frame["catalog_content"].str.replace("Unit: .*", "Unit: bushel", regex=True)
    frame.to_csv(path, index=False)
    return path


def test_a_silent_table_exits_with_0(pricekit, bundle, catalog):
    code, out, err = pricekit("drift", bundle, catalog, "--fail-over", "psi=0.2", "--fail-over", "auc=0.8")
    assert (code, out) == (0, "")
    assert "No drift: the table resembles the training table. 400 rows against 340 training rows." in err


@pytest.mark.parametrize("width", [80, 120])
def test_an_alarm_is_named_and_a_limit_sets_the_exit_code(pricekit, bundle, other, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, _, err = pricekit("drift", bundle, other)
    assert code == 0
    code, out, err = pricekit("drift", bundle, other, "--fail-over", "psi=0.2")
    assert (code, out) == (6, "")
    assert "The table has drifted: " in err
    assert "Unit: new since the training: 'bushel' (100.0% now)." in err
    assert "over its limit: psi is " in err
    tables = [line for line in err.splitlines() if line and line[0] in "┏┃┡│└"]
    assert max(map(len, tables)) <= width


def test_json_and_page(pricekit, bundle, other, tmp_path):
    page = tmp_path / "drift.html"
    code, out, err = pricekit("drift", bundle, other, "--json", "--quiet", "--out", page)
    assert code == 0
    assert json.loads(out)["rows"] == 300
    assert f"the page is in {page}" in err
    assert "bushel" in page.read_text("utf-8")


def test_control_characters_do_not_reach_the_terminal(pricekit, bundle, tmp_path):
    frame = pk.make_catalog(100)
    frame["catalog_content"] += "\n\x1b[2J[bold]: \x1b[2J"
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = pricekit("drift", bundle, tmp_path / "t.csv")
    assert code == 0
    assert "\x1b[2J" not in err


def test_wrong_input_is_one_sentence(pricekit, bundle, catalog, tmp_path):
    (tmp_path / "empty.csv").write_text("sample_id,catalog_content,price\n")
    for arguments, said, expected in (
        ((bundle, catalog, "--fail-over", "pis=0.2"), "Did you mean 'psi'?", 2),
        ((bundle, catalog, "--fail-over", "psi"), "such as psi=0.2", 2),
        ((bundle, tmp_path / "empty.csv"), "has no rows", 1),
        ((bundle, tmp_path / "absent.csv"), "absent.csv", 1),
        ((bundle, catalog, "--text", "nowhere"), "has no column 'nowhere'", 1),
    ):
        code, out, err = pricekit("drift", *arguments)
        assert (code, out, err.count("pricekit: ")) == (expected, "", 1), err
        assert said in err
