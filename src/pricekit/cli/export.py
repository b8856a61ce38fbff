"""`pricekit export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import begin, show_result

BATCH_SENSITIVITY = 0.02
"""Share of the log prices' standard deviation above which a warning says that prices depend on each other."""


@click.command(short_help="Export a run into a bundle that predicts without torch.")
@click.argument("run", type=FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the bundle.")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16", "int8"]),
    default="fp32",
    show_default=True,
    help="Of the graph: fp16 for GPUs, int8 for CPUs and, but of bag, small files.",
)
@click.option("--triton", type=FOLDER, help="Also write the graph into this model repository of Triton.")
@click.option("--overwrite", is_flag=True, help="Replace the bundle in --out when the new one is complete.")
def export(run: Path, out: Path, precision: str, triton: Path | None, overwrite: bool) -> None:
    """Export the best weights of RUN, a run or an ensemble, into a bundle: ONNX graph, tokenizer, features, model card.

    \b
    pricekit export run --out bundle

    The graph is compared with the model on real rows at many batch sizes and lengths, and by the SMAPE that
    it gives. Where they differ, the command fails and nothing is published. In fp16 what would overflow
    stays in float32. In int8 a row's price depends a little on the rows beside it.
    """
    begin(f"reading {run}", "pricekit.exporting.export")
    from pricekit.bundle import open_bundle
    from pricekit.exporting.export import export_run
    from pricekit.exporting.triton import model_folder, write_triton
    from pricekit.log import logger

    folder = None if triton is None else model_folder(triton, run, out, overwrite=overwrite)
    report = export_run(run, out, precision=precision, overwrite=overwrite)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    logger.info(
        f"{precision}, verified at {len(report.checks)} shapes: largest relative difference "
        f"{report.largest_difference:.1e}, SMAPE changed by {report.smape_change:.1e} points"
    )
    share = report.batch_sensitivity_share_of_sd
    if share > BATCH_SENSITIVITY:
        logger.warning(
            f"a row's price depends on the other rows of its batch by up to {100 * share:.1f}% of the standard "
            "deviation of the log prices; if that matters, export as fp32 or fp16."
        )
    if folder is not None:
        write_triton(open_bundle(out), folder)
        logger.info(f"Triton's model is in {folder}")
    following = f"pricekit predict {quote(str(out))} TABLE --out prices.csv{again()}"
    show_result(f"the bundle is in {out}, {size:,.1f} MB; next: {following}", bundle=str(out), megabytes=size)
