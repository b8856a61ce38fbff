"""The public functions of pricekit: `import pricekit as pk`. Each command calls the function with the same name.

Functions import heavy libraries only when they need them. So `import pricekit` is fast, and prediction from a bundle
works without torch.

Tables, files to write and models that are read may be at addresses such as `s3://shop/new.csv` (docs/remote.md).
"""

from pricekit.api.insight import comparables, drift, explain, importance
from pricekit.api.models import (
    compare,
    evaluate,
    export,
    inspect,
    leaderboard,
    load,
    predict,
    report,
    worst_rows,
)
from pricekit.api.publishing import pull, push, sign
from pricekit.api.tables import check, compute_features
from pricekit.api.training import cross_validate, ensemble, pretrain, train, tune

__all__ = [
    "check",
    "comparables",
    "compare",
    "compute_features",
    "cross_validate",
    "drift",
    "ensemble",
    "evaluate",
    "explain",
    "export",
    "importance",
    "inspect",
    "leaderboard",
    "load",
    "predict",
    "pretrain",
    "pull",
    "push",
    "report",
    "sign",
    "train",
    "tune",
    "worst_rows",
]
