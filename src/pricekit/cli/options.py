"""Options that several commands share."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import again
from pricekit.cli.completion import column_names, metric_names, plugin_names, setting_names
from pricekit.cli.terminal import show_result
from pricekit.options import READ_OPTIONS
from pricekit.support.files import RECORD
from pricekit.support.record import staging_of, state_of
from pricekit.training.launched import launched_count

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

TABLE = click.Path()
FOLDER = click.Path()

model_argument = click.argument("model", type=FOLDER)
table_argument = click.argument("table", type=TABLE)
optional_table = click.argument("table", type=TABLE, required=False)


def flag(name: str, text: str) -> Decorator:
    """Return an option without a value, with its help."""
    return click.option(name, is_flag=True, help=text)


def json_option(text: str) -> Decorator:
    """Return --json with its help."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def metric_option(text: str) -> Decorator:
    """Return --metric with its help."""
    return click.option("--metric", metavar="M", shell_complete=metric_names, help=text)


def names_option(name: str, metavar: str, text: str, complete: Any = None) -> Decorator:
    """Return an option whose values are names: separated by commas, or of a repeated option, or both."""
    return click.option(
        name,
        multiple=True,
        metavar=metavar,
        callback=lambda _context, _option, values: split_names(values) or None,
        shell_complete=complete,
        help=text,
    )


