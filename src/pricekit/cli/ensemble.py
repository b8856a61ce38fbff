"""`pricekit ensemble`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.plugin_options import again
from pricekit.cli.terminal import begin, show_result, show_table


@click.command(short_help="Weigh several runs into one model.")
@click.argument("runs", type=FOLDER, nargs=-1, required=True)
@click.option("--out", type=FOLDER, required=True, help="Folder of the ensemble.")
@click.option("--overwrite", is_flag=True, help="Replace the ensemble in --out when the new one is complete.")
def ensemble(runs: tuple[Path, ...], out: Path, overwrite: bool) -> None:
    """Average the log prices of RUNS with the weights that suit the rows which none of them was trained on.

    \b
    pricekit ensemble bag minilm --out both
    pricekit export both --out bundle

    RUNS are runs that hold out the same rows (the same table and --seed), or folders of pricekit cv. Of such a
    folder all models are taken and share its weight; the score is of the one that did not see a row. Models of
    different kinds gain most. One that would weigh under 2% is left out.

    The ensemble is scored with weights that were fitted without the row they are used for. It is a MODEL to
    evaluate, predict and export, and its bundle predicts with the same one command.
    """
    begin(f"reading {len(runs)} models", "pricekit.workflows.ensemble")
    from pricekit.workflows.ensemble import make_ensemble

    if len(set(map(Path.resolve, runs))) < 2:
        raise click.UsageError("give at least two different runs")
    found = make_ensemble(runs, out, overwrite=overwrite)
    rows = [
        [
            member["path"],
            f"{member['weight']:.3f}" if member["weight"] else "left out",
            f"{member['smape']:.2f}",
        ]
        for member in found["candidates"]
    ]
    score = found["metrics"]["smape"]
    show_table(
        f"{found['rows']:,} rows that no member was trained on",
        ["model", "weight", "SMAPE"],
        [*rows, ["ensemble", "", f"{score:.2f}"]],
    )
    best = min(member["smape"] for member in found["candidates"])
    verdict = f"{abs(best - score):.2f} points {'better' if score < best else 'worse'} than"
    if f"{score:.2f}" == f"{best:.2f}":
        verdict = "as good as"
    show_result(f"SMAPE {score:.2f}, {verdict} the best member")
    show_result(f"the ensemble is in {out}; next: pricekit export {quote(str(out))} --out BUNDLE{again()}")
