"""Time epochs of training over rows of TABLE, or of a generated catalogue, and compare with other training loops.

    python benchmarks/training_speed.py --policy blazing --random-weights --peer seed --peer hf
    python benchmarks/training_speed.py products.csv --backbone distilroberta --random-weights --ablate

The contenders alternate in one run. Numbers are medians of the rounds, and ratios are medians of the rounds' ratios.
All contenders start from the same weights and train on the same rows.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from speed.output import show_facts
from speed.training import Measured, Speed, measure
from speed.workload import make_workload, read_workload_table

from pricekit.cli.terminal import logging_to_terminal, show_table
from pricekit.config import RunConfig, parse_override
from pricekit.config.resolve import configure

PEER_NAMES = ("seed", "hf", "hf-grouped", "bare")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, and print tables or JSON."""
    options = _parser().parse_args(arguments)
    with logging_to_terminal():
        config = _config(options)
        workload = make_workload(config, read_workload_table(options.table, config), options.rows)
        measured = measure(workload, options.peer, options.repeats, ablate=options.ablate)
    if options.json:
        print(json.dumps(asdict(measured), indent=2))
    else:
        show(measured)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="table with texts and prices")
    parser.add_argument("--policy", help="[default: quick]")
    parser.add_argument("--backbone")
    parser.add_argument("--random-weights", action="store_true", help="true architecture, no download")
    parser.add_argument("--max-length", type=int)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of a run"
    )
    parser.add_argument("--rows", type=int, default=256, help="rows of a round [default: 256]")
    parser.add_argument("--repeats", type=int, default=5, help="rounds [default: 5]")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        choices=PEER_NAMES,
        help="also time this loop: seed (the published systems'), hf, hf-grouped (HF Trainer), bare (torch alone)",
    )
    parser.add_argument(
        "--ablate", action="store_true", help="turn each switch off alone and show its effect"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _config(options: argparse.Namespace) -> RunConfig:
    layer: dict[str, Any] = {}
    if options.policy:
        layer["policy"] = options.policy
    if options.backbone:
        layer["backbone"] = {"name": options.backbone}
    if options.random_weights:
        layer.setdefault("backbone", {})["random_weights"] = True
    if options.max_length:
        layer["max_length"] = options.max_length
    return configure([layer, *map(parse_override, options.set)])


def show(measured: Measured) -> None:
    """Print the result as tables."""
    headers = ["rows/s", "real tokens/s"]
    peers = [_cells(line)[:4] for line in [measured.own, *measured.peers]]
    show_table("training", ["loop", *headers, "pricekit is faster by"], peers, stderr=False)
    if measured.switches:
        switches = [_cells(line) for line in measured.switches]
        show_table("without each", ["switch", *headers, "it is worth", ""], switches, stderr=False)
    show_facts(measured.facts)


def _cells(speed: Speed) -> list[str]:
    times = "" if speed.times is None else f"{speed.times:.2f}"
    return [
        speed.name,
        f"{speed.rows_per_second:,.1f}",
        f"{speed.tokens_per_second:,.0f}",
        times,
        speed.note,
    ]


if __name__ == "__main__":
    main()
