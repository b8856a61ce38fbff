"""The JSON schema accepts what the program accepts, and rejects what it rejects."""

import tomllib

import jsonschema
import pytest

from pricekit.config import parse_override
from pricekit.config.resolve import configure
from pricekit.config.schema import config_schema
from pricekit.core.loader import registry
from pricekit.errors import PricekitError

TOY = """
import pricekit
from pydantic import BaseModel, Field

class Window(BaseModel, extra="forbid"):
    low: float = 0.0

class Rule(BaseModel):
    word: str = "tea"
    then: "Rule | None" = None

class Mine:
    class Options(BaseModel):
        gamma: float = Field(gt=0)
        window: Window = Window()

class Odd:
    class Options(BaseModel, arbitrary_types_allowed=True):
        loss: Mine

class Feature:
    names = ("x",)
    Options = Rule

@pricekit.plugin.hookimpl
def pricekit_register_losses(register):
    register("mine", __name__ + ":Mine", "a toy")
    register("odd", __name__ + ":Odd", "options without a schema")
    register("lost", "does_not_exist.at_all:Lost", "needs a library that is missing")

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("mine", __name__ + ":Feature", "a toy")
"""


@pytest.fixture(scope="module")
def validator():
    schema, left_out = config_schema()
    assert left_out == {}
    return _validator(schema)


@pytest.fixture
def with_toys(tmp_path, monkeypatch):
    (tmp_path / "toys.py").write_text(TOY)
    monkeypatch.setenv("PRICEKIT_PLUGIN_FILES", str(tmp_path / "toys.py"))
    registry.cache_clear()
    yield config_schema()
    registry.cache_clear()


def _validator(schema):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("policy", ["quick", "ultra", "fast", "blazing", "optimized"])
def test_every_policy_resolves_to_a_valid_configuration(validator, policy):
    config = configure([{"policy": policy}])
    validator.validate(tomllib.loads(config.to_toml()))
    validator.validate(config.model_dump(mode="json"))  # a setting that is None, too


ACCEPTED = [
    'loss = "focal-smape"',
    "loss.gamma = 1.5\nloss.name = 'focal-smape'",
    "backbone.width = 8",
    "policy = {name = 'ultra', variant = 'best'}",
    "features = ['fast15']\nfeature_options.fast15 = {}",
    "training.time_budget = '1h30m'",
    "training.time_budget = 90",
    "training.learning_rate = 1",
    "columns.text = ['title', 'about']",
    "",
]
REFUSED = [
    "trainig.epochs = 3",
    "training.epoch = 3",
    "training.epochs = 'many'",
    "training.epochs = 0",
    "training.time_budget = 'soon'",
    "training.time_budget = ''",
    "seed = -1",
    "features = 'fast15'",
    "features = ['fast16']",
    "feature_options.fast16 = {}",
    "feature_options.optimized22.gamma = 1",
    "loss = 'smap'",
    "loss = 3",
    "loss = {name = 'smape', gamma = 1}",
    "loss = {name = 'focal-smape', gama = 1}",
    "loss = {name = 'focal-smape', gamma = 'much'}",
    "backbone = {name = 'bag', pooling = 'mean'}",
    "backbone = {widht = 3}",
    "policy = {name = 'ultra', variant = 'worst'}",
    "head.norm = 'group'",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_valid_files(validator, text):
    layer = tomllib.loads(text)
    validator.validate(layer)
    configure([layer])


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_files(validator, text):
    layer = tomllib.loads(text)
    assert not validator.is_valid(layer)
    with pytest.raises(PricekitError):
        configure([layer])


def test_every_plugin_has_its_options_in_it(validator):
    properties = validator.schema["properties"]
    for kind in ("policy", "backbone", "loss"):
        names, *tables = properties[kind]["anyOf"]
        assert names["enum"] == [entry.name for entry in registry().of_kind(kind)]
        assert [table["properties"]["name"]["const"] for table in tables] == names["enum"]
    bag = next(t for t in properties["backbone"]["anyOf"][1:] if t["title"] == "bag")
    assert bag["properties"]["width"]["minimum"] == 1
    assert "width" in bag["properties"]["width"]["description"]


def test_installed_plugins_are_in_it_and_broken_ones_are_not(with_toys):
    schema, left_out = with_toys
    validator = _validator(schema)
    assert sorted(left_out.values()) == [["loss lost"], ["loss odd"]]
    lost = next(why for why, names in left_out.items() if names == ["loss lost"])
    assert "No module named 'does_not_exist'" in lost
    assert "pip install does_not_exist" in lost
    for accepted in ("loss=mine", "loss.gamma=1", "loss.window.low=3", "feature_options.mine.word=tea"):
        validator.validate(parse_override(accepted))
    validator.validate({"feature_options": {"mine": {"then": {"word": "x", "then": {"word": "y"}}}}})
    for refused in ("loss=lost", "loss.window.lo=3", "feature_options.mine.wrd=tea"):
        assert not validator.is_valid(parse_override(refused)), refused
    assert not validator.is_valid({"loss": {"name": "mine", "gamma": 0}})
    assert not validator.is_valid({"feature_options": {"mine": {"then": {"word": 3}}}})
