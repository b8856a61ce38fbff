"""`pricekit pretrain`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pricekit.cli.common import again, call
from pricekit.cli.options import FOLDER, TABLE, options_of
from pricekit.cli.terminal import begin, show_result
from pricekit.io.record import continued, state_of
from pricekit.options import PretrainingOptions


@click.command
@click.argument("tables", metavar="TABLE...", type=TABLE, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder for the weights.")
@options_of(PretrainingOptions)
def pretrain(**flags: Any) -> None:
    """Adapt a backbone to the texts of each TABLE: train its encoder to fill in masked tokens.

    \b
    pricekit pretrain train.csv test.csv --backbone minilm --out weights
    pricekit train train.csv --policy minilm --weights weights --out run

    The command reads no prices, so rows without a price count, too. Equal texts count once. Held-out texts show the
    loss before and after. The folder contains config.json, tokenizer.json, model.safetensors, and a record of the
    training in pretrain.json.
    """
    begin(f"reading {', '.join(flags['tables'])}", "pricekit.runs.pretraining")
    import pricekit as pk

    out = str(flags["out"])
    before = state_of(Path(out))
    try:
        call(pk.pretrain, flags)
    except KeyboardInterrupt:
        begun = flags["resume"] or state_of(Path(out)) != before
        if begun and state_of(continued(Path(out))).name == "unfinished":
            words = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
            show_result("continue with: " + shlex.join(["pricekit", *words, "--resume"]))
        raise
    show_result(
        f"the weights are in {out}; next: pricekit train TABLE --backbone {flags['backbone']} "
        f"--weights {shlex.quote(out)} --out RUN{again()}",
        weights=out,
    )
