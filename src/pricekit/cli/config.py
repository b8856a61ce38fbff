"""`pricekit config`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import tomli_w

from pricekit.cli.options import json_option, options_of
from pricekit.cli.terminal import show_data
from pricekit.io.log import logger
from pricekit.options import READ_OPTIONS, ModelOptions, option_layer

if TYPE_CHECKING:
    from pricekit.config import Layer
    from pricekit.config.resolve import Setting

_WIDEST = 44
"""The sources of values are aligned up to this column."""


@click.group
def config() -> None:
    """Show every setting of a training run, or the JSON schema of a file for --config.

    \b
    pricekit config show --policy fast --set training.epochs=5 > mine.toml
    pricekit config schema > pricekit.schema.json
    """


@config.command("schema", short_help="Print the JSON schema of a configuration file.")
def schema() -> None:
    """Print the JSON schema (draft 2020-12) of a configuration file on stdout.

    \b
    pricekit config schema > pricekit.schema.json
    pricekit config schema --plugin my_loss.py > pricekit.schema.json

    The schema includes the options of every installed plugin. An editor with Taplo (Even Better TOML in VS Code)
    completes and checks a file that begins with

    \b
    #:schema ./pricekit.schema.json

    The schema omits plugins that cannot be imported, and the command reports them.
    """
    from pricekit.config.schema import config_schema

    shown, left_out = config_schema()
    for why, names in left_out.items():
        logger.warning(f"omitted from the schema: {', '.join(names)} {why}")
    show_data(json.dumps(shown, indent=2))


@config.command(
    "show", short_help="Print the configuration that train would use, with the source of each value."
)
@options_of(ModelOptions)
@json_option("Print a list of {setting, value, source}.")
def show(as_json: bool, **flags: Any) -> None:
    """Print the configuration that `pricekit train` would use with the same flags, as TOML on stdout.

    \b
    pricekit config show --policy fast --epochs 5
    pricekit config show --config mine.toml --set loss=focal-smape --set loss.gamma=1.5 > whole.toml

    A comment shows the source of each value: default, policy NAME, plugin default, file PATH, flag --NAME or --set.
    Files override the policy, options override files, and --set overrides everything. The output is a valid file for
    --config. TOML has no null value, so settings that are none are comments.
    """
    from pricekit.config.resolve import explain

    settings = explain(_layers(flags))
    if as_json:
        rows = [{"setting": s.name, "value": s.value, "source": s.source} for s in settings]
        show_data(json.dumps(rows, indent=2))
        return
    show_data(as_toml(settings), nl=False)
    if lost := [f"--set {s.name}=none" for s in settings if s.value is None and s.source == "--set"]:
        logger.warning(f"TOML has no null value: to use this file with --config, also add {' '.join(lost)}")


# How a table is read is not a setting: `train` needs it each time.
show.params = [parameter for parameter in show.params if parameter.name not in READ_OPTIONS]


def _layers(flags: dict[str, Any]) -> list[tuple[str, Layer]]:
    """Return the layers of settings with their sources; each option is a separate layer."""
    from pricekit.config import parse_override, read_toml
    from pricekit.config.project import PROJECT_FILE, read_project

    project = read_project().settings
    layers: list[tuple[str, Layer]] = [(f"file {PROJECT_FILE}", project)] if project else []
    if file := flags["config"]:
        layers.append((f"file {file}", read_toml(Path(file))))
    for parameter in show.params:  # as declared, so that --backbone comes before its --weights
        name = parameter.name or ""
        if name in flags and (layer := option_layer({name: flags[name]})):
            layers.append((f"flag {parameter.opts[0]}", layer))
    return [*layers, *(("--set", parse_override(text)) for text in flags["settings"] or ())]


def as_toml(settings: Sequence[Setting]) -> str:
    """Return settings as a TOML file; a comment after each value names its source."""
    tables: dict[tuple[str, ...], list[Setting]] = {(): []}  # top-level keys come first
    for setting in settings:
        tables.setdefault(setting.path[:-1], []).append(setting)
    return "\n".join(_toml_table(path, rows) for path, rows in tables.items())


def _toml_table(path: tuple[str, ...], rows: Sequence[Setting]) -> str:
    empty: dict[str, Any] = reduce(lambda inner, key: {key: inner}, reversed(path), {})
    lines = [_toml_line(row) for row in rows]
    width = min(max(map(len, lines), default=0), _WIDEST)
    ends = ("".join(c if c.isprintable() else "?" for c in row.source) for row in rows)
    return tomli_w.dumps(empty) + "".join(
        f"{line:<{width}}  # {end}\n" for line, end in zip(lines, ends, strict=True)
    )


def _toml_line(setting: Setting) -> str:
    """Return `key = value` on one line."""
    if setting.value is None:
        return f"# {setting.path[-1]} = none"
    # Values inside a list are written inline. Strings contain no line break, so the lines can be joined.
    (start, *lines) = tomli_w.dumps({setting.path[-1]: [setting.value]}).rstrip().split("\n")
    value = "\n".join(line.strip() for line in lines[:-1]).removesuffix(",")
    value = value.replace(",\n]", "]").replace("[\n", "[").replace("\n", " ")
    return start.removesuffix("[") + value
