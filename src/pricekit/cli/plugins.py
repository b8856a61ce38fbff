"""`pricekit plugins`."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
import traceback
from collections.abc import Iterator
from functools import partial, reduce
from importlib.metadata import requires
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from shlex import quote
from string import Template
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from pricekit import __version__
from pricekit.cli.common import load_files
from pricekit.cli.options import TABLE, json_option, options_of
from pricekit.cli.terminal import show_data, show_result, show_table, spinner
from pricekit.config import Search, merge, parse_override
from pricekit.config.layers import by_dotted_name
from pricekit.core.calls import plugin_call
from pricekit.core.hookspecs import API
from pricekit.core.loader import registry
from pricekit.core.registry import FILE, KINDS, Entry, options_model
from pricekit.errors import ConfigError, PluginError
from pricekit.io.files import publish_folder
from pricekit.io.log import logger
from pricekit.options import PricedOptions, refuse_reading_options
from pricekit.wording import counted, did_you_mean

if TYPE_CHECKING:
    from pricekit.table import Table

CHECKED_ROWS = 1000
"""How many rows of a table `plugins check` reads by default."""

USE = {
    "feature": "pricekit train products.csv --features optimized22,columns,$name --out run",
    "backbone": "pricekit train products.csv --backbone $name --out run",
    "loss": "pricekit train products.csv --loss $name --out run",
    "policy": "pricekit train products.csv --policy $name --out run",
    "engine": "pricekit predict bundle products.csv --engine $name --out prices.csv",
}
"""The command that uses a plugin of each kind that `new` writes, for the README of the package."""

SUMMARY = {
    "feature": "length of the text and share of digits",
    "backbone": "mean of the token embeddings; no download",
    "loss": "Huber loss on the log price",
    "policy": "bag with a linearly decaying learning rate",
    "engine": "ONNX Runtime on the CPU, with a configurable number of threads",
}
"""The summary that each kind's template registers."""


@click.group
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


@plugins.command(short_help="Write a package with a working plugin.")
@click.argument("kind", type=click.Choice(list(USE)))
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder for the package.  [default: the current one]",
)
def new(kind: str, name: str, folder: Path) -> None:
    """Write a complete package with a working plugin called NAME. It passes its checks.

    \b
    pricekit plugins new backbone my-encoder
    pip install -e my-encoder
    pricekit plugins check my-encoder
    """
    path = new_package(kind, name, folder)
    show_result(
        f"the {kind} {name} is in {path}; next: pip install -e {quote(str(path))} && pricekit plugins check {name}"
    )


def new_package(kind: str, name: str, folder: Path) -> Path:
    """Write a package with one plugin into a new folder and return the folder.

    Args:
        kind: feature, backbone, loss, policy or engine.
        name: the name of the plugin, the package and the new folder.
        folder: the parent of the new folder.

    Raises:
        ConfigError: the name is invalid or taken, or the folder exists.
    """
    module = name.replace("-", "_")
    class_name = "".join(part.title() for part in module.split("_"))
    _check_name(kind, name, module, class_name)
    path = folder / name
    if path.exists():
        raise ConfigError(
            f"{path} already exists; choose another name or another folder",
            parameters=("name", "folder"),
            path=str(path),
        )
    oldest = ".".join(__version__.split(".")[:2])  # the package supports all versions from this one on
    values = {
        "kind": kind,
        "name": name,
        "module": module,
        "class_name": class_name,
        "hook": KINDS[kind],
        "api": API,
        "summary": SUMMARY[kind],
        "requires": f"{'pricekit' if kind in ('feature', 'engine') else 'pricekit[train]'}>={oldest}",
        "use": USE[kind].replace("$name", name),
    }
    places = {
        "pyproject.toml": "package/pyproject.toml.txt",
        "README.md": "package/README.md.txt",
        "noxfile.py": "package/noxfile.py.txt",
        f"src/{module}/__init__.py": "package/__init__.py.txt",
        f"src/{module}/plugin.py": f"{kind}/plugin.py.txt",
        f"tests/test_{module}.py": f"{'loss' if kind == 'loss' else 'package'}/test.py.txt",
    }
    templates = files("pricekit.cli").joinpath("templates")
    texts = {place: templates.joinpath(name).read_text("utf-8") for place, name in places.items()}
    publish_folder(path, {place: Template(text).substitute(values).encode() for place, text in texts.items()})
    return path


