"""`pricekit export`."""

from __future__ import annotations

from pathlib import Path

import click

from pricekit.cli.options import FOLDER


@click.command(short_help="Export a run into a bundle that predicts without torch.")
@click.argument("run", type=FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the bundle.")
@click.option("--overwrite", is_flag=True, help="Replace the bundle in --out when the new one is complete.")
def export(run: Path, out: Path, overwrite: bool) -> None:
    """Export the best weights of RUN into a bundle: ONNX graph, tokenizer, features, model card.

    \b
    pricekit export run --out bundle

    The graph is compared with the model on real rows at many batch sizes and lengths. Where they
    differ, the command fails and nothing is published.
    """
    from pricekit.export.export import export_run
    from pricekit.screen import say

    checks = export_run(run, out, overwrite=overwrite)
    worst = max(check.difference for check in checks)
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    say(f"verified at {len(checks)} shapes, largest relative difference {worst:.1e}")
    say(f"the bundle is in {out}, {size:,.1f} MB; next: pricekit predict {out} TABLE --out prices.csv")
