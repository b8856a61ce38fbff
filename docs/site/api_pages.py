"""The reference of public names, for Sphinx's autodoc."""

from __future__ import annotations

import inspect
from importlib import import_module

from public_names import public_names

RESULTS = (
    "pricekit.evaluation.table_report.TableReport",
    "pricekit.evaluation.scores.Scores",
    "pricekit.evaluation.compare.Comparison",
    "pricekit.workflows.ranking.leaderboard.Leaderboard",
    "pricekit.evaluation.errors.ErrorReport",
    "pricekit.explanation.result.Explanation",
    "pricekit.workflows.importance.result.Importance",
    "pricekit.exporting.verify.VerificationReport",
    "pricekit.prediction.sandbox.Inspection",
    "pricekit.metrics.Metric",
    "pricekit.evaluation.compare.ComparedRun",
    "pricekit.workflows.ranking.leaderboard.Entry",
    "pricekit.explanation.result.Factor",
    "pricekit.exporting.verify.ShapeCheck",
    "pricekit.evaluation.suspects.Suspect",
    "pricekit.evaluation.table_findings.Duplicates",
    "pricekit.evaluation.leaks.Leaks",
    "pricekit.table.source.ReadOptions",
    "pricekit.plots.learning.Curve",
    "pricekit.support.progress.Reporter",
)
"""Classes of objects that public functions return or take, their parts included."""


def names_page(package: str, *kinds: str) -> str:
    """Return the public names of a package as Markdown: a list of them, then each with its docstring.

    Args:
        package: such as `pricekit` or `pricekit.plots`.
        kinds: function, class, exception, module or data; default: all but modules.
    """
    wanted = kinds or ("function", "class", "exception", "data")
    names = [one for one in public_names() if one.dotted.rpartition(".")[0] == package and one.kind in wanted]
    table = ["| name | purpose |", "|---|---|"]
    table += [
        f"| [`{one.dotted.rpartition('.')[2]}`](#{one.dotted}) | {one.summary} |".replace("|d|", "d")
        for one in names
    ]
    parts = ["\n".join(table)]
    for one in names:
        parts.append(f"```{{eval-rst}}\n.. auto{one.kind}:: {one.dotted}\n```")
    return "\n\n".join(parts)


def results_page() -> str:
    """Return the classes of what functions return, as Markdown."""
    return "\n\n".join(f"```{{eval-rst}}\n.. autoclass:: {name}\n```" for name in RESULTS)


def errors_page() -> str:
    """Return the classes of errors, as Markdown."""
    module = import_module("pricekit.errors")
    kinds = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, module.PricekitError)
    ]
    return "\n\n".join(
        f"```{{eval-rst}}\n.. autoexception:: pricekit.errors.{kind.__name__}\n```"
        for kind in kinds
        if kind is not module.PricekitError and kind.__module__ == module.__name__
    )
