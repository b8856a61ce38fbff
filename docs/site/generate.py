"""A Sphinx extension that fills in what is generated: `<!-- generated: NAME -->` in a page becomes Markdown.

So a page is readable on GitHub, and its generated part is never out of date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from api_pages import errors_page, names_page, results_page
from command_pages import commands_page
from docutils import nodes
from example_pages import examples_page
from llms import write_llms
from plugin_pages import plugins_page
from setting_pages import settings_page
from sphinx.application import Sphinx

MARK = re.compile(r"^<!-- generated: (\S+)(.*?) -->$", re.M)
GENERATORS: dict[str, Callable[..., str]] = {
    "names": names_page,
    "results": results_page,
    "errors": errors_page,
    "commands": commands_page,
    "settings": settings_page,
    "plugins": plugins_page,
    "examples": examples_page,
}
SOURCES = Path(__file__).parents[2] / "src"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _fill)
    app.connect("env-before-read-docs", _read_again)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _replace_dashes)
    app.connect("autodoc-process-docstring", _escape, priority=400)  # before napoleon, which adds markup
    app.connect("build-finished", write_llms)
    # The name of the object type is part of what the search matches, so "max_grad_norm default" finds the setting.
    app.add_object_type("setting", "setting", "pair: %s; setting", objname="setting, its default value")
    return {"parallel_read_safe": True}


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = MARK.sub(lambda found: GENERATORS[found[1]](*found[2].split()), source[0])


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Skip the methods that scikit-learn generates."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def _replace_dashes(app: Sphinx, doctree: nodes.document) -> None:
    """Write a colon between a parameter and its description, where Sphinx writes two hyphens."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(": "))


def _escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape what a docstring means literally and reStructuredText does not, such as |p - a|; examples stay."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`[^`]*`)", line)
            lines[number] = "".join(
                p if p.startswith("`") else re.sub(r"\||(?<!\*)\*(?!\*)", r"\\\g<0>", p) for p in parts
            )


def _read_again(app: Sphinx, env: Any, names: list[str]) -> None:
    """Read pages with generated parts at each build, because their sources are not files that Sphinx knows."""
    names += [
        name
        for name in env.all_docs
        if name not in names and MARK.search(env.doc2path(name).read_text("utf-8"))
    ]
