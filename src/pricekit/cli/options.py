"""Options that several commands share."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common_options import again
from pricekit.cli.completion import column_names, plugin_names, setting_names
from pricekit.cli.terminal import show_result

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

TABLE = click.Path()
FOLDER = click.Path()

READ_OPTIONS = ("encoding", "delimiter", "columns", "decimal", "currency")
"""The options that say how a file is read."""

epochs_option = click.option(
    "--epochs",
    type=lambda given: int(given) if given.isdecimal() else given,  # the configuration checks it
    metavar="N",
    help="Passes over the rows at most, or auto: more for small tables.",
)
allow_leak_option = click.option(
    "--allow-leak", is_flag=True, help="Also train on columns or texts that give the price away."
)


def table_options(*, price: bool) -> Decorator:
    """Add --text, --id, --limit and the options for reading; where prices are read, also --price."""
    text = click.option(
        "--text",
        metavar="COLS",
        shell_complete=column_names(several=True),
        help="Text columns, separated by commas; several become labelled lines.",
    )
    known = click.option(
        "--price",
        metavar="COL",
        shell_complete=column_names(),
        help="Column of known prices.  [default: price]",
    )
    names = click.option(
        "--id",
        metavar="COL",
        shell_complete=column_names(),
        help="Column that identifies a row.  [default: sample_id, or row numbers]",
    )
    limit = click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Read only the first N rows."
    )
    return _all([text, *([known] if price else []), names, *_read_options(price=price), limit])


def _read_options(*, price: bool) -> list[Decorator]:
    options: list[Decorator] = [
        click.option(
            "--encoding", metavar="E", help="Encoding of a text file.  [default: found in the file]"
        ),
        click.option(
            "--delimiter",
            metavar="D",
            help="Character between the fields, such as ';' or tab.  [default: found in the file]",
        ),
        click.option(
            "--columns",
            metavar="NAMES",
            help="Names of all columns of a file without a header, separated by commas.",
        ),
    ]
    if price:
        options += [
            click.option(
                "--decimal", metavar="MARK", help="Decimal mark of prices: '.' or ','.  [default: found]"
            ),
            click.option("--currency", metavar="C", help="Use only prices in this currency: EUR or €."),
        ]
    return options


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the model and its settings."""
    options = [
        click.option(
            "--policy",
            metavar="P",
            shell_complete=plugin_names("policy"),
            help="How to train; brings defaults for all options below.  [default: quick]",
        ),
        click.option(
            "--backbone",
            metavar="B",
            shell_complete=plugin_names("backbone"),
            help="Tokenizer and encoder.",
        ),
        click.option(
            "--features",
            metavar="F",
            shell_complete=plugin_names("feature", several=True),
            help="Feature plugins, separated by commas.",
        ),
        click.option(
            "--weights", metavar="DIR", help="Pretrained weights of the backbone: a folder or a hub id."
        ),
        click.option(
            "--random-weights",
            is_flag=True,
            help="Use the backbone's true architecture without a download, for benchmarks.",
        ),
        click.option("--loss", metavar="L", shell_complete=plugin_names("loss"), help="Training objective."),
        click.option("--max-length", type=int, metavar="N", help="Tokens of a text; the rest is cut."),
        click.option("--seed", type=int, metavar="N", help="Seed of split, weights and order.  [default: 0]"),
        click.option("--config", type=TABLE, help="TOML file of settings; options override it."),
        settings_option,
    ]
    return _all(options)(command)


settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=setting_names,
    help="One setting, e.g. loss.gamma=1.5.",
)


def teacher_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --unpriced and --teacher."""
    options = [
        click.option(
            "--unpriced",
            type=TABLE,
            multiple=True,
            help="Also train on the rows of this table that have no price, such as those to predict.",
        ),
        click.option(
            "--teacher",
            type=FOLDER,
            multiple=True,
            help="Model that prices the rows of --unpriced; of several, the geometric mean.",
        ),
    ]
    return _all(options)(command)


def as_arguments(flags: dict[str, Any]) -> dict[str, Any]:
    """Return flags as arguments of the functions of `pricekit`: names separated by commas become lists."""
    listed = ("text", "features", "columns")
    return flags | {name: split_names(flags[name]) for name in listed if isinstance(flags.get(name), str)}


def read_flags(flags: dict[str, Any]) -> list[str]:
    """Return the words of a command line that read a table in the same way."""
    words = []
    for name in READ_OPTIONS:
        if value := flags.get(name):
            joined = value if isinstance(value, str) else ",".join(value)
            words += [f"--{name}", "tab" if joined == "\t" else joined]
    return words


def split_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _all(options: Sequence[Decorator]) -> Decorator:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextmanager
def resume_hint(command: str, flags: dict[str, Any], marker: Path) -> Iterator[None]:
    """Print the command that continues what the block does, when it is interrupted after it wrote `marker`."""
    before = _stamp(marker)
    try:
        yield
    except KeyboardInterrupt:
        if flags["resume"] or _stamp(marker) not in (None, before):
            show_result(f"continue with: {_resume_command(command, flags)}")
        raise


def _resume_command(command: str, flags: dict[str, Any]) -> str:
    words = [str(flags["table"]), "--out", str(flags["out"]), "--resume"]
    if flags.get("valid"):
        words += ["--valid", str(flags["valid"])]
    if flags["resume"] and flags["time_budget"]:  # that of the first start is in the configuration
        words += ["--time-budget", flags["time_budget"]]
    words += read_flags(flags) + ["--allow-leak"] * flags["allow_leak"]
    return shlex.join(["pricekit", command, *words]) + again()


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a fingerprint that changes when a file is replaced; None where there is no file."""
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.is_file() else None
