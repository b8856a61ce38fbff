"""What a package uses that prices rows elsewhere: a server, a model registry, or the workers of a cluster.

Example:
    >>> import pricekit as pk
    >>> from pricekit.plugin.runners import open_predictor
    >>> report = pk.train(pk.make_catalog(200), epochs=1, features="fast15").export("bundle")
    >>> open_predictor("bundle", engine="ort-cpu").predict(["Green Tea, 20 Count"]).shape
    (1,)
"""

from pricekit.answers.insight import comparables_of, explain_prices
from pricekit.insight.counts import Counts
from pricekit.insight.fields import TEXT_FIELDS
from pricekit.insight.priced_rows import (
    WAIT_SECONDS,
    BusyError,
    PricedRows,
    add_when_free,
    check_priced_file,
)
from pricekit.insight.products import MOST_CHARACTERS as LONGEST_PRODUCT
from pricekit.insight.products import Products
from pricekit.insight.sketch import MOST_OTHER_COLUMNS, SKETCH, Sketch, read_sketch, require_sketch
from pricekit.io.interrupts import finish_first
from pricekit.io.storage import Address, Location, fingerprints_below, location_of
from pricekit.metrics import METRICS
from pricekit.options import Keys, PathLike, UncertaintyOptions, parameters_of, with_options
from pricekit.predict.bundle import files_of_bundle
from pricekit.predict.files import WINDOW
from pricekit.predict.folders import Job, Outcome, Part, Runner, parts_of
from pricekit.predict.intervals import RELEASE, Uncertainty
from pricekit.predict.keys import Trust, read_trust
from pricekit.predict.members import BundleReader, read_bundle, table_of
from pricekit.predict.predictor import Predictor, Shipped
from pricekit.runs.load import open_predictor
from pricekit.table import MAX_TEXT_CHARS
from pricekit.table.columns import as_model_text, text_array
from pricekit.wording import scheme_of

__all__ = [
    "LONGEST_PRODUCT",
    "MAX_TEXT_CHARS",
    "METRICS",
    "MOST_OTHER_COLUMNS",
    "RELEASE",
    "SKETCH",
    "TEXT_FIELDS",
    "WAIT_SECONDS",
    "WINDOW",
    "Address",
    "BundleReader",
    "BusyError",
    "Counts",
    "Job",
    "Keys",
    "Location",
    "Outcome",
    "Part",
    "PathLike",
    "Predictor",
    "PricedRows",
    "Products",
    "Runner",
    "Shipped",
    "Sketch",
    "Trust",
    "Uncertainty",
    "UncertaintyOptions",
    "add_when_free",
    "as_model_text",
    "check_priced_file",
    "comparables_of",
    "explain_prices",
    "files_of_bundle",
    "fingerprints_below",
    "finish_first",
    "location_of",
    "open_predictor",
    "parameters_of",
    "parts_of",
    "read_bundle",
    "read_sketch",
    "read_trust",
    "require_sketch",
    "scheme_of",
    "table_of",
    "text_array",
    "with_options",
]
