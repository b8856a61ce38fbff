"""`pricekit plugins`."""

from __future__ import annotations

import inspect
import json
from importlib.metadata import requires
from typing import Any, Literal, get_args, get_origin

import click

from pricekit.cli.plugin_authors import check, doctor, new
from pricekit.core.registry import FILE, KINDS
from pricekit.support.text import did_you_mean


@click.group(short_help="List and explain features, backbones, losses, policies and engines.")
def plugins() -> None:
    """List, explain, create and check plugins: features, backbones, losses, policies and engines.

    \b
    pricekit plugins list --kind loss
    pricekit plugins show focal-smape
    pricekit plugins new feature word-count && pip install -e word-count
    pricekit plugins check word-count

    Plugins are built in or come from installed packages. PRICEKIT_LOAD_PLUGINS=a,b loads only these packages; an
    empty value loads none. With PRICEKIT_STRICT_PLUGINS=1, a plugin that fails to load is an error.
    """


@plugins.command("list")
@click.option("--kind", type=click.Choice(list(KINDS)), help="Show only plugins of this kind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def list_(kind: str | None, as_json: bool) -> None:
    """List all plugins, and the packages that failed to load."""
    from pricekit.cli.terminal import show_table
    from pricekit.core.loader import registry
    from pricekit.support.log import logger

    entries = [entry for k in KINDS if kind in (None, k) for entry in registry().of_kind(k)]
    failed = registry().failed
    if as_json:
        ready = [entry.facts() | {"summary": entry.summary, "state": "ready"} for entry in entries]
        click.echo(json.dumps([*ready, *(b.facts() | {"state": "failed"} for b in failed)], indent=2))
        return
    rows = [[e.kind, e.name, f"{e.package} {e.version}", e.summary, "ready"] for e in entries]
    if kind is None:
        rows += [["-", "", name, "observes runs", "ready"] for name in registry().observers()]
    rows += [["?", b.name, f"{b.package} {b.version}", "", "failed"] for b in failed]
    show_table("", ["kind", "name", "package", "summary", "state"], rows, stderr=False)
    if failed:
        logger.warning(
            "some plugins failed to load; run pricekit plugins doctor to see why and how to fix them"
        )


@plugins.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def show(name: str, as_json: bool) -> None:
    """Explain the plugin NAME: its source, its options and, for a policy, its defaults."""
    from pricekit.cli.terminal import show_table

    found = [_facts(entry) for entry in _named(name)]
    if as_json:
        click.echo(json.dumps(found if len(found) > 1 else found[0], indent=2))
        return
    for facts in found:
        options, numbers = facts.pop("options"), facts.pop("defaults", {})
        lines = {key: ", ".join(value) if isinstance(value, list) else value for key, value in facts.items()}
        click.echo("\n".join(f"{key:<9}{value}" for key, value in lines.items()))
        if options:
            rows = [[o["name"], o["type"], _written(o), o["search"], o["description"]] for o in options]
            names = ["name", "type", "default", "search", "description"]
            shown = [place for place in range(5) if place != 3 or any(row[3] for row in rows)]
            table = [[row[place] for place in shown] for row in rows]
            show_table("options", [names[place] for place in shown], table, stderr=False)
        if numbers:
            show_table(
                "defaults",
                ["setting", "value"],
                [[k, json.dumps(v)] for k, v in numbers.items()],
                stderr=False,
            )


def _named(name: str) -> list[Any]:
    """Return the plugins with a name, of any kind; raises PluginError."""
    from pricekit.core.loader import registry
    from pricekit.errors import PluginError

    found = [entry for kind in KINDS for entry in registry().of_kind(kind) if entry.name == name]
    if not found:
        names = sorted({entry.name for entry in registry().entries.values()})
        raise PluginError(
            f"there is no plugin '{name}'; available: {', '.join(names)}.{did_you_mean(name, names)}"
        )
    return found


def _facts(entry: Any) -> dict[str, Any]:
    from pricekit.core.loader import registry
    from pricekit.core.registry import options_model

    plugin = entry.load()
    model = options_model(plugin)
    facts = {
        "name": entry.name,
        "kind": entry.kind,
        "summary": entry.summary,
        "package": f"{entry.package} {entry.version}",
        "defined": _place(plugin, entry.target),
        "needs": _needs(entry),
        "options": [_option(n, f) for n, f in model.model_fields.items()] if model else [],
    }
    if names := getattr(plugin, "names", None):
        facts["columns"] = [] if callable(names) else list(names)
    if entry.kind == "policy":
        made = registry().create("policy", entry.name)  # a policy's defaults may depend on its options
        facts["defaults"] = dict(_flat(made.defaults))
        if notes := getattr(made, "notes", None):
            facts["notes"] = notes
    return facts


def _place(plugin: Any, target: str) -> str:
    """Return where a plugin is defined: its target, with file and line if known."""
    try:
        file, line = inspect.getsourcefile(plugin), inspect.getsourcelines(plugin)[1]
    except (TypeError, OSError):  # made by a function, or not from a file
        return target
    return f"{target}, {file}:{line}"


def _needs(entry: Any) -> str:
    """Return what must be installed for a plugin."""
    if entry.version.startswith(FILE):
        return "this file"
    if entry.package == "pricekit":
        inside = entry.target.startswith(("pricekit.model.", "pricekit.optim."))
        return (
            "pricekit[train]"
            if inside
            else "pricekit[cpu] or [gpu]"
            if entry.kind == "engine"
            else "pricekit"
        )
    return ", ".join(r for r in requires(entry.package) or [] if "extra ==" not in r) or "nothing"


def _option(name: str, field: Any) -> dict[str, Any]:
    """Return an option as JSON values; one without a default is required."""
    from pricekit.config import Search

    values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    kind = " | ".join(values) or getattr(field.annotation, "__name__", str(field.annotation))
    required = field.is_required()
    default = (
        None
        if required
        else json.loads(json.dumps(field.get_default(call_default_factory=True), default=str))
    )
    facts = {"name": name, "type": kind, "required": required, "default": default}
    search = [str(mark) for mark in field.metadata if isinstance(mark, Search)]
    return facts | {"search": "".join(search), "description": field.description or ""}


def _written(option: dict[str, Any]) -> str:
    return "required" if option["required"] else json.dumps(option["default"])


def _flat(table: Any, prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in table.items():
        if hasattr(value, "items"):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows


for _command in (new, check, doctor):
    plugins.add_command(_command)
