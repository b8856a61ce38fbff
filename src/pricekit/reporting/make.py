"""The sections of the report on any model and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pricekit.errors import ConfigError
from pricekit.reporting.blocks import Section
from pricekit.reporting.build import subject_of
from pricekit.reporting.sections import sections_of
from pricekit.reporting.unpriced import has_no_prices, read_unpriced, unpriced_sections
from pricekit.runs.load import load_model
from pricekit.workflows.evaluate import products_among


def sections_for(
    model: Path,
    table: Any,
    options: Mapping[str, Any],
    *,
    against: Sequence[Path] = (),
    metric: str | None = None,
    among: Any = None,
) -> list[Section]:
    """Return the sections; arguments and errors as of `pricekit.reporting.build.subject_of`.

    Raises:
        ConfigError: a table without prices is given together with what needs prices.
    """
    if table is not None and not (model / "cv.json").is_file():
        predictor = load_model(model)
        if has_no_prices(predictor, table, options):
            if needed := [name for name, value in (("against", against), ("metric", metric)) if value]:
                raise ConfigError(
                    f"the table has no prices, which {needed[0]} needs; give a table with prices, or leave it out",
                    parameters=(needed[0],),
                )
            products = None if among is None else products_among(model, among)
            return unpriced_sections(read_unpriced(model, predictor, table, options, products))
    return sections_of(subject_of(model, table, options, against=against, metric=metric, among=among))
