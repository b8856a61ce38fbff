"""`pricekit inspect`."""

from __future__ import annotations

import json
from typing import Any

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.terminal import show_table

_SHOWN = "schema_version pricekit_version created precision opset table currency best_epoch"


@click.command(short_help="Check a bundle and show its manifest.")
@click.argument("bundle", type=FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON on stdout.")
def inspect(bundle: str, as_json: bool) -> None:
    """Check every file of BUNDLE against its hash, and show its origin and requirements.

    \b
    pricekit inspect bundle

    The command runs nothing from the bundle and parses only the manifest.
    """
    from pricekit import api

    opened = api.inspect(bundle)
    if as_json:
        click.echo(json.dumps(opened.manifest, indent=2))
        return
    rows = [[name, value] for name, value in _facts(opened.manifest)]
    show_table(f"{bundle}: all files match their hashes", ["fact", "value"], rows, stderr=False)
    if members := opened.manifest.get("members"):
        lines = [[member["model"], f"{member['weight']:.3f}"] for member in members]
        show_table("members, whose log prices are averaged", ["graph", "weight"], lines, stderr=False)
    sizes = [[name, f"{len(content):,}"] for name, content in opened.files.items()]
    show_table("files", ["name", "bytes"], sizes, stderr=False)


def _facts(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    kept = [(name, manifest[name]) for name in _SHOWN.split() if manifest.get(name) is not None]
    facts = [(name.replace("_", " "), str(value)) for name, value in kept]
    facts += [(f"{part} rows", f"{count:,}") for part, count in (manifest.get("rows") or {}).items()]
    facts += [(name, f"{value:,.2f}") for name, value in (manifest.get("metrics") or {}).items()]
    for plugin in manifest.get("plugins") or []:
        facts.append((plugin["kind"], f"{plugin['name']} of {plugin['package']} {plugin['version']}"))
    if verified := manifest.get("verified"):
        difference = verified["max_relative_difference"]
        facts.append(("verified", f"{len(verified['shapes'])} shapes, relative difference {difference:.1e}"))
    return facts
