"""`pricekit plugins new`, `check` and `doctor`: for plugin authors, and for users whose plugin fails."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from pricekit.cli.terminal import show_result
from pricekit.core.registry import KINDS
from pricekit.support.text import did_you_mean

if TYPE_CHECKING:
    from pricekit.core.registry import Entry


@click.command(short_help="Write a package with a working plugin.")
@click.argument("kind", type=click.Choice(list(KINDS)))
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
    from pricekit.scaffold.new import new_package

    path = new_package(kind, name, folder)
    show_result(
        f"the {kind} {name} is in {path}; next: pip install -e {quote(str(path))} && pricekit plugins check {name}"
    )


@click.command(short_help="Run the conformance checks on a plugin.")
@click.argument("target", metavar="NAME|PATH")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    help="Kind of the plugin, if several kinds have a plugin with this name.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of the plugin, such as width=32."
)
def check(target: str, kind: str | None, settings: tuple[str, ...]) -> None:
    """Run the conformance checks on a plugin, a package (its name or folder) or a Python file.

    \b
    pricekit plugins check my-encoder --set width=32
    pricekit plugins check ./my-encoder
    pricekit plugins check features.py

    The exit code is 3 if a check fails. pricekit.testing has the same checks for pytest.
    """
    from functools import reduce

    from pricekit.config import merge, parse_override
    from pricekit.errors import PluginError

    options: dict[str, Any] = reduce(merge, map(parse_override, settings), {})
    if target.endswith(".py"):
        from pricekit.cli.common import load_files

        load_files(click.get_current_context(), (target,))
    entries = [entry for entry in _meant(target) if kind in (None, entry.kind)]
    if not entries:
        raise PluginError(f"{target} has no {kind or 'plugin'} to check")
    failed = sum(_check_one(entry, options) for entry in entries)
    if failed:
        raise PluginError(f"{failed} check{'s' if failed > 1 else ''} of {target} failed")
    show_result(f"all checks of {target} passed")


def _check_one(entry: Entry, options: dict[str, Any]) -> int:
    """Run the checks of one plugin and print a line for each; return how many failed."""
    from functools import partial

    from pricekit.core.loader import registry
    from pricekit.testing import CheckFailed, checks_of

    click.echo(f"{entry.kind} {entry.name} of {entry.package} {entry.version}")
    make = partial(registry().create, entry.kind, entry.name, options)
    make()  # a plugin that cannot be created fails here, not in every check
    failed = 0
    for found in checks_of(entry.kind, make):
        try:
            found()
        except CheckFailed as error:
            failed += 1
            click.echo(f"  FAILED  {found}: {error}")
        else:
            click.echo(f"  ok      {found}")
    return failed


def _meant(target: str) -> list[Entry]:
    """Return the plugins with a name, of a package or at a path; raises PluginError."""
    from pricekit.core.loader import registry
    from pricekit.errors import PluginError

    entries = list(registry().entries.values())
    if named := [entry for entry in entries if entry.name == target]:
        return named
    path = Path(target)
    package = _normal(_package_in(path) if path.is_dir() else path.name)
    if found := [entry for entry in entries if _normal(entry.package) == package]:
        return found
    if path.suffix == ".py" and path.is_file():
        raise PluginError(f"{path} registers no plugin; observers have no checks")
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
    import tomllib

    from pricekit.errors import PluginError

    try:
        return str(tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"])
    except (OSError, ValueError, KeyError) as error:
        raise PluginError(
            f"{folder} contains no package: its pyproject.toml cannot be read or has no project name ({error!r})"
        ) from None


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@click.command(short_help="Import every installed plugin, and show why any fails and how to fix it.")
@click.option(
    "--traceback",
    "with_traceback",
    is_flag=True,
    help="Show the traceback of each failure, for the plugin's author.",
)
def doctor(with_traceback: bool) -> None:
    """Import the plugins of all installed packages. For each failure, show the reason and the fix.

    The exit code is 3 if a plugin fails. pricekit and all other plugins work without it.
    """
    from pricekit.cli.terminal import show_table
    from pricekit.core.loader import registry
    from pricekit.errors import PluginError

    entries = [entry for entry in registry().entries.values() if entry.package != "pricekit"]
    failures = [
        (f"{b.package} {b.version}", f"{b.reason}. {b.remedy}", b.traceback) for b in registry().failed
    ]
    rows = [[package, "?", "failed to load"] for package, _, _ in failures]
    for entry in entries:
        failure = _failure(entry)
        failures += [failure] if failure else []
        state = "cannot be imported" if failure else "works"
        rows.append([f"{entry.package} {entry.version}", f"{entry.kind} {entry.name}", state])
    rows += [[name, "observer", "works"] for name in registry().observers()]
    if not rows:
        show_result("no plugin packages are installed; the built-in plugins are available")
        return
    show_table("", ["package", "plugin", "state"], sorted(rows), stderr=False)
    for package, said, trace in failures:
        click.echo(f"\n{package}: {said}")
        if with_traceback:
            click.echo(trace)
    if failures:
        raise PluginError(f"{len(failures)} failed; everything else works without them")


def _failure(entry: Entry) -> tuple[str, str, str] | None:
    import traceback

    from pricekit.errors import PluginError

    try:
        entry.load()
    except PluginError as error:
        return f"{entry.package} {entry.version}", str(error), "".join(traceback.format_exception(error))
    return None