def _check_name(kind: str, name: str, module: str, class_name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")
        hint = f" Try '{better}'." if better else ""
        raise ConfigError(
            f"'{name}' is not a valid plugin name; expected lower-case letters, digits and hyphens.{hint}",
            parameters=("name",),
        )
    if iskeyword(module) or iskeyword(class_name):
        raise ConfigError(f"'{name}' is a Python keyword; choose another name", parameters=("name",))
    if taken := registry().entries.get((kind, name)):
        raise ConfigError(
            f"{taken.package} already registers a {kind} named '{name}'; choose another name",
            parameters=("name",),
        )
    if find_spec(module) is not None:
        raise ConfigError(
            f"the module name {module} is already used by an installed package; choose another name",
            parameters=("name",),
        )


@plugins.command(short_help="Run the conformance checks on a plugin.")
@click.argument("target", metavar="NAME|PATH")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    help="Kind of the plugin, if several kinds have a plugin with this name.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the plugin, such as width=32."
)
@click.option("--table", type=TABLE, help="Check a feature, backbone or loss on the rows of this table.")
@options_of(PricedOptions, limit=f"{CHECKED_ROWS:,}")
def check(
    target: str, kind: str | None, settings: tuple[str, ...], table: str | None, **reading: Any
) -> None:
    """Run the conformance checks on a plugin, a package (its name or folder) or a Python file.

    \b
    pricekit plugins check my-encoder --set width=32
    pricekit plugins check ./my-encoder
    pricekit plugins check features.py --table products.csv

    The exit code is 3 if a check fails. pricekit.testing has the same checks for pytest.
    """
    options: dict[str, Any] = reduce(merge, map(parse_override, settings), {})
    if target.endswith(".py"):
        load_files(click.get_current_context(), (target,))
    entries = [entry for entry in _plugins_at(target) if kind in (None, entry.kind)]
    if not entries:
        raise PluginError(f"{target} has no {kind or 'plugin'} to check")
    rows = _rows_for(entries, table, reading)
    passed = [each for entry in entries for each in _check_one(entry, options, rows)]
    if failed := passed.count(False):
        raise PluginError(f"{failed} of {counted(len(passed), 'check')} of {target} failed")
    show_result(f"all {counted(len(passed), 'check')} of {target} passed")


def _rows_for(entries: list[Entry], table: str | None, reading: dict[str, Any]) -> Table | None:
    """Read the table for the checks, if one is named; raises ConfigError if they read none."""
    from pricekit.testing import KINDS_OF_ROWS

    if table is None:
        refuse_reading_options(reading)
        return None
    if not any(entry.kind in KINDS_OF_ROWS for entry in entries):
        kinds = " and ".join(sorted({entry.kind for entry in entries}))
        raise ConfigError(
            f"no check of this kind ({kinds}) reads a table; leave it out. These kinds do: {', '.join(KINDS_OF_ROWS)}",
            parameters=("table",),
        )
    import pricekit as pk

    rows: Table = pk.read_table(table, **reading | {"limit": reading["limit"] or CHECKED_ROWS})
    return rows


def _check_one(entry: Entry, options: dict[str, Any], rows: Table | None) -> Iterator[bool]:
    """Run the checks of one plugin, print a line for each, and yield whether it passed."""
    from pricekit.testing import CheckFailed, checks_of

    show_data(f"{entry.kind} {entry.name} of {entry.package} {entry.version}")
    make = partial(registry().create, entry.kind, entry.name, options)
    make()  # a plugin that cannot be created fails here, not in every check
    first: dict[str, str] = {}
    for run_check in checks_of(entry.kind, make, rows):
        try:
            with spinner(str(run_check)):
                run_check()
        except CheckFailed as error:
            same = first.setdefault(str(error), str(run_check))
            reason = error if same == str(run_check) else f"for the same reason as '{same}'"
            show_data(f"  FAILED  {run_check}: {reason}")
            yield False
        else:
            show_data(f"  ok      {run_check}")
            yield True


def _plugins_at(target: str) -> list[Entry]:
    """Return the plugins with a name, of a package or at a path; raises PluginError."""
    if named := _named(target):
        return named
    entries, path = registry().entries.values(), Path(target)
    package = _normal(_package_in(path) if path.is_dir() else path.name)
    if inside := [entry for entry in entries if _normal(entry.package) == package]:
        return inside
    if path.suffix == ".py" and path.is_file():
        raise PluginError(
            f'{path} registers no plugin; expected a decorator, such as @plugin.feature("name"), above a class. '
            "Observers have no checks"
        )
    for broken in registry().failed:
        if _normal(broken.package) == package:
            raise PluginError(
                f"{broken.package} {broken.version} failed to load: {broken.reason}. {broken.remedy}"
            )
    if path.is_dir():
        raise PluginError(f"the package in {path} is not installed here: pip install -e {path}")
    names = sorted({entry.name for entry in entries} | {entry.package for entry in entries})
    raise PluginError(
        f"there is no plugin, package or folder '{target}'; available: {', '.join(names)}.{did_you_mean(target, names)}"
    )


