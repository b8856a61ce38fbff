"""Resolving layers into a complete configuration, with the source of each value."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricekit.config import RunConfig, build_config, merge, parse_override
from pricekit.config.resolve import configure, explain, member_configs
from pricekit.core.loader import registry
from pricekit.errors import ConfigError
from pricekit.training.policies import Quick

TOY = """
import pricekit
from pydantic import BaseModel, model_validator

class Window(BaseModel, extra="forbid"):
    low: float = 0.0
    high: float = 1.0

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, given):
        return {"high": given} if isinstance(given, int) else given

class Loss:
    class Options(BaseModel):
        gamma: float = 2.0
        window: Window = Window()
        weights: dict[str, float] = {}
        depth: int | None = 3

class Other:
    class Options(BaseModel):
        gamma: float = 5.0

class Feature:
    names = ("x",)
    class Options(BaseModel):
        per: str = "line"
        times: int = 1

class Policy:
    defaults = {
        "loss": "toy",
        "features": ["toy"],
        "feature_options": {"toy": {"per": "page"}},
        "training": {"epochs": 7, "patience": 4},
    }

@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("toy", __name__ + ":Loss", "a toy")
    register("other", __name__ + ":Other", "a toy")

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("toy", __name__ + ":Feature", "a toy")

@pricekit.plugin.hookimpl
def pricekit_register_policies(register):
    register("toy", __name__ + ":Policy", "a toy")
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A loss, a feature and a policy, all called `toy`, and a loss `other`."""
    (tmp_path / "toys.py").write_text(TOY)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "toys.py"))
    registry.cache_clear()
    yield
    registry.cache_clear()


def _found(*layers):
    return {setting.name: (setting.value, setting.source) for setting in explain(layers)}


def test_the_source_is_the_uppermost_layer_that_has_the_key(toys):
    stack = [
        ("file a.toml", {"policy": "toy", "training": {"epochs": 8}, "seed": 1}),
        ("flag --epochs", {"training": {"epochs": 9}}),
        ("--set", {"training": {"epochs": 10}, "limit": None}),
    ]
    assert _found()["training.epochs"] == ("auto", "policy quick")
    assert _found(("flag --policy", {"policy": "toy"}))["training.epochs"] == (7, "policy toy")
    assert _found(*stack[:1])["training.epochs"] == (8, "file a.toml")
    assert _found(*stack[:2])["training.epochs"] == (9, "flag --epochs")
    found = _found(*stack)
    assert found["training.epochs"] == (10, "--set")
    assert found["training.patience"] == (4, "policy toy")
    assert found["training.batch_size"] == (64, "default")
    assert found["policy.name"] == ("toy", "file a.toml")
    assert found["seed"] == (1, "file a.toml")
    assert found["limit"] == (None, "--set")
    assert found["columns.text"] == (["catalog_content"], "default")


def test_options_that_nobody_set_are_the_plugin_s(toys):
    found = _found(
        ("file a.toml", {"policy": "toy", "loss": {"window": {"high": 2}}, "feature_options": {"toy": {}}}),
        ("--set", {"loss": {"weights": {"tea": 1}}, "feature_options": {"toy": {"times": 2}}}),
    )
    assert found["loss.name"] == ("toy", "policy toy")
    assert found["loss.gamma"] == (2.0, "plugin default")
    assert found["loss.window.low"] == (0.0, "plugin default")
    assert found["loss.window.high"] == (2.0, "file a.toml")
    assert found["loss.weights.tea"] == (1.0, "--set")
    assert found["feature_options.toy.per"] == ("page", "policy toy")
    assert found["feature_options.toy.times"] == (2, "--set")


def test_options_of_a_replaced_plugin_are_not_a_source(toys):
    layers = (("file a.toml", {"policy": "toy", "loss": {"gamma": 1}}), ("flag --loss", {"loss": "other"}))
    assert _found(layers[0])["loss.gamma"] == (1.0, "file a.toml")
    assert _found(*layers)["loss.gamma"] == (5.0, "plugin default")
    assert "loss.depth" not in _found(*layers)
    again = ("flag --loss", {"loss": "toy"})  # the same plugin, named once more
    assert _found(layers[0], again)["loss.gamma"] == (1.0, "file a.toml")
    assert _found(layers[0], again)["loss.name"] == ("toy", "flag --loss")


def test_a_table_that_a_plugin_makes_of_a_value_has_the_value_s_source(toys):
    found = _found(("flag --policy", {"policy": "toy"}), ("--set", {"loss": {"window": 3}}))
    assert found["loss.window.high"] == (3.0, "--set")
    assert found["loss.window.low"] == (0.0, "--set")


def test_empty_tables_have_a_source(toys):
    assert _found(("--set", {"features": []}))["feature_options"] == ({}, "default")
    found = _found(("flag --policy", {"policy": "toy"}), ("--set", {"loss": {"weights": {}}}))
    assert found["loss.weights"] == ({}, "--set")


def test_a_bare_name_merges_like_a_table(toys):
    named = {"loss": {"name": "toy", "gamma": 1}}
    for above in ({"loss": {"gamma": 3}}, {"loss": "toy"}, {"loss": {"name": "toy"}}):
        assert configure([named, above]).loss.options["gamma"] in (1, 3)
    assert configure([{"loss": "toy"}, {"loss": {"gamma": 3}}]).loss.options["gamma"] == 3
    assert configure([named, {"loss": "other"}]).loss.options == {"gamma": 5.0}


def test_options_of_a_feature_that_is_not_chosen_are_refused(toys, raises):
    with raises(ConfigError, "settings", setting="feature_options.tay", candidates=["toy"]):
        configure([{"policy": "toy"}, parse_override("feature_options.tay.times=2")])
    assert configure([{"policy": "toy", "features": ["fast15"]}]).feature_options == {}


LAYER = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 9),
        "columns": st.fixed_dictionaries({}, optional={"price": st.text("ab"), "id": st.none()}),
        "training": st.fixed_dictionaries(
            {}, optional={"epochs": st.integers(1, 9), "patience": st.none() | st.integers(1, 9)}
        ),
        "loss": st.sampled_from(["smape", {"name": "smape"}, {"name": "focal-smape"}, {}]),
        "policy": st.sampled_from(["quick", {"name": "fast"}]),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LAYER, max_size=4))
def test_the_explained_values_equal_the_configured_values(layers):
    """The last layer with a key is its source and provides its value."""
    config = configure(layers)
    for setting in explain([(str(number), layer) for number, layer in enumerate(layers)]):
        value = config.model_dump()
        for key in setting.path:
            value = value[key]
        assert setting.value == value
        if setting.source.isdigit() and setting.name not in ("loss.name", "policy.name"):
            (first, *rest) = setting.path
            given = layers[int(setting.source)][first]
            assert (given[rest[0]] if rest else given) == value
            assert not any(_has(layer, setting.path) for layer in layers[int(setting.source) + 1 :])
        elif setting.source == "default":
            assert not any(_has(layer, setting.path) for layer in layers)


def _has(layer, path):
    for key in path:
        if not isinstance(layer, dict) or key not in layer:
            return False
        layer = layer[key]
    return True


def test_every_setting_is_explained_once():
    found = explain([])
    rebuilt = {}
    for setting in found:
        layer = setting.value
        for key in reversed(setting.path):
            layer = {key: layer}
        rebuilt = merge(rebuilt, layer)
    assert RunConfig.model_validate(rebuilt) == configure([])
    assert len({setting.path for setting in found}) == len(found)


@pytest.mark.parametrize(
    ("layer", "parameters"),
    [
        ({"policy": {"name": 5}}, ("policy", "settings")),
        ({"training": {"epochs": 0}}, ("epochs", "settings")),
        ({"training": {"epoch": 3}}, ("settings",)),
        ({"head": {"widths": [0]}}, ("widths", "settings")),
        ({"training": {"learning_rate": float("inf")}}, ("learning_rate", "settings")),
    ],
)
def test_an_invalid_setting_names_only_parameters_that_exist(layer, parameters):
    with pytest.raises(ConfigError) as raised:
        configure([layer])
    assert raised.value.parameters == parameters


def test_a_member_s_settings_count_above_their_layer_and_below_later_ones():
    below = {"members": {"a": {"max_length": 8, "seed": 1}, "b": {}}, "max_length": 32, "seed": 2}
    found = member_configs(configure([below, {"seed": 3}]))
    assert {name: (one.max_length, one.seed) for name, one in found.items()} == {"a": (8, 3), "b": (32, 3)}
    above = {"members": {"a": {"max_length": 16}}}
    assert member_configs(configure([below, above]))["a"].max_length == 16


def test_a_member_with_a_policy_of_its_own_has_its_defaults():
    layers = [{"policy": "quick", "members": {"big": {"policy": "blazing"}, "small": {}}}, {"seed": 7}]
    found = member_configs(configure(layers))
    for name, policy in (("big", "blazing"), ("small", "quick")):
        expected = configure([{"policy": policy, "seed": 7}])
        assert found[name].to_toml() == expected.to_toml()


def test_the_members_of_a_saved_configuration_do_not_change(monkeypatch):
    config = configure(
        [{"members": {"a": {"features": ["optimized22"]}, "b": {"training": {"patience": None}}}}]
    )
    saved = tomllib.loads(config.to_toml())
    monkeypatch.setattr(Quick, "defaults", {"max_length": 1})
    assert member_configs(build_config([saved])) == member_configs(config)
    assert member_configs(config)["b"].training.patience is None
    assert member_configs(config)["a"].feature_options == {}


def test_options_of_a_feature_that_a_member_leaves_out_are_no_error(raises):
    layer = {"features": ["columns"], "feature_options": {"columns": {}}}
    found = configure([layer | {"members": {"a": {"features": ["optimized22"]}}}])
    assert member_configs(found)["a"].feature_options == {}
    with raises(ConfigError, "settings", setting="feature_options.columns", candidates=["optimized22"]):
        configure([{"members": {"a": layer | {"features": ["optimized22"]}}}])


@pytest.mark.parametrize(
    ("members", "parameters"),
    [
        ({"a": 3}, ("a", "settings")),
        ({"../a": {}}, ("[key]", "settings")),
        ({"A": {}}, ("[key]", "settings")),
        ({"a": {"members": {}}}, ("settings",)),
        ({"a": {"traning": {}}}, ("settings",)),
        (3, ("members", "settings")),
    ],
)
def test_an_invalid_member_is_named(members, parameters, raises):
    with raises(ConfigError, *parameters):
        configure([{"members": members}])
    with raises(ConfigError, *parameters):
        explain([("file", {"members": members})])
