"""The report on a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from pricekit.options import WeighedOptions, model_path, table_or_none, with_options
from pricekit.results import PathLike
from pricekit.storage import Location, location_of

if TYPE_CHECKING:
    from pricekit.table import TableSource


@with_options(WeighedOptions)
def report(
    model: PathLike,
    table: TableSource | None = None,
    *,
    out: PathLike = "report.html",
    against: Sequence[PathLike] = (),
    metric: str | None = None,
    among: TableSource | None = None,
    **options: Unpack[WeighedOptions],
) -> Location:
    """Write a report on a model: one HTML file that needs no network.

    It shows how good the prices are, where they fail, with the words that made the worst of them, whether the price
    intervals hold, the data, and how to train the model again.

    Args:
        model: a bundle, a run, an ensemble or a cross-validation.
        table: a file or a frame; default: the held-out rows of the model. If it is the table of the training, the
            held-out rows are judged, and the report describes the table. It is the same for a cross-validation. A table
            without prices has a shorter report, which says so.
        out: the file to write, locally or at an address; an existing one is replaced.
        against: other runs or cross-validations on the same table, to compare with.
        metric: the metric that counts; default: that of the model.
        among: a file or a frame of products with prices, to show those that are similar to the worst rows; default:
            those of the bundle, or `table` if it is that of the training.
        **options: see below.

    Returns:
        The path or the address of the file.

    Raises:
        ConfigError: matplotlib or jinja2 is not installed.
        DataError: the table cannot be used, the model has no held-out rows, or `out` cannot be written.
        BundleError, PluginError: the model cannot be opened.

    Example:
        >>> import pricekit as pk, tempfile
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> pk.report(run, out=f"{tempfile.mkdtemp()}/report.html").name
        'report.html'
    """
    from pricekit.reporting.page import require_libraries, write_page

    require_libraries()
    from pricekit.reporting.make import sections_for

    target = location_of(out, "out")
    source = model_path(model, "model")
    sections = sections_for(
        *(source, table_or_none(table), options),
        against=tuple(model_path(run, "against") for run in against),
        metric=metric,
        among=table_or_none(among),
    )
    write_page(target, f"Report on {source.name}", sections)
    return target
