"""`pricekit bench`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pricekit.cli.options import FOLDER, TABLE, config_of, model_options, table_options

PEER_NAMES = ("seed", "hf", "hf-grouped", "bare")


@click.group(short_help="Measure speed, beside peers.")
def bench() -> None:
    """Measure speed on this machine, in one run with what it is compared with."""


@bench.command(short_help="How fast training is.")
@click.argument("table", type=TABLE, required=False)
@model_options
@table_options(price=True)
@click.option("--rows", type=click.IntRange(min=2), default=256, show_default=True, help="Rows of a round.")
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds.")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    type=click.Choice(PEER_NAMES),
    help="Time this loop, too: seed (the published systems'), hf, hf-grouped (HF Trainer), bare (torch alone).",
)
@click.option("--ablate", is_flag=True, help="Turn each switch off alone and print what it is worth.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def train(
    table: Path | None,
    rows: int,
    repeats: int,
    peers: tuple[str, ...],
    ablate: bool,
    as_json: bool,
    read_options: Any,
    **flags: Any,
) -> None:
    """Time epochs of training over rows of TABLE, or of an invented catalogue.

    \b
    pricekit bench train --policy blazing --random-weights --peer seed --peer hf
    pricekit bench train products.csv --backbone distilroberta --random-weights --ablate

    Contenders take turns in one run; a number is the median of the rounds, a ratio the median of the
    rounds' ratios. All of them start from the same weights and train on the same rows.
    """
    from pricekit.bench.train import measure
    from pricekit.bench.workload import make_workload, read_workload_table

    config = config_of(flags)
    source = read_workload_table(table, config, read_options)
    found = measure(make_workload(config, source, rows), list(peers), repeats, ablate=ablate)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        show(found)


@bench.command(short_help="How fast prediction is.")
@click.argument("run", type=FOLDER)
@click.argument("table", type=TABLE)
@click.option("--rows", type=click.IntRange(min=2), default=512, show_default=True, help="Rows of a round.")
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds.")
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(["fp32", "fp16", "int8"]),
    default=("fp32", "int8"),
    show_default=True,
    help="Export the run in it.",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    type=click.Choice(["loop", "pipeline"]),
    help="Time this, too: loop (ONNX Runtime in the order of the file), pipeline (transformers', of pretrained "
    "backbones).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def predict(
    run: Path,
    table: Path,
    rows: int,
    repeats: int,
    precisions: tuple[str, ...],
    peers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Export RUN, and time what prices the first rows of TABLE in each engine and precision.

    \b
    pricekit bench predict run products.csv --peer loop

    Contenders take turns in one run; a number is the median of the rounds, a ratio the median of the
    rounds' ratios. Timed are the model alone over prepared batches, and whole files without the start.
    """
    from pricekit.bench.predict import measure as measure_prediction

    found = measure_prediction(run, table, rows, precisions, peers, repeats)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        show_prediction(found)


def show_prediction(found: Any) -> None:
    """Print the result as tables."""
    from pricekit.cli.terminal import show_table

    models = [
        [line.name, f"{line.rows_per_second:,.1f}", f"{line.share:.2f}", f"{line.times:.2f}"]
        for line in found.model
    ]
    headers = ["rows/s", "share of the peak", "pricekit's fastest is faster by"]
    show_table("model alone", ["engine, precision", *headers], models, stderr=False)
    files = [[line.name, f"{line.rows_per_second:,.1f}", f"{line.times:.2f}"] for line in found.files]
    show_table("file to file", ["way", headers[0], headers[2]], files, stderr=False)
    show_facts(found.facts)


def show(found: Any) -> None:
    """Print the result as tables."""
    from pricekit.cli.terminal import show_table

    def cells(speed: Any) -> list[str]:
        times = "" if speed.times is None else f"{speed.times:.2f}"
        return [
            speed.name,
            f"{speed.rows_per_second:,.1f}",
            f"{speed.tokens_per_second:,.0f}",
            times,
            speed.note,
        ]

    headers = ["rows/s", "real tokens/s"]
    peers = [cells(line)[:4] for line in [found.own, *found.peers]]
    show_table("training", ["loop", *headers, "pricekit is faster by"], peers, stderr=False)
    if found.switches:
        switches = [cells(line) for line in found.switches]
        show_table("without each", ["switch", *headers, "it is worth", ""], switches, stderr=False)
    show_facts(found.facts)


def show_facts(facts: dict[str, float | str]) -> None:
    """Print facts as a table."""
    from pricekit.cli.terminal import show_table

    rows = [[name, value if isinstance(value, str) else f"{value:,.2f}"] for name, value in facts.items()]
    show_table("", ["fact", "value"], rows, stderr=False)
