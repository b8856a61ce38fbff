"""`pricekit pull`."""

from __future__ import annotations

from shlex import quote

import click

from pricekit.cli.options import FOLDER, trust_option
from pricekit.cli.terminal import begin, show_result


@click.command(short_help="Fetch a bundle from the Hugging Face hub, and check it.")
@click.argument("repository", metavar="OWNER/NAME[@REVISION]")
@click.option("--out", type=FOLDER, required=True, help="New folder for the bundle.")
@trust_option
def pull(repository: str, out: str, trust: list[str] | None) -> None:
    """Fetch a bundle from a repository of the Hugging Face hub.

    \b
    pricekit pull shop/tea --out tea
    pricekit pull shop/tea@v2 --out tea --trust key.pub

    REVISION is a branch, a tag or a commit. Only the files that the manifest lists are fetched, and all are checked.
    The folder appears when it is complete; an existing one is never replaced.
    """
    begin(f"fetching {repository}", "huggingface_hub")
    from pricekit import api

    commit = api.pull(repository, out, trust=trust)
    show_result(
        f"the bundle is in {out}, of commit {commit[:12]}; next: pricekit inspect {quote(out)}",
        bundle=out,
        commit=commit,
    )
