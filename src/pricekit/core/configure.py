"""Layers of settings to a complete configuration, the options of every plugin included."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from pricekit.config import Choice, Layer, RunConfig, build_config, merge
from pricekit.core.loader import registry
from pricekit.errors import ConfigError, PluginError


def configure(layers: Iterable[Layer]) -> RunConfig:
    """Lay settings over the defaults of the policy that they name, and resolve every plugin's options.

    What comes back holds every number that the run depends on, so that it can be repeated after a
    default has changed.

    Raises:
        ConfigError: a setting or an option is unknown or of the wrong type.
        PluginError: a plugin is unknown or cannot be imported.
    """
    above = list(layers)
    named: dict[str, Any] = reduce(merge, above, {"policy": RunConfig().policy.model_dump()})
    policy = build_config([{"policy": named["policy"]}]).policy
    defaults = _defaults(policy)
    return _with_options(build_config([defaults, *above]), reduce(merge, above, {}))


def _defaults(policy: Choice) -> Layer:
    """Return a policy's defaults, checked by themselves, so that an error names the policy."""
    entry = registry().get("policy", policy.name)
    defaults = registry().create("policy", policy.name, policy.options).defaults
    try:
        build_config([dict(defaults)])
    except (ConfigError, TypeError, ValueError) as error:
        raise PluginError(
            f"the defaults of the policy '{policy.name}' of {entry.package} {entry.version} are wrong: {error}; "
            "report it to the plugin's author"
        ) from None
    return dict(defaults)


def _with_options(config: RunConfig, given: Layer) -> RunConfig:
    resolve = registry().resolve
    chosen = {kind: getattr(config, kind) for kind in ("policy", "backbone", "loss")}
    update: dict[str, Any] = {
        kind: Choice(name=choice.name, **resolve(kind, choice.name, choice.options))
        for kind, choice in chosen.items()
    }
    options = {
        name: resolve("feature", name, config.feature_options.get(name, {})) for name in config.features
    }
    # Options that only the policy gave to features that were replaced have no more use.
    unused = {name: o for name, o in given.get("feature_options", {}).items() if name not in config.features}
    update["feature_options"] = unused | {name: found for name, found in options.items() if found}
    return config.model_copy(update=update)
