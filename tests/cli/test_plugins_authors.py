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
    assert "all checks of fast15 passed" in err


def test_a_faulty_plugin_fails_with_the_reason(pricekit, tmp_path):
    (tmp_path / "rank.py").write_text(WRONG)
    code, out, err = pricekit("plugins", "check", tmp_path / "rank.py")
    assert code == 3
    assert "FAILED  a row alone equals the row in a batch" in out
    assert "failed" in err


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
