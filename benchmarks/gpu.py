"""The four published systems on this machine's GPU: their own loop, pricekit with their settings, everything on.

    python benchmarks/gpu.py [TABLE] [--rows 2048] [--repeats 5] [--system blazing ...]

Random weights of the true architectures, the same rows for all. `their loop` tokenises each text when it is
fetched, pads it to the full length and trains in fp16; `pricekit` is the unchanged policy; `everything on`
processes the effective batch in one pass without gradient checkpointing, if memory allows. The last line is
DistilRoBERTa in bf16 at the texts' own lengths. `--tiny` tests the script on a CPU; its numbers are
meaningless.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from speed.training import Measured, measure
from speed.workload import make_workload, read_workload_table

from pricekit.cli.terminal import show_table
from pricekit.config.resolve import configure

SYSTEMS = ("blazing", "fast", "optimized", "ultra")
TINY: dict[str, Any] = {
    "backbone": {"name": "transformer", "width": 16, "layers": 1, "heads": 2, "vocab_size": 300},
    "max_length": 32,
    "speed": {"gradient_checkpointing": False},
}


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and print the table."""
    options = _options(arguments)
    rows = []
    for system in options.system:
        as_it_stands = _measured(options, _as_it_stands(system), ["seed"])
        their = as_it_stands.peers[0]
        rows.append(_row(system, "their loop", their, None, as_it_stands))
        rows.append(_row(system, "pricekit", as_it_stands.own, their.times, as_it_stands))
        full = _measured(options, _everything_on(system), [])
        times = full.own.rows_per_second / their.rows_per_second
        rows.append(_row(system, "everything on", full.own, times, full))
        for row in rows[-3:]:
            print(*row, sep="\t", file=sys.stderr, flush=True)
    bf16 = _everything_on("blazing")
    bf16["speed"]["precision"] = "bf16"
    lengths = _measured(options, bf16, [])
    rows.append(_row("distilroberta", "bf16, own lengths", lengths.own, None, lengths))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "a CPU: these numbers mean nothing"
    headers = ["system", "loop", "rows/s", "real tokens/s", "times their loop", "share of peak", "GiB"]
    show_table(f"training on {where}", headers, rows, stderr=False)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--rows", type=int, default=2048, help="of a round")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--system", choices=SYSTEMS, nargs="+", default=SYSTEMS)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script on a CPU")
    options = parser.parse_args(arguments)
    if options.tiny:
        options.rows, options.repeats = 24, 1
    elif not torch.cuda.is_available():
        parser.error("there is no CUDA GPU here; --tiny tries the script on a CPU")
    return options


def _as_it_stands(system: str) -> dict[str, Any]:
    """Return the layer of a system as it was published: no slicing of DeBERTa's positions."""
    sliced = configure([{"policy": system}]).backbone.options.get("slice_positions")
    return {"policy": system, "backbone": {"slice_positions": False}} if sliced else {"policy": system}


def _everything_on(system: str) -> dict[str, Any]:
    """Return the layer that takes a system's effective batch in one pass."""
    training = configure([{"policy": system}]).training
    batch = training.batch_size * training.gradient_accumulation_steps
    return {
        "policy": system,
        "training": {"batch_size": batch, "gradient_accumulation_steps": 1},
        "speed": {"gradient_checkpointing": False},
    }


def _measured(options: argparse.Namespace, layer: dict[str, Any], peers: list[str]) -> Measured:
    random = {"backbone": {"random_weights": True}}
    config = configure([layer, TINY if options.tiny else random])
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    table = read_workload_table(options.table, config)
    return measure(make_workload(config, table, options.rows), peers, options.repeats, ablate=False)


def _row(system: str, loop: str, speed: Any, times: float | None, found: Measured) -> list[str]:
    share = float(found.facts["share of it"]) * speed.tokens_per_second / found.own.tokens_per_second
    return [
        *(system, loop, f"{speed.rows_per_second:,.0f}", f"{speed.tokens_per_second:,.0f}"),
        "" if times is None else f"{times:.2f}",
        f"{share:.2f}",
        f"{float(found.facts['peak memory of the process, GiB']):.1f}" if speed is found.own else "",
    ]


if __name__ == "__main__":
    main()
