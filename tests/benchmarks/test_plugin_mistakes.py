"""The campaign of mistakes in plugins."""

from pathlib import Path

import pandas as pd
import pytest
from plugin_mistakes import (
    FOUND,
    HARMLESS,
    KINDS,
    LATE,
    OUTCOMES,
    SILENT,
    Ended,
    Plugin,
    Tables,
    Trial,
    is_bad,
    plugins_of,
)


def test_the_campaign_has_many_plugins_of_each_kind():
    plugins = [plugin for kind in KINDS for plugin in plugins_of(kind)]
    assert len({plugin.name for plugin in plugins}) == len(plugins)
    assert sum(not plugin.right for plugin in plugins) >= 75
    assert sum(plugin.right for plugin in plugins) >= 25
    for plugin in plugins:
        compile(plugin.source, plugin.name, "exec")


@pytest.mark.parametrize("price", [10.1, float("nan")])
def test_equal_rows_need_equal_prices(tmp_path, price):
    trial, expected = _trial(tmp_path), pd.Series([10.0, 20.0])
    trial.require_equal("alone", pd.Series([10.0]), expected)
    with pytest.raises(Ended, match="alone: 1 of 1 rows differ") as ended:
        trial.require_equal("alone", pd.Series([price]), expected)
    assert ended.value.outcome == SILENT


def test_an_error_must_name_the_plugin(tmp_path):
    trial = _trial(tmp_path, "raise ValueError('no')")
    with pytest.raises(Ended) as ended:
        trial.succeed("train", "plugins", "show", "no-such-plugin", "--plugin", "mine.py")
    assert ended.value.outcome == LATE
    with pytest.raises(Ended) as ended:
        trial.check()
    assert ended.value.outcome == FOUND


def test_a_correct_plugin_must_be_harmless():
    right, wrong = (Plugin("loss", "a", right, "", "") for right in (True, False))
    assert not is_bad(right, HARMLESS)
    assert all(is_bad(right, outcome) for outcome in OUTCOMES if outcome != HARMLESS)
    assert [outcome for outcome in OUTCOMES if is_bad(wrong, outcome)] == [SILENT]


def _trial(folder: Path, source: str = "") -> Trial:
    plugin = Plugin("feature", "some-feature", False, "", source)
    return Trial(plugin, folder / "trial", Tables(folder, pd.DataFrame(), [], folder / "bundle"))
