"""`pricekit plugins check`: by name, by package, by folder, by file."""

import pytest

WRONG = """
import numpy as np
import pricekit

class Rank:
    names = ("rank",)
    def fit(self, table):
        return {}
    def transform(self, table, state):
        return table.text.str.len().rank().to_numpy(np.float32)[:, None]

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("rank", f"{__name__}:Rank", "depends on the rows beside it")
"""


def test_a_built_in_plugin_passes_its_checks(pricekit):
    code, out, err = pricekit("plugins", "check", "fast15")
    assert (code, "FAILED" in out) == (0, False)
    assert f"all {out.count('  ok  ')} checks of fast15 passed" in " ".join(err.split())


def test_a_faulty_plugin_fails_with_the_reason(pricekit, tmp_path):
    (tmp_path / "rank.py").write_text(WRONG)
    code, out, err = pricekit("plugins", "check", tmp_path / "rank.py")
    assert code == 3
    assert "FAILED  a row alone equals the row in a batch" in out
    failed, run = out.count("  FAILED  "), len(out.splitlines()) - 1
    assert f"{failed} of {run} checks of {tmp_path / 'rank.py'} failed" in " ".join(err.split())


def test_options_are_given_with_set(pricekit):
    assert pricekit("plugins", "check", "focal-smape", "--set", "gamma=1.5")[0] == 0
    code, _, err = pricekit("plugins", "check", "focal-smape", "--set", "gama=1.5")
    assert (code, "Did you mean 'gamma'" in err) == (2, True)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("focal-smap", "Did you mean 'focal-smape'"),
        ("empty", "contains no package"),
        ("package", "pip install -e"),
        ("gone.py", "does not exist"),
    ],
)
def test_missing_and_empty_targets_are_reported(pricekit, tmp_path, monkeypatch, target, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "pyproject.toml").write_text('[project]\nname = "of-nobody"\n')
    code, _, err = pricekit("plugins", "check", target)
    assert (code, expected in err) == (3, True)


BRITTLE = """
import numpy as np
from pricekit import plugin

@plugin.feature("brand-length")
class BrandLength(plugin.Feature):
    "the length of the brand"
    names = ("brand_length",)
    columns = ("brand",)

    def transform(self, table, state):
        assert not (table.frame["brand"] == "Zzz").any(), "the brand Zzz"
        return table.frame["brand"].str.len().to_numpy(np.float32)[:, None]
"""


@pytest.fixture
def brittle(tmp_path):
    """A plugin file with a feature that fails on a brand, and a table with that brand."""
    (tmp_path / "brittle.py").write_text(BRITTLE)
    rows = "".join(f"Green Tea {n};{n + 1},5;{'Zzz' if n == 30 else 'Lipton'}\n" for n in range(40))
    (tmp_path / "shop.csv").write_text("title;eur;brand\n" + rows)
    return tmp_path / "brittle.py", tmp_path / "shop.csv"


def test_a_plugin_is_tried_on_the_rows_of_a_table(pricekit, brittle):
    file, table = brittle
    tried = [
        "plugins",
        "check",
        "brand-length",
        "--plugin",
        file,
        "--table",
        table,
        "--text",
        "title",
        "--price",
        "eur",
    ]
    code, out, err = pricekit(*tried)
    assert (code, "the brand Zzz" in out) == (3, True), err
    code, out, err = pricekit(*tried, "--limit", 20)
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("quick", "--table", "shop.csv"), 2, "no check of this kind (policy) reads a table; leave it out"),
        (("fast15", "--price", "eur"), 2, "price is an option for reading a table, but no table is given"),
        (("fast15", "--table", "gone.csv"), 1, "gone.csv"),
        (("fast15", "--table", "shop.csv", "--text", "titel"), 1, "titel"),
    ],
)
def test_a_table_that_cannot_be_used_is_an_error(pricekit, brittle, monkeypatch, arguments, code, expected):
    monkeypatch.chdir(brittle[1].parent)
    ended, out, err = pricekit("plugins", "check", *arguments)
    assert (ended, out, expected in " ".join(err.split())) == (code, "", True), err
