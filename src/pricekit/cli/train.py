"""`pricekit train`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from pricekit.cli.options import FOLDER, TABLE, split_names, table_options


@click.command(short_help="Train a model on a table of texts and prices.")
@click.argument("table", type=TABLE)
@click.option("--out", type=FOLDER, required=True, help="Folder of the run.")
@click.option("--policy", metavar="P", help="How to train; brings defaults for all below.  [default: quick]")
@click.option("--backbone", metavar="B", help="Tokenizer and encoder.")
@click.option("--features", metavar="F", help="Feature plugins, separated by commas.")
@click.option("--weights", metavar="DIR", help="Pretrained weights of the backbone: a folder or a hub id.")
@click.option(
    "--random-weights",
    is_flag=True,
    help="The backbone's true architecture without a download, for benchmarks.",
)
@click.option("--loss", metavar="L", help="Training objective.")
@table_options(price=True)
@click.option("--valid", type=TABLE, help="Table to validate on, instead of a part of TABLE.")
@click.option("--max-length", type=int, metavar="N", help="Tokens of a text; what is longer is cut.")
@click.option("--epochs", type=int, metavar="N", help="Passes over the rows at most.")
@click.option(
    "--time-budget",
    metavar="TIME",
    help="Such as 2h or 90m: fit the schedule into it and end inside it, best weights kept.",
)
@click.option("--quiet", is_flag=True, help="Show no progress bars.")
@click.option("--seed", type=int, metavar="N", help="Makes split, weights and order.  [default: 0]")
@click.option("--config", "config_file", type=TABLE, help="TOML file of settings; flags go over it.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting, e.g. loss.gamma=1.5."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out from its last checkpoint.")
@click.option("--overwrite", is_flag=True, help="Replace the run in --out.")
@click.option("--dry-run", is_flag=True, help="Read the table, print configuration and split, and stop.")
def train(
    table: Path,
    out: Path,
    valid: Path | None,
    encoding: str,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    **flags: Any,
) -> None:
    """Train a model on TABLE (CSV, TSV, Parquet or JSON lines) into the folder of a run.

    \b
    pricekit train products.csv --out run
    pricekit train shop.parquet --text title,description --price eur --id sku --out run
    pricekit train products.csv --out run --set training.epochs=20 --set backbone.members=5

    The screen shows each epoch's validation SMAPE (0 to 200 percent, lower is better). The run keeps
    its configuration, split, metrics, checkpoints, and the rows that could not be used.
    """
    from pricekit.screen import say
    from pricekit.training.processes import Processes
    from pricekit.training.train import Source, load_split, train

    source = Source(table, valid, encoding)
    config = _saved_config(out, flags) if resume else _config(flags)
    if dry_run:
        split = load_split(source, config)
        say(
            f"{len(split.train):,} rows to train on, {len(split.valid):,} to validate on; nothing was trained"
        )
        click.echo(config.to_toml(), nl=False)
        return
    try:
        facts = train(source, config, out, resume=resume, overwrite=overwrite)
    except KeyboardInterrupt:
        say("go on with: " + _resume_line(source, out))
        raise
    Processes().end()
    metrics = facts["metrics"]
    say(
        f"validation SMAPE {metrics['smape']:.2f} (a constant price: {facts['constant_smape']:.2f}), median error "
        f"{metrics['mdape']:.1f}%, best epoch {facts['best_epoch']}, {facts['seconds']:.0f} s"
    )
    say(f"the run is in {out}; next: pricekit export {out} --out BUNDLE")


def _resume_line(source: Any, out: Path) -> str:
    given = [str(source.table), "--out", str(out), "--resume"]
    if source.valid:
        given += ["--valid", str(source.valid)]
    if source.encoding != "utf-8":
        given += ["--encoding", source.encoding]
    return shlex.join(["pricekit", "train", *given])


def _config(flags: dict[str, Any]) -> Any:
    from pricekit.config import parse_override, read_toml
    from pricekit.core.configure import configure

    file = read_toml(flags["config_file"]) if flags["config_file"] else {}
    return configure([file, _flag_layer(flags), *map(parse_override, flags["overrides"])])


def _flag_layer(flags: dict[str, Any]) -> dict[str, Any]:
    layer: dict[str, Any] = {
        kind: {"name": flags[kind]} for kind in ("policy", "backbone", "loss") if flags[kind] is not None
    }
    layer |= {key: flags[key] for key in ("max_length", "seed", "limit") if flags[key] is not None}
    if flags["features"] is not None:
        layer["features"] = split_names(flags["features"])
    pretrained = {"weights": flags["weights"], "random_weights": flags["random_weights"] or None}
    if given := {key: value for key, value in pretrained.items() if value is not None}:
        layer["backbone"] = layer.get("backbone", {}) | given
    if given := {key: flags[key] for key in ("epochs", "time_budget") if flags[key] is not None}:
        layer["training"] = given
    if flags["quiet"]:
        layer["speed"] = {"progress": False}
    columns = {"price": flags["price"], "id": flags["id_"], "text": split_names(flags["text"] or "")}
    if given := {key: value for key, value in columns.items() if value}:
        layer["columns"] = given
    return layer


def _saved_config(out: Path, flags: dict[str, Any]) -> Any:
    from pricekit.config import build_config, read_toml
    from pricekit.errors import ConfigError, TrainingError
    from pricekit.training.run import is_run

    if not is_run(out):
        raise TrainingError(f"there is no run in {out} to resume; train without --resume")
    now = {key: flags[key] for key in ("time_budget", "quiet")}  # what may differ from one start to the next
    if (
        _flag_layer(flags | {"time_budget": None, "quiet": False})
        or flags["overrides"]
        or flags["config_file"]
    ):
        raise ConfigError(
            f"--resume goes on with the settings in {out / 'config.toml'}; leave out the others, but for "
            "--time-budget and --quiet"
        )
    layer = {"training": {"time_budget": now["time_budget"]}} if now["time_budget"] else {}
    return build_config([read_toml(out / "config.toml"), layer | {"speed": {"progress": not now["quiet"]}}])
