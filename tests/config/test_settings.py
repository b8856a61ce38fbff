import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.config import RunConfig, build_config, merge, parse_override, read_toml
from pricekit.config.resolve import configure
from pricekit.config.settings import Section
from pricekit.errors import ConfigError, PluginError


def test_toml_round_trip(tmp_path):
    config = build_config(
        [{"backbone": {"name": "bag", "width": 8}, "head": {"widths": [4], "dropout": [0.1]}}]
    )
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert build_config([read_toml(tmp_path / "config.toml")]) == config


def _fields(model, prefix=""):
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _fields(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def test_every_setting_has_a_description():
    described = {name: field.description for name, field in _fields(RunConfig)}
    assert [name for name, text in described.items() if not text] == []
    assert {"seed", "columns.text", "head.norm", "training.weight_decay", "speed.tf32"} < set(described)


def test_later_layers_win_key_by_key():
    config = build_config([{"training": {"epochs": 3, "batch_size": 8}}, {"training": {"epochs": 5}}])
    assert (config.training.epochs, config.training.batch_size) == (5, 8)


def test_options_of_another_plugin_are_dropped():
    below = {"backbone": {"name": "bag", "width": 8}}
    assert merge(below, {"backbone": {"name": "other"}}) == {"backbone": {"name": "other"}}
    assert merge(below, {"backbone": {"members": 2}}) == {
        "backbone": {"name": "bag", "width": 8, "members": 2}
    }


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("loss.gamma=1.5", {"loss": {"gamma": 1.5}}),
        ("seed=3", {"seed": 3}),
        ("head.widths=[8, 4]", {"head": {"widths": [8, 4]}}),
        ("columns.price=eur", {"columns": {"price": "eur"}}),
        ("a=b=c", {"a": "b=c"}),
        ("training.patience=none", {"training": {"patience": None}}),
    ],
)
def test_overrides_are_toml_values_else_strings(text, layer):
    assert parse_override(text) == layer


@pytest.mark.parametrize("text", ["seed", "=3", "a..b=1", ""])
def test_an_invalid_override_is_an_error(text, raises):
    with raises(ConfigError, "settings"):
        parse_override(text)


@given(st.text(max_size=30))
def test_any_override_is_parsed_or_refused(text):
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_override(text), dict)


@pytest.mark.parametrize(
    ("override", "parameters"),
    [
        ("training.epoch=3", ("settings",)),
        ("trainig.epochs=3", ("settings",)),
        ("training.epochs=0", ("epochs", "settings")),
        ("head.widths=[1]", ("head", "settings")),
        ("loss=3", ("loss", "settings")),
        ("seed=99999999999999999", ("seed", "settings")),
    ],
)
def test_errors_name_the_setting_and_the_fix(override, parameters, raises):
    with raises(ConfigError, *parameters):
        build_config([parse_override(override)])


def test_an_invalid_toml_file_is_an_error(tmp_path, raises):
    (tmp_path / "c.toml").write_text("= 3")
    with raises(ConfigError, "config"):
        read_toml(tmp_path / "c.toml")
    with raises(ConfigError, "config"):
        read_toml(tmp_path / "none.toml")


def test_the_config_schema_is_a_json_schema():
    schema = RunConfig.model_json_schema()
    assert "training" in json.loads(json.dumps(schema))["properties"]


def test_a_policy_s_defaults_lie_below_and_options_are_resolved():
    config = configure([parse_override("backbone.width=8"), parse_override("head.widths=[64]")])
    assert config.backbone.options["width"] == 8
    assert config.backbone.options["members"] >= 1  # a default, written out so that the run can be repeated
    assert config.head.dropout == [0.0]  # of the policy quick
    assert config.training.embedding_learning_rate == 0.2
    assert configure([parse_override("training.patience=none")]).training.patience is None


@pytest.mark.parametrize(
    ("override", "error", "parameters"),
    [
        ("loss.gama=1", ConfigError, ("settings",)),
        ("backbone.widht=3", ConfigError, ("settings",)),
        ("policy.name=quik", PluginError, ("policy",)),
        ("training.epochs=0", ConfigError, ("epochs", "settings")),
    ],
)
def test_wrong_options_are_found_before_any_table_is_read(override, error, parameters, raises):
    with raises(error, *parameters):
        configure([parse_override(override)])


def test_batch_norm_needs_batches(raises):
    head = {"widths": [4], "dropout": [0.0], "norm": "batch"}
    with raises(ConfigError, "settings", setting=""):
        build_config([{"head": head, "training": {"batch_size": 1}}])
    with raises(ConfigError, "settings", setting=""):
        build_config([{"head": head, "max_length": 100, "training": {"batch_tokens": 199}}])
    build_config([{"head": head, "max_length": 100, "training": {"batch_tokens": 200}}])


@given(st.integers(0, 50), st.integers(0, 59), st.integers(1, 59))
def test_durations(hours, minutes, seconds):
    text = f"{hours}h{minutes}m{seconds}s"
    expected = 3600 * hours + 60 * minutes + seconds
    assert build_config([{"training": {"time_budget": text}}]).training.time_budget == expected
    assert build_config([{"training": {"time_budget": expected}}]).training.time_budget == expected


@pytest.mark.parametrize("text", ["soon", "", "h", "2 hours", "-1h", "0s"])
def test_an_invalid_duration_is_an_error(text, raises):
    with raises(ConfigError, "time_budget", "settings", setting="training.time_budget"):
        build_config([{"training": {"time_budget": text}}])


@pytest.mark.parametrize(
    ("rows", "epochs"), [(10, 40), (1600, 40), (3200, 20), (3201, 20), (5485, 12), (6400, 10), (10**6, 10)]
)
def test_auto_epochs_are_as_many_as_a_thousand_steps_take(rows, epochs):
    config = build_config([{"training": {"epochs": "auto"}}])
    assert config.for_rows(rows).training.epochs == epochs
    assert config.for_rows(rows).training.batch_size == config.training.batch_size == 64
    accumulated = build_config([{"training": {"epochs": "auto", "gradient_accumulation_steps": 2}}])
    assert accumulated.for_rows(2 * rows).training.epochs == epochs
    by_tokens = build_config([{"max_length": 100, "training": {"epochs": "auto", "batch_tokens": 6400}}])
    assert by_tokens.for_rows(rows).training.epochs == epochs
    assert build_config([{"training": {"epochs": 3}}]).for_rows(rows).training.epochs == 3
