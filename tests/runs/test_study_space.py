"""What is searched, and that every value of it is valid."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import tiny_config
from pricekit.config.resolve import configure
from pricekit.core.loader import registry
from pricekit.errors import ConfigError
from pricekit.runs.study import blocks, dimensions, known_values, with_values

FEATURES = ["optimized22", "columns", "trees", "neighbours"]
CONFIGS = {
    "quick": configure([{"policy": "quick"}]),
    "all features": configure([{"features": FEATURES, "loss": "focal-smape"}]),
    "lstm": configure([{"backbone": "lstm", "loss": "log-huber"}]),
    "transformer": configure([{"backbone": "transformer", "features": ["fast15"]}]),
    "ultra": configure([{"policy": "ultra"}]),
    "changed": configure([{"feature_options": {"trees": {"rounds": 5000}}, "head": {"feature_bins": 3}}]),
}


def _names(config):
    return {each.name: each for each in dimensions(config)}


def test_the_settings_of_the_plugins_of_a_configuration_are_searched():
    found = _names(CONFIGS["quick"])
    assert {"feature_options.trees.rounds", "backbone.token_dropout", "training.learning_rate"} <= set(found)
    assert found["training.learning_rate"].value == 5e-3
    assert "feature_options.neighbours.k" not in found
    assert "feature_options.neighbours.k" in _names(CONFIGS["all features"])
    assert "loss.gamma" in _names(CONFIGS["all features"])
    assert "training.embedding_learning_rate" not in _names(CONFIGS["ultra"])  # it is None there


def test_each_block_is_a_part_of_the_model():
    space = dimensions(CONFIGS["quick"])
    assert sorted(name for part in blocks(space) for name in part) == sorted(each.name for each in space)
    prefixes = [{name.rpartition(".")[0] for name in part} for part in blocks(space)]
    assert prefixes == [{"backbone"}, {"feature_options.trees"}, {"head", "training"}]


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=20)
@given(data=st.data())
def test_each_value_of_the_space_is_a_valid_setting(name, data):
    config, values = CONFIGS[name], {}
    for each in dimensions(config):
        if each.search.choices:
            values[each.name] = data.draw(st.sampled_from(each.search.ends(each.value)))
        else:
            kind = st.integers if isinstance(each.value, int) else st.floats
            values[each.name] = data.draw(kind(*each.search.ends(each.value)))
    found = with_values(config, values)
    for kind in ("backbone", "loss"):
        choice = getattr(found, kind)
        assert registry().resolve(kind, choice.name, choice.options) == choice.options
    for feature, options in found.feature_options.items():
        assert registry().resolve("feature", feature, options) == options
    assert {each.name: each.value for each in dimensions(found)} == values
    start = {each.name: each.value for each in dimensions(config)}
    assert with_values(found, start) == with_values(config, {})


def test_examples_of_options_are_valid_and_within_the_ranges():
    space = dimensions(CONFIGS["quick"])
    known = known_values(CONFIGS["quick"], space)
    assert {"feature_options.trees.rounds", "feature_options.trees.learning_rate"} < set(known[0])
    for values in known:
        config = with_values(CONFIGS["quick"], values)
        options = config.feature_options["trees"]
        assert registry().resolve("feature", "trees", options) == options
        for each in space:
            if each.name in values:
                low, high = each.search.ends(each.value)
                assert low <= values[each.name] <= high
    assert known_values(CONFIGS["ultra"], dimensions(CONFIGS["ultra"])) == []


def test_an_ensemble_is_not_searched(raises):
    with raises(ConfigError, "policy", "config"):
        dimensions(configure([{"policy": {"name": "best", "encoder": "none"}}]))


def test_a_configuration_without_ranges_is_not_searched(monkeypatch, raises):
    monkeypatch.setattr("pricekit.runs.study.searched", lambda model: {})
    with raises(ConfigError, "policy", "backbone", "features"):
        dimensions(tiny_config())
