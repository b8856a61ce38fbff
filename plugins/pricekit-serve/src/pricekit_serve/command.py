"""`pricekit serve`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pricekit.plugin.commands import FOLDER, OpenOptions, begin, limit_options, options_of
from pricekit_serve.limits import Limits


@click.command(short_help="Answer requests for prices over HTTP.")
@click.argument("bundles", nargs=-1, required=True, type=FOLDER, metavar="[NAME=]BUNDLE...")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address on which to listen. 0.0.0.0 is every one."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port on which to listen. 0 is a free one.",
)
@options_of(OpenOptions)
@click.option(
    "--token-file",
    type=click.Path(),
    help="File with the token that clients must send; only its owner may read it.  [default: $PRICEKIT_TOKEN]",
)
@click.option(
    "--without-token",
    is_flag=True,
    help="Answer everyone who reaches a host other than this machine.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Without a token, also answer clients that call the server by this name; localhost and IP addresses always "
    "work. May be repeated.",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Look this often whether a bundle was replaced, and open the new one.",
)
@click.option(
    "--sketches",
    type=click.Path(),
    metavar="FOLDER",
    help="Keep sketches of what is priced in this folder, which pricekit drift compares with the training table.",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="After SIGTERM, be not ready for this long before connections are refused.",
)
@limit_options(Limits)
def serve(bundles: tuple[str, ...], **flags: Any) -> None:
    """Answer requests for prices over HTTP with one BUNDLE or several.

    \b
    pricekit serve bundle --port 8080
    pricekit serve tea=bundles/tea wine=bundles/wine --token-file token

    \b
    curl localhost:8080/predict -H "Content-Type: application/json" \\
      -d '{"rows": [{"catalog_content": "Green Tea, 20 Count"}], "interval": 0.9}'

    http://localhost:8080 shows a page for trying products, and /openapi.json describes all addresses. Rows of requests
    that come at the same time are priced together. The first BUNDLE answers /predict, and each one
    /models/NAME/predict; without a NAME it is called like its folder.

    SIGTERM ends the server when all requests are answered. SIGHUP opens the bundles again; one that is damaged or fails
    its self-test is refused, and the old one stays.
    """
    begin(f"opening {', '.join(bundles)}", "pricekit.predict.predictor")
    from pricekit_serve.server import serve as run

    limits = Limits(**{each.name: flags.pop(each.name) for each in fields(Limits)})
    run(_by_name(bundles), engine=flags.pop("engine") or "auto", limits=limits, **flags)


def _by_name(bundles: tuple[str, ...]) -> dict[str, str | Path]:
    from pricekit_serve.models import named

    found: dict[str, str | Path] = {}
    for given in bundles:
        name, is_named, path = given.partition("=")
        own = {name: path} if is_named and "/" not in name and not Path(given).is_dir() else named(given)
        if twice := found.keys() & own.keys():
            raise click.UsageError(f"Two bundles have the name '{twice.pop()}'. Name them: NAME=BUNDLE.")
        found |= own
    return found
