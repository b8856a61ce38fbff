"""DeBERTa's relative positions, sliced to those in reach and whole: forward passes in turn.

    python benchmarks/deberta.py [--repeats 9] [--batch 8]

Random weights of deberta-v3-small in float32. The last column is the largest difference of the outputs.
"""

import argparse
import copy

import torch

from pricekit.bench.timing import interleaved, ratio
from pricekit.screen import show_table
from pricekit.training.backbones.architectures import DEBERTA_V3_SMALL
from pricekit.training.backbones.deberta import slice_positions
from pricekit.training.backbones.transformer import FAMILIES

LENGTHS = (32, 64, 128, 256)


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(0)
    family = FAMILIES["deberta-v2"]
    whole = family.model(family.config.from_dict(dict(DEBERTA_V3_SMALL.numbers))).eval()
    sliced = copy.deepcopy(whole)
    slice_positions(sliced)
    rows = [_row(whole, sliced, length, options) for length in LENGTHS]
    headers = ["tokens", "whole, s", "sliced, s", "times", "largest difference"]
    show_table("deberta-v3-small, forward", headers, rows, stderr=False)


def _row(
    whole: torch.nn.Module, sliced: torch.nn.Module, length: int, options: argparse.Namespace
) -> list[str]:
    ids = torch.randint(3, 1000, (options.batch, length))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        runs = {"whole": lambda: whole(**inputs), "sliced": lambda: sliced(**inputs)}
        times = interleaved(runs, options.repeats)
        difference = (whole(**inputs).last_hidden_state - sliced(**inputs).last_hidden_state).abs().max()
    factor = ratio(times["whole"], times["sliced"])
    seconds = [f"{times[name].median:.3f}" for name in runs]
    return [str(length), *seconds, f"{factor:.2f}", f"{float(difference):g}"]


if __name__ == "__main__":
    main()