def _package_in(folder: Path) -> str:
    """Return the name of the package in a folder; raises PluginError."""
    try:
        return str(tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"])
    except (OSError, ValueError, KeyError) as error:
        raise PluginError(
            f"{folder} contains no package: its pyproject.toml cannot be read or has no project name ({error!r})"
        ) from None


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@plugins.command(
    short_help="Import every installed plugin, and show what engines run on, and why any plugin fails."
)
@click.option(
    "--traceback",
    "with_traceback",
    is_flag=True,
    help="Show the traceback of each failure, for the plugin's author.",
)
def doctor(with_traceback: bool) -> None:
    """Import the plugins of all installed packages. For each failure, show the reason and the fix.

    For each engine, show the device that it runs on, or what is missing; that is not a failure.

    The exit code is 3 if a plugin fails. pricekit and all other plugins work without it.
    """
    for name, text in _engines():
        show_data(f"{name:<18}{text}")
    entries = [entry for entry in registry().entries.values() if entry.package != "pricekit"]
    failures = [
        (f"{b.package} {b.version}", f"{b.reason}. {b.remedy}", b.traceback) for b in registry().failed
    ]
    rows = [[package, "?", "failed to load"] for package, _, _ in failures]
    for entry in entries:
        package, state = f"{entry.package} {entry.version}", "works"
        try:
            entry.load() if entry.kind != "kernel" else registry().kernel(entry.name)
        except PluginError as error:
            state = "cannot be used" if entry.kind == "kernel" else "cannot be imported"
            failures.append((package, str(error), "".join(traceback.format_exception(error))))
        rows.append([package, f"{entry.kind} {entry.name}", state])
    rows += [[name, "observer", "works"] for name in registry().observers()]
    if not rows:
        show_result("no plugin packages are installed; the built-in plugins are available")
        return
    show_table("", ["package", "plugin", "state"], sorted(rows), stderr=False)
    for package, reason, trace in failures:
        show_data(f"\n{package}: {reason}")
        if with_traceback:
            show_data(trace)
    if failures:
        raise PluginError(f"{len(failures)} failed; everything else works without them")


def _engines() -> Iterator[tuple[str, str]]:
    """Yield the name of each engine that can tell, and what it runs on, or why it cannot run."""
    for entry in registry().of_kind("engine"):
        try:
            engine = registry().create("engine", entry.name)
            with plugin_call("engine", entry.name, "looking for its device"):
                text = engine.runs_on()
        except PluginError as error:
            text = f"cannot run here: {error}"
        if text:
            yield entry.name, text


@plugins.command("list")
@click.option("--kind", type=click.Choice(list(KINDS)), help="Show only plugins of this kind.")
@json_option("Print JSON on stdout.")
def list_(kind: str | None, as_json: bool) -> None:
    """List all plugins, and the packages that failed to load."""
    entries = [entry for k in KINDS if kind in (None, k) for entry in registry().of_kind(k)]
    failed = registry().failed
    if as_json:
        ready = [entry.facts() | {"summary": entry.summary, "state": "ready"} for entry in entries]
        show_data(json.dumps([*ready, *(b.facts() | {"state": "failed"} for b in failed)], indent=2))
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
@json_option("Print JSON on stdout.")
def show(name: str, as_json: bool) -> None:
    """Explain the plugin NAME: its source, its options and, for a policy, its defaults."""
    entries = _named(name)
    if not entries:
        names = sorted({entry.name for entry in registry().entries.values()})
        raise PluginError(
            f"there is no plugin '{name}'; available: {', '.join(names)}.{did_you_mean(name, names)}"
        )
    described = [_facts(entry) for entry in entries]
    if as_json:
        show_data(json.dumps(described if len(described) > 1 else described[0], indent=2))
        return
    for facts in described:
        options, numbers = facts.pop("options"), facts.pop("defaults", {})
        lines = {key: ", ".join(value) if isinstance(value, list) else value for key, value in facts.items()}
        show_data("\n".join(f"{key:<9}{value}" for key, value in lines.items()))
        if options:
            for o in options:
                o["default"] = "required" if o["required"] else json.dumps(o["default"])
            names = ["name", "type", "default", "search", "description"]
            if not any(o["search"] for o in options):
                names.remove("search")
            show_table("options", names, [[o[name] for name in names] for o in options], stderr=False)
        if numbers:
            show_table(
                "defaults",
                ["setting", "value"],
                [[k, json.dumps(v)] for k, v in numbers.items()],
                stderr=False,
            )


def _named(name: str) -> list[Entry]:
    """Return the plugins with a name, of any kind."""
    return [entry for kind in KINDS if (entry := registry().entries.get((kind, name)))]


def _facts(entry: Any) -> dict[str, Any]:
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
        facts["defaults"] = by_dotted_name(made.defaults)
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
        inside = entry.target.startswith(("pricekit.nets.", "pricekit.training."))
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
