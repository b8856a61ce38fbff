"""Resolve layers of settings into a complete configuration, including the options of every plugin.

The order of the layers, each over the previous one: the defaults of `RunConfig`, the defaults of the policy, a file,
single settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pricekit.config import Choice, Layer, RunConfig, build_config, merge
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, PluginError
from pricekit.support.text import did_you_mean

CHOICES = ("policy", "backbone", "loss")
"""Settings that name one plugin of the kind with the same name, and contain its options."""

DEFAULT, PLUGIN_DEFAULT = "default", "plugin default"

_SELF = ""


@dataclass(frozen=True)
class Setting:
    """One value of a complete configuration.

    Attributes:
        path: the keys of the nested tables, such as `("training", "epochs")`.
        value: the value that the run uses; None if the setting is disabled.
        source: its origin: `default`, `policy NAME`, `plugin default`, or the label of a layer.
    """

    path: tuple[str, ...]
    value: Any
    source: str

    @property
    def name(self) -> str:
        """The dotted name, such as `training.epochs`."""
        return ".".join(self.path)


@dataclass(frozen=True)
class _Marked:
    """A value and its source; `merge` compares the values alone."""

    value: Any
    source: str = field(compare=False)


def configure(layers: Iterable[Layer]) -> RunConfig:
    """Merge settings over the defaults of the policy that they name, and resolve every plugin's options.

    The result contains every value that the run depends on, so that a later change of defaults does not affect it.

    Raises:
        ConfigError: a setting or an option is unknown or of the wrong type.
        PluginError: a plugin is unknown or cannot be imported.
    """
    return _complete(_with_policy([("", layer) for layer in layers]))


def explain(layers: Iterable[tuple[str, Layer]]) -> tuple[RunConfig, list[Setting]]:
    """Return the configuration of these layers, and the source of each value.

    Args:
        layers: pairs of a label, which becomes the source, and a layer.

    Raises:
        ConfigError, PluginError: as `configure` does.
    """
    stack = _with_policy(list(layers))
    config = _complete(stack)
    marked = reduce(
        merge, (_mark(layer, source) for source, layer in [(DEFAULT, RunConfig().model_dump()), *stack])
    )
    return config, [Setting(path, v, _source(marked, path)) for path, v in _leaves(config.model_dump())]


def _with_policy(given: list[tuple[str, Layer]]) -> list[tuple[str, Layer]]:
    """Insert the defaults of the policy below the layers that name it."""
    given = [(source, _as_tables(layer)) for source, layer in given]
    named = reduce(merge, (layer for _, layer in given), {"policy": RunConfig().policy.model_dump()})
    policy = build_config([{"policy": named["policy"]}]).policy
    return [(f"policy {policy.name}", _as_tables(_defaults(policy))), *given]


def _as_tables(layer: Layer) -> Layer:
    """Write `loss = "smape"` as a table, so that it merges with options in other layers."""
    return {
        key: {"name": value} if key in CHOICES and isinstance(value, str) else value
        for key, value in layer.items()
    }


def _defaults(policy: Choice) -> Layer:
    """Return a policy's defaults, validated separately, so that an error names the policy."""
    entry = registry().get("policy", policy.name)
    made = registry().create("policy", policy.name, policy.options)
    try:
        defaults = dict(made.defaults)
        build_config([defaults])
    except (ConfigError, AttributeError, TypeError, ValueError) as error:
        raise PluginError(
            f"the defaults of the policy '{policy.name}' of {entry.package} {entry.version} are invalid: {error}. "
            "Report it to the plugin's author"
        ) from None
    return defaults


def _complete(stack: list[tuple[str, Layer]]) -> RunConfig:
    """Build the configuration from the stack of layers, and resolve all options."""
    layers = [layer for _, layer in stack]
    config = build_config(layers)
    resolve = registry().resolve
    chosen = {kind: getattr(config, kind) for kind in CHOICES}
    update: dict[str, Any] = {
        kind: Choice(name=choice.name, **resolve(kind, choice.name, choice.options))
        for kind, choice in chosen.items()
    }
    # The policy's options of features that the layers replaced are dropped.
    given: Layer = reduce(merge, layers[1:], {})
    _check_used(given.get("feature_options", {}), config.features)
    options = {
        name: resolve("feature", name, config.feature_options.get(name, {})) for name in config.features
    }
    update["feature_options"] = {name: found for name, found in options.items() if found}
    return config.model_copy(update=update)


def _check_used(options: Layer, features: list[str]) -> None:
    """Reject options of features that are not used."""
    for name in options:
        if name not in features:
            raise ConfigError(
                f"feature_options has options of '{name}', which is not among features {', '.join(features)}."
                f"{did_you_mean(name, features)}",
                parameters=("settings",),
                setting=f"feature_options.{name}",
                candidates=features,
            )


def _mark(layer: Layer, source: str) -> dict[str, Any]:
    """Attach the source to each value, and to each table under a key that no setting has."""
    inner = {k: _mark(v, source) if isinstance(v, Mapping) else _Marked(v, source) for k, v in layer.items()}
    return {_SELF: _Marked(None, source), **inner}


def _source(marked: Any, path: tuple[str, ...]) -> str:
    """Return the source of a path; an option that no layer contains is a plugin's default."""
    for key in path:
        if isinstance(marked, _Marked):  # the plugin converted a value to a table
            break
        if key not in marked:
            return PLUGIN_DEFAULT
        marked = marked[key]
    found: _Marked = marked if isinstance(marked, _Marked) else marked[_SELF]
    return found.source


def _leaves(table: Layer, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value
