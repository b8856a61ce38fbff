"""`pricekit pretrain`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pricekit.cli.options import FOLDER, TABLE, read_options_of, split_names, table_options
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import begin, show_result


@click.command(short_help="Adapt a backbone to the texts of tables, priced or not.")
@click.argument("tables", metavar="TABLE...", type=TABLE, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder of the weights.")
@click.option("--backbone", metavar="B", required=True, help="A pretrained backbone, or transformer.")
@click.option("--weights", metavar="DIR", help="Weights to begin with: a folder or a hub id.")
@click.option("--random-weights", is_flag=True, help="Begin a pretrained backbone with noise.")
@table_options(price=False)
@click.option(
    "--max-length",
    type=click.IntRange(min=4),
    metavar="N",
    default=128,
    show_default=True,
    help="Tokens of a text; what is longer is cut.",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Passes over the texts.  [default: 3; from noise 10]",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    default=32,
    show_default=True,
    help="Texts of a step.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="R",
    help="At its peak.  [default: 1e-4; from noise 1e-3]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Makes masks, order, held-out texts.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the backbone, e.g. backbone.layers=2, or facts_first=true, as given to train.",
)
@click.option(
    "--resume", is_flag=True, help="Go on from the last checkpoint; the rest of the line as before."
)
@click.option("--overwrite", is_flag=True, help="Replace the weights in --out.")
def pretrain(
    tables: tuple[Path, ...],
    out: Path,
    resume: bool,
    overwrite: bool,
    **flags: Any,
) -> None:
    """Train the encoder of a backbone to fill in masked tokens of the texts in each TABLE.

    \b
    pricekit pretrain train.csv test.csv --backbone minilm --out weights
    pricekit train train.csv --policy minilm --weights weights --out run

    Prices are not read, so rows without one count as well, and equal texts once. A part of the texts is held out to
    show the loss before and after. The folder holds config.json, tokenizer.json and model.safetensors, and in
    pretrain.json what was done.
    """
    begin(f"reading {', '.join(map(str, tables))}", "pricekit.workflows.pretraining.pretrain")
    from pricekit.workflows.pretraining.pretrain import is_unfinished
    from pricekit.workflows.pretraining.pretrain import pretrain as run

    settings = _settings(flags)
    try:
        run(
            tables,
            settings,
            out,
            read_options=read_options_of(flags),
            resume=resume,
            overwrite=overwrite,
        )
    except KeyboardInterrupt:
        given = [word for word in sys.argv[1:] if word != "--overwrite"]
        if is_unfinished(out):
            show_result(
                "continue with: " + shlex.join(["pricekit", *given, *(() if resume else ("--resume",))])
            )
        raise
    show_result(
        f"the weights are in {out}; next: pricekit train TABLE --backbone {settings.backbone} "
        f"--weights {shlex.quote(str(out))} --out RUN{again()}"
    )


def _settings(flags: dict[str, Any]) -> Any:
    from pricekit.workflows.pretraining.start import PretrainSettings

    given = {
        key: flags[key] for key in ("max_length", "epochs", "batch_size", "learning_rate", "seed", "limit")
    }
    if flags["text"]:
        given["text"] = tuple(split_names(flags["text"]))
    layer = _layer(flags["settings"])
    options = dict(layer.get("backbone", {}))
    options |= {"weights": flags["weights"]} if flags["weights"] else {}
    options |= {"random_weights": True} if flags["random_weights"] else {}
    return PretrainSettings(flags["backbone"], options, facts_first=layer.get("facts_first", False), **given)


def _layer(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings that `--set` gives: options of the backbone, and facts_first."""
    from pricekit.config import merge, parse_override
    from pricekit.errors import ConfigError

    layer: dict[str, Any] = {}
    for override in overrides:
        given = parse_override(override)
        kinds = {"backbone": dict, "facts_first": bool}
        if not all(isinstance(value, kinds.get(key, ())) for key, value in given.items()):
            raise ConfigError(
                "pretrain takes settings of the backbone, such as backbone.layers=2, and facts_first=true; found "
                + override
            )
        layer = merge(layer, given)
    return layer
