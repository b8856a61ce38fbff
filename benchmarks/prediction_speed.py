"""Export RUN, and time prediction of the first rows of TABLE in each engine and precision.

    python benchmarks/prediction_speed.py run products.csv --peer loop

The contenders take turns in one run. A number is the median of the rounds, a ratio the median of the rounds' ratios.
Two things are timed: the model alone over prepared batches, and whole files without the start of the process.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from speed import prediction
from speed.output import show_facts

from pricekit.cli.terminal import logging_to_terminal, show_table

PRECISIONS = ("fp32", "fp16", "int8")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, and print tables or JSON."""
    options = _parser().parse_args(arguments)
    precisions = options.precision or ["fp32", "int8"]
    with logging_to_terminal():
        measured = prediction.measure(
            options.run, options.table, options.rows, precisions, options.peer, options.repeats
        )
    if options.json:
        print(json.dumps(asdict(measured), indent=2))
    else:
        show(measured)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("table", type=Path, help="table with texts")
    parser.add_argument("--rows", type=int, default=512, help="rows of a round [default: 512]")
    parser.add_argument("--repeats", type=int, default=5, help="rounds [default: 5]")
    parser.add_argument(
        "--precision",
        action="append",
        default=[],
        choices=PRECISIONS,
        help="precision of an exported bundle; repeat for several [default: fp32 and int8]",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        choices=["loop", "pipeline"],
        help="also time this: loop (ONNX Runtime in the order of the file), pipeline (transformers.pipeline, for "
        "pretrained backbones)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def show(measured: prediction.Measured) -> None:
    """Print the result as tables."""
    models = [
        [line.name, f"{line.rows_per_second:,.1f}", f"{line.share or 0.0:.2f}", f"{line.times:.2f}"]
        for line in measured.model
    ]
    headers = ["rows/s", "share of the peak", "pricekit's fastest is faster by"]
    show_table("model alone", ["engine, precision", *headers], models, stderr=False)
    files = [[line.name, f"{line.rows_per_second:,.1f}", f"{line.times:.2f}"] for line in measured.files]
    show_table("file to file", ["contender", headers[0], headers[2]], files, stderr=False)
    show_facts(measured.facts)


if __name__ == "__main__":
    main()
