"""`pricekit sign`."""

from __future__ import annotations

import click

from pricekit.cli.options import FOLDER
from pricekit.cli.terminal import show_result


@click.command(short_help="Sign a bundle, so that others can check who wrote it.")
@click.argument("bundle", type=FOLDER)
@click.option(
    "--key", type=click.Path(), required=True, help="Private key in PEM; only its owner may access it."
)
def sign(bundle: str, key: str) -> None:
    """Sign BUNDLE with a private key.

    \b
    openssl genpkey -algorithm ed25519 -out key.pem      the private key, which stays secret
    openssl pkey -in key.pem -pubout -out key.pub        the public key, for those who use the bundle
    pricekit sign bundle --key key.pem
    pricekit predict bundle new.csv --out prices.csv --trust key.pub

    All files are checked first. The signature (Ed25519, over the bytes of manifest.json, which has the hashes of all
    files) is the file signature.json of the bundle. An earlier signature is replaced.
    """
    from pricekit import api

    found = api.sign(bundle, key)
    show_result(f"{bundle} is signed with the key {found}", bundle=bundle, key=found)
