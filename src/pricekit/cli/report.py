"""`pricekit report`."""

from __future__ import annotations

from typing import Any

import click

from pricekit.cli.common import ask_model
from pricekit.cli.options import model_and_table
from pricekit.cli.terminal import begin, show_result
from pricekit.io.storage import Location, size_of
from pricekit.options import ReportOptions


@click.command
@model_and_table(ReportOptions, required=False)
def report(**flags: Any) -> None:
    """Write a report on MODEL: one HTML file, which needs no network and can be sent by mail.

    \b
    pricekit report run                          the held-out rows of a run or a cross-validation
    pricekit report run products.csv             in addition, a description of the training table
    pricekit report bundle other.csv             the rows of another table
    pricekit report new --against old            with the difference between two runs

    The page shows how good the prices are, where they fail, with the words that made the worst of them, whether the
    price intervals hold, the data, and the settings of the training. It contains texts and prices of some rows.
    """
    begin(f"opening {flags['model']}", "pricekit.answers.evaluate")
    page: Location = ask_model("report", flags)
    show_result(f"the report is in {page}, {size_of(page) / 1e3:,.0f} kB", out=str(page))
