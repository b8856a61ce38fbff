"""`pricekit bundle inspect`, `sign`, `push` and `pull`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any

import click

import pricekit as pk
from pricekit.cli.options import FOLDER, json_option, options_of
from pricekit.cli.terminal import begin, show_data, show_result, show_table
from pricekit.io.log import logger
from pricekit.options import InspectOptions, PushOptions, TrustOptions
from pricekit.predict.keys import SIGNATURE
from pricekit.wording import counted, scheme_of, shorten

_MOST_ROWS, _LONGEST_FACT = 60, 200
"""Rows of a table, and characters of a cell: more of a stranger's manifest would fill the screen."""

_SHOWN = "schema_version pricekit_version created precision opset table currency price_unit best_epoch"


@click.group
def bundle() -> None:
    """Check, sign and share bundles.

    \b
    pricekit bundle inspect bundle
    pricekit bundle sign bundle --key key.pem
    """


@bundle.command(short_help="Check a bundle in a sandbox, and show its manifest.")
@click.argument("bundle", type=FOLDER)
@options_of(InspectOptions)
@json_option("Print the manifest as JSON on stdout.")
def inspect(bundle: str, self_test: bool, engine: str | None, trust: list[str] | None, as_json: bool) -> None:
    """Check BUNDLE, which may be a stranger's, and show its origin and requirements.

    \b
    pricekit bundle inspect bundle
    pricekit bundle inspect bundle --self-test --engine ort-cpu

    The command checks every file against its hash and the limits of bundles. A process with limited time and memory
    then opens the bundle and prices a few generated rows, which needs Linux. With --self-test, the engine that --engine
    names opens it afterwards, without these limits.

    \b
    Exit code 0: it was opened and used; 1: it is damaged, or exceeds the limits; 3: a plugin is missing or fails;
    4: this machine cannot inspect it.
    """
    inspection = pk.bundles.inspect(bundle, self_test=self_test, engine=engine, trust=trust)
    if inspection.note:
        logger.warning(f"{inspection.note}; only the self-test has opened it, without limits")
    if as_json:
        show_data(json.dumps(inspection.manifest, indent=2))
        return
    rows = [*_facts(inspection.manifest), ("signature", _signature(bundle, trust))]
    if inspection.seconds is not None:
        opened = (
            f"in {inspection.seconds:.1f} s with {inspection.megabytes:,.0f} MB of memory, and priced rows"
        )
        rows.append(("opened", opened))
    if tested := inspection.self_test:
        passed = f"{tested.rows} rows in {tested.engine}, relative difference {tested.difference:.1e}"
        rows.append(("self-test passed", f"{passed}, limit {tested.tolerance:g}"))
    facts = [[shorten(cell, _LONGEST_FACT) for cell in row] for row in rows]
    _show_beginning(f"{bundle}: all files match their hashes", ["fact", "value"], facts)
    if members := inspection.manifest.get("members"):
        lines = [[member["model"], f"{member['weight']:.3f}"] for member in members]
        _show_beginning("members, whose log prices are averaged", ["graph", "weight"], lines)
    sizes = [[name, f"{len(content):,}"] for name, content in inspection.bundle.files.items()]
    _show_beginning("files", ["name", "bytes"], sizes)


def _show_beginning(title: str, headers: list[str], rows: list[list[str]]) -> None:
    """Print a table of at most 60 rows; a bundle may have a thousand files."""
    show_table(title, headers, rows[:_MOST_ROWS], stderr=False)
    if len(rows) > _MOST_ROWS:
        show_data(f"and {len(rows) - _MOST_ROWS:,} more, see --json")


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
    if origin := manifest.get("transformers"):
        facts.append(("architecture", f"{origin['architecture']} of transformers"))
        facts.append(
            ("target", f"{origin['target']}, with mean {origin['mean']:g} and std {origin['std']:g}")
        )
    for plugin in manifest["plugins"]:
        facts.append((plugin["kind"], f"{plugin['name']} of {plugin['package']} {plugin['version']}"))
    if names := manifest.get("training_rows_in"):
        facts.append(("contains", f"data of training rows, such as words and prices, for {', '.join(names)}"))
    if products := manifest.get("comparables"):
        facts.append(("contains", f"ids, texts and prices of {counted(products, 'product')}"))
    shapes, difference = (manifest["verified"][name] for name in ("shapes", "max_relative_difference"))
    return [*facts, ("verified", f"{len(shapes)} shapes, relative difference {difference:.1e}")]


@bundle.command(short_help="Sign a bundle, so that others can check who wrote it.")
@click.argument("bundle", type=FOLDER)
@click.option(
    "--key", type=click.Path(), required=True, help="Private key in PEM; only its owner may access it."
)
def sign(bundle: str, key: str) -> None:
    """Sign BUNDLE with a private key.

    \b
    openssl genpkey -algorithm ed25519 -out key.pem      the private key, which stays secret
    openssl pkey -in key.pem -pubout -out key.pub        the public key, for those who use the bundle
    pricekit bundle sign bundle --key key.pem
    pricekit predict bundle new.csv --out prices.csv --trust key.pub

    All files are checked first. The signature (Ed25519, over the bytes of manifest.json, which has the hashes of all
    files) is the file signature.json of the bundle. An earlier signature is replaced.
    """
    signer = pk.bundles.sign(bundle, key)
    show_result(f"{bundle} is signed with the key {signer}", bundle=bundle, key=signer)


@bundle.command(short_help="Push a bundle to the Hugging Face hub.")
@click.argument("bundle", type=FOLDER)
@click.argument("repository", metavar="OWNER/NAME")
@options_of(PushOptions)
def push(bundle: str, repository: str, public: bool) -> None:
    """Push BUNDLE to a repository of the Hugging Face hub, as one commit.

    \b
    hf auth login                              or set HF_TOKEN
    pricekit bundle push bundle shop/tea
    pricekit bundle pull shop/tea --out tea    on another machine

    All files are checked first. The model card of the bundle is the README.md of the repository, which is made if there
    is none. The commit deletes the other files of the bundle that was there before; earlier commits keep them.
    """
    begin(f"pushing {bundle}", "huggingface_hub")
    address = pk.bundles.push(bundle, repository, public=public)
    show_result(f"{bundle} is in {address}", bundle=bundle, address=address)


@bundle.command(short_help="Fetch a bundle from the Hugging Face hub, and check it.")
@click.argument("repository", metavar="OWNER/NAME[@REVISION]")
@click.option("--out", type=FOLDER, required=True, help="New folder for the bundle.")
@options_of(TrustOptions)
def pull(repository: str, out: str, trust: list[str] | None) -> None:
    """Fetch a bundle from a repository of the Hugging Face hub.

    \b
    pricekit bundle pull shop/tea --out tea
    pricekit bundle pull shop/tea@v2 --out tea --trust key.pub

    REVISION is a branch, a tag or a commit. Only the files that the manifest lists are fetched, and all are checked.
    The folder appears when it is complete; an existing one is never replaced.
    """
    begin(f"fetching {repository}", "huggingface_hub")
    commit = pk.bundles.pull(repository, out, trust=trust)
    show_result(
        f"the bundle is in {out}, of commit {commit[:12]}; next: pricekit bundle inspect {quote(out)}",
        bundle=out,
        commit=commit,
    )
