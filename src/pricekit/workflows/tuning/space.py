"""The space of a search: the settings of a configuration that declare a range, by dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from pricekit.config import RunConfig, Search, build_config
from pricekit.config.resolve import CHOICES
from pricekit.config.settings import searched
from pricekit.core.loader import registry
from pricekit.core.registry import options_model
from pricekit.errors import ConfigError
from pricekit.options import settings_layers

_SECTIONS = ("head", "training")


@dataclass(frozen=True)
class Dimension:
    """A setting that a search changes.

    Attributes:
        name: its dotted name, such as `training.learning_rate`.
        search: its range.
        value: its value in the configuration that the search starts from.
    """

    name: str
    search: Search
    value: Any

    @property
    def block(self) -> str:
        """The part of the model that it belongs to: one feature, the backbone, or the training."""
        first, _, rest = self.name.partition(".")
        if first == "feature_options":
            return rest.partition(".")[0]
        return first if first == "backbone" else "training"


def dimensions(config: RunConfig) -> tuple[Dimension, ...]:
    """Return the settings of a complete configuration that can be searched.

    Raises:
        ConfigError: there are none, or the configuration is that of an ensemble.
        PluginError: a plugin cannot be imported.
    """
    if config.members:
        raise ConfigError(
            f"a search changes the settings of a single model, and the policy '{config.policy.name}' trains an "
            f"ensemble of {', '.join(config.members)}; choose a policy of one model, such as quick",
            parameters=("policy", "config"),
        )
    found = tuple(
        Dimension(name, search, value) for name, search, value in _declared(config) if search.fits(value)
    )
    if not found:
        raise ConfigError(
            "none of the settings of this configuration declares a range to search in; choose other plugins",
            parameters=("policy", "backbone", "features"),
        )
    return found


def known_values(config: RunConfig, space: Sequence[Dimension]) -> list[dict[str, Any]]:
    """Return settings that are known to be good on some tables, by dotted name: the examples of plugins' options.

    Options declare them as pydantic does for a JSON schema: `ConfigDict(json_schema_extra={"examples": [...]})`.
    """
    found, names = [], {each.name for each in space}
    for model, prefix, _ in _plugins(config):
        extra = model.model_config.get("json_schema_extra")
        examples = extra.get("examples", []) if isinstance(extra, Mapping) else []
        for example in examples if isinstance(examples, list) else []:
            given = example if isinstance(example, Mapping) else {}
            values = {f"{prefix}.{option}": value for option, value in given.items()}
            found.append({option: value for option, value in values.items() if option in names})
    return [values for values in found if values]


def blocks(space: Sequence[Dimension]) -> list[list[str]]:
    """Return the names of the dimensions of each part of the model."""
    found: dict[str, list[str]] = {}
    for dimension in space:
        found.setdefault(dimension.block, []).append(dimension.name)
    return list(found.values())


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return a configuration with other values of some settings, by dotted name; raises ConfigError."""
    return build_config([config.model_dump(), *settings_layers(dict(values))])


def _declared(config: RunConfig) -> Iterator[tuple[str, Search, Any]]:
    """Yield the name, the range and the value of each setting that declares one."""
    for model, prefix, options in _plugins(config):
        for option, search in searched(model).items():
            yield f"{prefix}.{option}", search, options.get(option)
    for section in _SECTIONS:
        settings = getattr(config, section)
        for name, search in searched(type(settings)).items():
            yield f"{section}.{name}", search, getattr(settings, name)


def _plugins(config: RunConfig) -> Iterator[tuple[type[BaseModel], str, Mapping[str, Any]]]:
    """Yield the plugins of a configuration that have options: the model of these, where they are, and their values."""
    choices = {kind: getattr(config, kind) for kind in CHOICES}
    plugins = [(kind, choice.name, kind, choice.options) for kind, choice in choices.items()]
    for name in config.features:
        plugins.append(("feature", name, f"feature_options.{name}", config.feature_options.get(name, {})))
    for kind, name, prefix, options in plugins:
        model = options_model(registry().get(kind, name).load())
        if model is not None:
            yield model, prefix, options