def split_names(values: Iterable[str]) -> list[str]:
    """Return all names in texts with names that are separated by commas."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def role_option(role: str, text: str) -> Decorator:
    """Return the option that names the column of a role."""
    return click.option(f"--{role}", metavar="COL", shell_complete=column_names(), help=text)


epochs_option = click.option(
    "--epochs",
    type=lambda given: int(given) if given.isdecimal() else given,  # the configuration checks it
    metavar="N",
    help="Maximum number of epochs, or auto: more for small tables.",
)
engine_option = click.option(
    "--engine",
    shell_complete=plugin_names("engine", extra=("auto",)),
    help="Engine that runs a bundle: a name from pricekit plugins list, or auto, the fastest one.  [default: auto]",
)
trust_option = click.option(
    "--trust",
    type=click.Path(),
    multiple=True,
    metavar="KEY",
    callback=lambda _context, _option, given: list(given) or None,
    help="Open only a bundle that this public key, a PEM file, has signed; may be repeated.",
)
allow_leak_option = flag("--allow-leak", "Train even if columns or texts leak the price.")
weight_option = role_option("weight", "Column of row weights, at least 0.")


def _all(*options: Decorator) -> Decorator:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def table_options(*, price: bool) -> Decorator:
    """Add --text, --id, --limit and the options for reading; with `price`, also --price, --decimal and --currency."""
    options: list[Decorator] = [
        names_option(
            "--text",
            "COLS",
            "Text columns, separated by commas; may be repeated. Several columns become labelled lines of one text.",
            column_names(several=True),
        ),
        role_option("id", "Column that identifies each row.  [default: sample_id, or row numbers]"),
        click.option("--encoding", metavar="E", help="Encoding of a text file.  [default: detected]"),
        click.option(
            "--delimiter", metavar="D", help="Field separator, such as ';' or tab.  [default: detected]"
        ),
        names_option(
            "--columns",
            "NAMES",
            "Names of all columns of a file without a header, separated by commas; may be repeated.",
        ),
    ]
    if price:
        options.insert(1, role_option("price", "Column of known prices.  [default: price]"))
        options += [
            click.option(
                "--decimal", metavar="MARK", help="Decimal mark of prices: '.' or ','.  [default: detected]"
            ),
            click.option(
                "--currency", metavar="C", help="Use only prices in this currency, such as EUR or €."
            ),
        ]
    limit = click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Read only the first N rows."
    )
    return _all(*options, limit)


scored_rows = _all(
    model_argument, optional_table, table_options(price=True), weight_option, engine_option, trust_option
)
"""A model and the table on whose rows it is scored; by default its held-out rows."""

model_options = _all(
    weight_option,
    role_option("group", "Column whose equal values stay on one side of the split, such as a shop."),
    role_option("time", "Column of dates, times or numbers. Later rows are held out."),
    click.option(
        "--policy",
        metavar="P",
        shell_complete=plugin_names("policy"),
        help="Training policy. It sets the defaults of all options below.  [default: quick]",
    ),
    click.option(
        "--backbone",
        metavar="B",
        shell_complete=plugin_names("backbone"),
        help="Backbone: tokenizer and encoder.",
    ),
    names_option(
        "--features",
        "F",
        "Feature plugins, separated by commas; may be repeated.",
        plugin_names("feature", several=True),
    ),
    click.option(
        "--weights", metavar="DIR", help="Pretrained weights of the backbone: a folder or a hub id."
    ),
    flag(
        "--random-weights",
        "Start the backbone from random weights instead of downloading pretrained ones. For benchmarks.",
    ),
    metric_option("What to minimise on the validation rows. It also brings its loss.  [default: smape]"),
    click.option(
        "--loss",
        metavar="L",
        shell_complete=plugin_names("loss"),
        help="Loss function.  [default: that of the metric]",
    ),
    click.option("--max-length", type=int, metavar="N", help="Maximum number of tokens per text."),
    click.option(
        "--seed", type=int, metavar="N", help="Random seed of split, weights and order.  [default: 0]"
    ),
    click.option(
        "--refit/--no-refit",
        default=None,
        help="Train once more on all rows, once the best epoch is known.  [default: as the policy says]",
    ),
    click.option(
        "--max-latency",
        metavar="TIME",
        help="Time to price one row alone, such as 5ms. An ensemble gets the members that are best within it.",
    ),
    names_option(
        "--track",
        "T",
        "Trackers that observe the training, such as mlflow or tensorboard, separated by commas; may be repeated.",
    ),
    click.option("--config", type=TABLE, help="TOML file of settings. Options override it."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=setting_names,
        help="A single setting, such as loss.gamma=1.5.",
    ),
)
"""The options that choose the model and its settings."""

teacher_options = _all(
    click.option(
        "--unpriced",
        type=TABLE,
        multiple=True,
        help="Also train on the unpriced rows of this table, such as the rows to predict.",
    ),
    click.option(
        "--teacher",
        type=FOLDER,
        multiple=True,
        help="Model that prices the rows of --unpriced. Several teachers are averaged (geometric mean).",
    ),
)
"""--unpriced and --teacher."""


def read_flags(flags: dict[str, Any]) -> list[str]:
    """Return the command-line words that read a table in the same way."""
    words = []
    for name in READ_OPTIONS:
        if value := flags.get(name):
            joined = value if isinstance(value, str) else ",".join(value)
            words += [f"--{name}", "tab" if joined == "\t" else joined]
    return words


@contextmanager
def resume_hint(command: str, flags: dict[str, Any]) -> Iterator[None]:
    """If the block is interrupted after it began its output, print the command that continues it."""
    out = Path(flags["out"])
    records = [folder / RECORD for folder in (out, staging_of(out))]
    before = list(map(_stamp, records))
    try:
        yield
    except KeyboardInterrupt:
        written = [file for file, old in zip(records, before, strict=True) if _stamp(file) not in (None, old)]
        if flags["resume"] or any(state_of(file.parent).begun for file in written):
            show_result(f"continue with: {_resume_command(command, flags)}")
        raise


def _resume_command(command: str, flags: dict[str, Any]) -> str:
    words = [str(flags["table"]), "--out", str(flags["out"]), "--resume"]
    if flags.get("valid"):
        words += ["--valid", str(flags["valid"])]
    if flags["resume"] and flags["time_budget"]:  # the time budget of the first start is in the configuration
        words += ["--time-budget", flags["time_budget"]]
    words += read_flags(flags) + ["--allow-leak"] * flags["allow_leak"]
    here = os.environ.get("LOCAL_WORLD_SIZE", "1")
    launcher = ["torchrun", "--nproc_per_node", here, "-m"] if launched_count() > 1 else []
    return shlex.join([*launcher, "pricekit", command, *words]) + again()


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a fingerprint that changes when the file is replaced; None if the file does not exist."""
    return (file.stat().st_ino, file.stat().st_mtime_ns) if file.is_file() else None
