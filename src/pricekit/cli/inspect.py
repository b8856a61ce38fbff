"""`pricekit inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from pricekit.bundle.signature import SIGNATURE
from pricekit.cli.options import FOLDER, engine_option, trust_option
from pricekit.cli.terminal import show_table
from pricekit.support.log import logger
from pricekit.support.text import counted, scheme_of

_SHOWN = "schema_version pricekit_version created precision opset table currency best_epoch"


@click.command(short_help="Check a bundle in a sandbox and show its manifest.")
@click.argument("bundle", type=FOLDER)
@click.option(
    "--self-test",
    is_flag=True,
    help="Also check that the engine gives the invented rows in the bundle the prices that they had at its export.",
)
@engine_option
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON on stdout.")
def inspect(bundle: str, self_test: bool, engine: str | None, trust: list[str] | None, as_json: bool) -> None:
    """Check BUNDLE, which may be a stranger's, and show its origin and requirements.

    \b
    pricekit inspect bundle
    pricekit inspect bundle --self-test --engine ort-cpu

    The command checks every file against its hash and the limits of bundles. On Linux, a process with limited time and
    memory then opens the bundle and prices a few generated rows. With --self-test, the engine that --engine names opens
    it afterwards, without these limits.
    """
    from pricekit import api

    found = api.inspect(bundle, self_test=self_test, engine=engine, trust=trust)
    if found.note:
        logger.warning(f"the bundle was not opened: {found.note}")
    if as_json:
        click.echo(json.dumps(found.manifest, indent=2))
        return
    rows = [[name, value] for name, value in _facts(found.manifest)]
    rows.append(["signature", _signature(bundle, trust)])
    if found.seconds is not None:
        rows.append(
            [
                "opened",
                f"in {found.seconds:.1f} s with {found.megabytes:,.0f} MB of memory, and priced 8 rows",
            ]
        )
    if tested := found.self_test:
        passed = f"{tested.rows} rows in {tested.engine}, relative difference {tested.difference:.1e}"
        rows.append(["self-test passed", f"{passed}, limit {tested.tolerance:g}"])
    show_table(f"{bundle}: all files match their hashes", ["fact", "value"], rows, stderr=False)
    if members := found.manifest.get("members"):
        lines = [[member["model"], f"{member['weight']:.3f}"] for member in members]
        show_table("members, whose log prices are averaged", ["graph", "weight"], lines, stderr=False)
    sizes = [[name, f"{len(content):,}"] for name, content in found.bundle.files.items()]
    show_table("files", ["name", "bytes"], sizes, stderr=False)


def _signature(bundle: str, trust: list[str] | None) -> str:
    if trust:
        return "of a trusted key"
    signed = (Path(bundle) / SIGNATURE).is_file()  # of a remote bundle it is unknown without trust
    return "not checked; --trust KEY checks it" if signed or scheme_of(bundle) else "none"


def _facts(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    kept = [(name, manifest[name]) for name in _SHOWN.split() if manifest.get(name) is not None]
    facts = [(name.replace("_", " "), str(value)) for name, value in kept]
    facts += [(f"{part} rows", f"{count:,}") for part, count in manifest["rows"].items()]
    refit = manifest.get("refit")
    if refit is not None:
        facts.append(("refit", f"on all {refit['rows']:,} rows; the metrics are of the pass before"))
    facts += [(name, f"{value:,.2f}") for name, value in manifest["metrics"].items()]
    for plugin in manifest["plugins"]:
        facts.append((plugin["kind"], f"{plugin['name']} of {plugin['package']} {plugin['version']}"))
    if names := manifest.get("training_rows_in"):
        facts.append(("contains", f"data of training rows, such as words and prices, for {', '.join(names)}"))
    if products := manifest.get("comparables"):
        facts.append(("contains", f"ids, texts and prices of {counted(products, 'product')}"))
    shapes, difference = (manifest["verified"][name] for name in ("shapes", "max_relative_difference"))
    return [*facts, ("verified", f"{len(shapes)} shapes, relative difference {difference:.1e}")]
