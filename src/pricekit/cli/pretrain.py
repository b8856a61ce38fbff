"""`pricekit pretrain`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import again
from pricekit.cli.completion import plugin_names
from pricekit.cli.options import FOLDER, TABLE, flag, table_options
from pricekit.cli.terminal import begin, show_result
from pricekit.support.record import state_of


@click.command
@click.argument("tables", metavar="TABLE...", type=TABLE, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder for the weights.")
@click.option(
    "--backbone",
    metavar="B",
    required=True,
    shell_complete=plugin_names("backbone"),
    help="A pretrained backbone, or transformer.",
)
@click.option("--weights", metavar="DIR", help="Weights to start from: a folder or a hub id.")
@flag("--random-weights", "Start a pretrained backbone from random weights.")
@table_options(price=False)
@click.option(
    "--max-length",
    type=click.IntRange(min=4),
    metavar="N",
    help="Maximum number of tokens per text.  [default: 128]",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of epochs.  [default: 3; from random weights 10]",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of texts per step.  [default: 32]",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="R",
    help="Peak learning rate.  [default: 1e-4; from random weights 1e-3]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Random seed of the masks, the order and the held-out texts.  [default: 0]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the backbone, such as backbone.layers=2, or facts_first=true. Use the same as for train.",
)
@flag("--resume", "Continue from the last checkpoint, or start. Repeat all other options.")
@flag("--overwrite", "Replace the weights in --out.")
def pretrain(**flags: Any) -> None:
    """Adapt a backbone to the texts of each TABLE: train its encoder to fill in masked tokens.

    \b
    pricekit pretrain train.csv test.csv --backbone minilm --out weights
    pricekit train train.csv --policy minilm --weights weights --out run

    The command reads no prices, so rows without a price count, too. Equal texts count once. Held-out texts show the
    loss before and after. The folder contains config.json, tokenizer.json, model.safetensors, and a record of the
    training in pretrain.json.
    """
    begin(f"reading {', '.join(flags['tables'])}", "pricekit.workflows.pretraining")
    import pricekit as pk

    out = str(flags["out"])
    try:
        pk.pretrain(**flags)
    except KeyboardInterrupt:
        if state_of(Path(out)).replacement:
            words = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
            show_result("continue with: " + shlex.join(["pricekit", *words, "--resume"]))
        raise
    show_result(
        f"the weights are in {out}; next: pricekit train TABLE --backbone {flags['backbone']} "
        f"--weights {shlex.quote(out)} --out RUN{again()}",
        weights=out,
    )
