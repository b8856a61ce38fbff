"""`pricekit export`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import click

from pricekit.cli.common import again, call
from pricekit.cli.options import FOLDER, options_of
from pricekit.cli.project import BUNDLES, latest_run
from pricekit.cli.terminal import begin, show_result
from pricekit.errors import ConfigError, path_of
from pricekit.io.files import read_json
from pricekit.io.log import logger
from pricekit.io.record import FACTS
from pricekit.options import ExportOptions, TransformersOptions, parameters_of

BATCH_SENSITIVITY = 0.02
"""Warn if a row's price varies with its batch by at least this share of the standard deviation of the log prices."""


@click.command
@click.argument("run", type=FOLDER, required=False)
@click.option("--out", type=FOLDER, help="Folder for the bundle.  [default: bundles/NAME of RUN]")
@click.option(
    "--from-hf",
    "folder",
    type=FOLDER,
    help="Instead of RUN: a folder with a regressor of transformers, which --target describes.",
)
@options_of(TransformersOptions)
def export(run: str | None, folder: str | None, **flags: Any) -> None:
    """Export the best weights of RUN into a bundle: ONNX graph, tokenizer, features and model card.

    \b
    pricekit export run --out bundle
    pricekit export                   the latest run in runs/
    pricekit export --from-hf checkpoint-500 --target log1p --out bundle

    RUN is a run or an ensemble. The export compares the predictions and the SMAPE of the graph with those of the
    model, on real rows at many batch sizes and lengths. If they differ, the command fails and writes no bundle. In
    fp16, values that would overflow stay in float32. In int8, values are rounded with scales that are fixed on these
    rows.
    """
    import pricekit as pk
    from pricekit.model import trained_path

    if folder is not None:
        if run is not None:
            raise ConfigError(
                "either a run or a folder of transformers is exported", parameters=("run", "folder")
            )
        flags["out"] = out = path_of(flags["out"] or BUNDLES / Path(folder).resolve().name, "out")
        begin(f"reading {folder}", "pricekit.export.from_transformers")
        report = call(partial(pk.bundles.from_transformers, folder), flags)
    else:
        run_options = parameters_of(ExportOptions)
        for name, parameter in parameters_of(TransformersOptions).items():
            if name not in run_options and parameter.is_set(flags.pop(name)):
                raise ConfigError(
                    f"{name} describes a model of transformers, but a run is exported",
                    parameters=(name, "folder"),
                )
        path = trained_path(run or str(latest_run()), "run")
        flags["out"] = out = path_of(flags["out"] or BUNDLES / path.resolve().name, "out")
        begin(f"reading {path}", "pricekit.export.export")
        report = call(pk.Model(path).export, flags)
    logger.info(
        f"{flags['precision']}, verified at {len(report.checks)} shapes: largest relative difference "
        f"{report.largest_difference:.1e}, SMAPE changed by {report.smape_change:.1e} points"
    )
    sensitivity = report.batch_sensitivity_share_of_sd
    if sensitivity > BATCH_SENSITIVITY:
        logger.warning(
            f"a row's price depends on the other rows of its batch by up to {100 * sensitivity:.1f}% of the log "
            "prices' standard deviation; if that matters, export as fp32"
        )
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    plugins = read_json(out / FACTS["bundle"])["plugins"]
    features = {
        plugin["package"] for plugin in plugins if plugin["kind"] == "feature"
    }  # the graph has the others
    following = f"pricekit predict {quote(str(out))} TABLE --out prices.csv{again(features)}"
    show_result(f"the bundle is in {out}, {size:,.1f} MB; next: {following}", bundle=str(out), megabytes=size)
