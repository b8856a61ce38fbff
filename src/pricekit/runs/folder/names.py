"""The folder of a run, which training writes.

source.json               tables that the run was started with, and its plugins
config.toml               the complete configuration
split.parquet             ids of the training and validation rows
seen.parquet              texts that this run and those that it continues were trained on (`pricekit.runs.warm.seen`)
rejected.parquet          unusable rows, with the reason
sample.parquet            some validation rows, to verify an exported graph on
out_of_fold.parquet       training columns of features that use the price; only with such features
pseudo_labelled.parquet   training rows that a teacher priced; only with a teacher
tokenizer.json, preprocess.json    turn a table into model inputs
asset-HASH.onnx, asset-HASH.bin    files that features need; only with such features (`pricekit.features.assets`)
backbone.json             values that the backbone stored to rebuild its encoder
metrics.jsonl             one line per epoch
train.inputs, valid.inputs    model inputs of a large table (`pricekit.runs.inputs`); deleted when the run is finished
last.safetensors          checkpoint to resume from
last-1.safetensors, …     earlier checkpoints, in case the last one is damaged; deleted when the run is finished
best.safetensors          weights with the lowest validation SMAPE, or the last ones
intervals.json            calibrated widths of price intervals
held_out.parquet          validation rows with their predicted prices
sketch.json               what tables are compared with (`pricekit.monitoring`)
run.json                  table, rows, plugins, metrics of the best weights; written last
files.json                size and SHA-256 of the files that are read again, except checkpoints to resume from
refit                     the same files of a second pass, on all rows, until it is complete and replaces the first one
"""

from __future__ import annotations

from pathlib import Path

from pricekit.evaluation.held_out import FILE as HELD_OUT
from pricekit.features.assets import is_asset
from pricekit.monitoring.sketch import FILE as SKETCH
from pricekit.runs.inputs import FILES as INPUTS
from pricekit.runs.warm.seen import FILE as SEEN
from pricekit.support.digests import LISTING
from pricekit.training.checkpoint import BEST, EARLIER, LAST

SOURCE = "source.json"
BACKBONE = "backbone.json"
INTERVALS = "intervals.json"
OUT_OF_FOLD = "out_of_fold.parquet"
PSEUDO_LABELLED = "pseudo_labelled.parquet"

REFIT, COMPLETE = "refit", ".complete"
"""The folder in a run's folder in which a second pass trains, on all rows; a file in it says that it is complete."""

SAMPLE_ROWS = 512
"""Maximum number of validation rows in the sample of a run."""

# In the order of deletion: the first file marks a finished run, the second a started run, the last one any run.
FILES = (
    *(
        "run.json",
        LISTING,
        BACKBONE,
        "config.toml",
        "split.parquet",
        SEEN,
        "rejected.parquet",
        "sample.parquet",
    ),
    *("tokenizer.json", "preprocess.json", OUT_OF_FOLD, PSEUDO_LABELLED),
    *("metrics.jsonl", *INPUTS, LAST, BEST, INTERVALS, HELD_OUT, SKETCH, SOURCE),
)


FINISHED = (BEST, INTERVALS, HELD_OUT, SKETCH, "run.json")
REFIT_FINISHED = (BEST, SKETCH, "run.json")
"""FINISHED of a second pass, which takes over the intervals and the held-out rows when it is started."""
STARTED = tuple(name for name in FILES if name not in (*FINISHED, LAST, LISTING, *INPUTS, "metrics.jsonl"))
"""What `files.json` lists when a run is started, and FINISHED when it is finished.

Checkpoints hold `metrics.jsonl`, and inputs have a checksum of their own.
"""


def is_own(file: Path) -> bool:
    """Return whether a path relative to a run's folder is that of a file of the run or of its second pass."""
    if len(file.parts) > 1 and file.parts[0] == REFIT:
        file = Path(*file.parts[1:])
    own = file.name in (*FILES, COMPLETE) or EARLIER.fullmatch(file.name) or is_asset(file.name)
    return len(file.parts) == 1 and bool(own)
