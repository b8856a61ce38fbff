"""Resolve layers of settings into a complete configuration, including the options of every plugin.

The order of the layers, each over the previous one: the defaults of `RunConfig`, the defaults of the policy, the
loss of a metric that is named without a loss, a file, single settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pricekit.config import Choice, Layer, RunConfig, build_config, merge
from pricekit.config.layers import leaves
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, PluginError
from pricekit.metrics import METRICS
from pricekit.wording import did_you_mean

CHOICES = tuple(name for name, field in RunConfig.model_fields.items() if field.annotation is Choice)
"""Settings that name one plugin of the kind with the same name, and contain its options."""


VECTORS = "vectors"
"""The feature that a model with columns of vectors has, and the option of features whose default are these columns."""


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


def configure(layers: Iterable[Layer]) -> RunConfig:
    """Merge settings over the defaults of the policy that they name, and resolve every plugin's options.

    The result contains every value that the run depends on, so that a later change of defaults does not affect it.

    Raises:
        ConfigError: a setting or an option is unknown or of the wrong type.
        PluginError: a plugin is unknown or cannot be imported.
    """
    stack = [layer for _, layer in _with_policy(("", layer) for layer in layers)]
    config = _complete(stack, stack[1:])
    members = {
        name: _member(stack, name).model_dump(exclude={"members"}, exclude_none=True)
        for name in config.members
    }
    return config.model_copy(update={"members": members})


def outlined(layers: Iterable[Layer]) -> RunConfig:
    """Return what `configure` does, without the defaults of options: no backbone and no loss is imported for them.

    Raises:
        ConfigError: a setting, or an option that the layers name, is unknown or of the wrong type.
        PluginError: a plugin is unknown, or one whose options are named cannot be imported.
    """
    stack = [layer for _, layer in _with_policy(("", layer) for layer in layers)]
    config, named = build_config(stack), reduce(merge, stack[1:], dict[str, Any]())
    options = {kind: named.get(kind, {}) for kind in CHOICES}
    for kind in CHOICES:
        name = getattr(config, kind).name
        registry().get(kind, name)
        if options[kind].keys() - {"name"}:
            registry().resolve(kind, name, getattr(config, kind).options)
    for name in config.features:
        registry().get("feature", name)
    return config


def member_configs(config: RunConfig) -> dict[str, RunConfig]:
    """Return the configuration of each member's run, by name; empty unless an ensemble is trained.

    Args:
        config: as `configure` returns it, or as it was saved.

    Raises:
        ConfigError: a saved setting is invalid.
    """
    return {name: build_config([settings]) for name, settings in config.members.items()}


def explain(layers: Iterable[tuple[str, Layer]]) -> list[Setting]:
    """Return the values of the configuration of these layers, each with its source.

    Args:
        layers: pairs of a label, which becomes the source, and a layer.

    Raises:
        ConfigError, PluginError: as `configure` does.
    """
    stack = _with_policy(layers)
    merged = [layer for _, layer in stack]
    config = _complete(merged, merged[1:])
    for name in config.members:
        _member(merged, name)  # for its errors
    combined: Layer = {}
    origins: dict[tuple[str, ...], Setting] = {}
    for source, layer in [("default", RunConfig().model_dump()), *stack]:
        combined, own = merge(combined, layer), dict(leaves(layer))
        origins = {
            path: Setting(path, value, source) if path in own else origins[path]
            for path, value in leaves(combined)
        }
    return [Setting(path, value, _source(path, origins)) for path, value in leaves(config.model_dump())]


def named_settings(layers: Iterable[Layer]) -> Layer:
    """Return what layers and the policy that they name set, without defaults; raises ConfigError, PluginError."""
    return reduce(merge, (layer for _, layer in _with_policy(("", layer) for layer in layers)), {})


def policy_of(layers: Iterable[Layer]) -> Choice:
    """Return the policy that layers of settings name, with its options; raises ConfigError."""
    return build_config(
        {"policy": table["policy"]} for table in map(_as_tables, layers) if "policy" in table
    ).policy


def _with_policy(layers: Iterable[tuple[str, Layer]]) -> list[tuple[str, Layer]]:
    """Insert the defaults of the policy, and the loss of a metric that is named without one, below these layers."""
    upper = [(source, _as_tables(layer)) for source, layer in layers]
    policy = policy_of(layer for _, layer in upper)
    defaults = _as_tables(_defaults(policy))
    stack = [(f"policy {policy.name}", defaults), *upper]
    named: Layer = reduce(merge, (layer for _, layer in upper), {})
    metric, loss = METRICS.get(str(named.get("metric"))), named.get("loss", {})
    if metric is None or metric.name == defaults.get("metric", RunConfig().metric):
        return stack  # the loss of the policy stays
    if isinstance(loss, Mapping) and "name" not in loss:
        stack.insert(1, (f"metric {metric.name}", {"loss": {"name": metric.loss}}))
    return stack


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


def _complete(layers: list[Layer], upper: list[Layer]) -> RunConfig:
    """Build the configuration from layers, and resolve all options.

    Args:
        layers: the lowest first, which is that of the policy.
        upper: those whose options of features must be of features that are used. The options of features that another
            layer replaced are dropped.
    """
    config = build_config(layers)
    resolve = registry().resolve
    chosen = {kind: getattr(config, kind) for kind in CHOICES}
    update: dict[str, Any] = {
        kind: Choice.model_validate(resolve(kind, choice.name, choice.options) | {"name": choice.name})
        for kind, choice in chosen.items()
    }
    named: Layer = reduce(merge, upper, {})
    features, vectors = config.features, config.columns.vectors or []
    if vectors and VECTORS not in features:
        update["features"] = features = [*features, VECTORS]
    for name in named.get("feature_options", {}):
        if name not in features:
            raise ConfigError(
                f"feature_options has options of '{name}', which is not among features {', '.join(features)}."
                f"{did_you_mean(name, features)}",
                parameters=("settings",),
                setting=f"feature_options.{name}",
                candidates=features,
            )
    options = {name: resolve("feature", name, config.feature_options.get(name, {})) for name in features}
    for values in options.values():
        if VECTORS in values:
            values[VECTORS] = values[VECTORS] or vectors
    update["feature_options"] = {name: values for name, values in options.items() if values}
    return config.model_copy(update=update)


def _member(layers: list[Layer], name: str) -> RunConfig:
    """Return the complete configuration of a member.

    What a layer says about a member counts directly above that layer, so later layers override it. A member with a
    policy of its own has that policy's defaults instead of those of the ensemble's.

    Args:
        layers: of the ensemble, the lowest first, which is that of the policy.
        name: of the member.
    """
    own = [_own_settings(layer, name) for layer in layers]
    shared = [{key: value for key, value in layer.items() if key != "members"} for layer in layers]
    if any("policy" in layer for layer in own):
        choice = policy_of(own)
        defaults = {key: value for key, value in _defaults(choice).items() if key != "members"}
        for layer in shared:
            layer.pop("policy", None)
        shared[0] = {**_as_tables(defaults), "policy": choice.model_dump()}
    pairs = [part for both in zip(shared[1:], own[1:], strict=True) for part in both]
    return _complete([merge(shared[0], own[0]), *pairs], own[1:])


def _own_settings(layer: Layer, name: str) -> Layer:
    """Return the settings that a layer has for a member alone; raises ConfigError."""
    members = layer.get("members", {})
    own = members.get(name, {}) if isinstance(members, Mapping) else {}
    if not isinstance(own, Mapping):
        raise ConfigError(
            f"members.{name} is {own!r}; expected a table of settings", parameters=("settings",)
        )
    if "members" in own:
        raise ConfigError(
            f"members.{name} has members of its own; a member is a single model", parameters=("settings",)
        )
    return _as_tables(own)


def _source(path: tuple[str, ...], origins: Mapping[tuple[str, ...], Setting]) -> str:
    """Return the source of a value; that of an option that no layer contains is the plugin's default."""
    if path in origins:
        return origins[path].source
    above = [origins[path[:length]] for length in range(len(path)) if path[:length] in origins]
    converted = above and above[0].value != {}  # by the plugin, from a value to a table
    return above[0].source if converted else "plugin default"
