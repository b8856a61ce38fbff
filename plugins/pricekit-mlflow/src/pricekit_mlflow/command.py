"""`pricekit mlflow`."""

from __future__ import annotations

import click

from pricekit.plugin import PricekitError
from pricekit.plugin.commands import FOLDER, begin, show_result


@click.group(short_help="Register a bundle as a model of MLflow.")
def mlflow() -> None:
    """Use bundles in MLflow."""


@mlflow.command("register", short_help="Register a bundle as a model of MLflow.")
@click.argument("bundle", type=FOLDER)
@click.argument("name")
@click.option(
    "--alias", "aliases", multiple=True, help="Alias of the new version, such as champion; may be repeated."
)
@click.option("--run-id", metavar="ID", help="MLflow run that the model belongs to.  [default: none]")
def register(bundle: str, name: str, aliases: tuple[str, ...], run_id: str | None) -> None:
    """Register BUNDLE in MLflow as a new version of the model NAME.

    \b
    pricekit mlflow register bundle tea --alias champion
    mlflow models serve --model-uri models:/tea@champion --env-manager local

    MLFLOW_TRACKING_URI says where, as for all programs that use MLflow.
    """
    begin(f"registering {bundle}", "mlflow")
    from pricekit_mlflow.register import log_bundle

    try:
        uri = log_bundle(bundle, name=name, aliases=aliases, run_id=run_id)
    except RuntimeError as error:
        raise PricekitError(str(error)) from None
    show_result(f"{bundle} is {uri}", bundle=bundle, uri=uri)
