"""`pricekit push`."""

from __future__ import annotations

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.terminal import begin, show_result


@click.command(short_help="Push a bundle to the Hugging Face hub.")
@click.argument("bundle", type=FOLDER)
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--public", is_flag=True, help="Let everyone read a new repository. By default, it is private.")
def push(bundle: str, repository: str, public: bool) -> None:
    """Push BUNDLE to a repository of the Hugging Face hub, as one commit.

    \b
    hf auth login                          or set HF_TOKEN
    pricekit push bundle shop/tea
    pricekit pull shop/tea --out tea       on another machine

    All files are checked first. The model card of the bundle is the README.md of the repository, which is made if there
    is none. The commit deletes the other files of the bundle that was there before; earlier commits keep them.
    """
    begin(f"pushing {bundle}", "huggingface_hub")
    from pricekit import api

    address = api.push(bundle, repository, public=public)
    show_result(f"{bundle} is in {address}", bundle=bundle, address=address)
