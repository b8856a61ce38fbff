"""`llms.txt` and `llms-full.txt`, which assistants read instead of the pages (llmstxt.org).

The first has a link to each page, under the captions of the first page's toctrees. The second has the text of all
pages in that order, as Sphinx writes it for its builder of texts, with all that is generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder

RULE = "-" * 79


def write_llms(app: Sphinx, error: Exception | None) -> None:
    """Write both files beside the pages."""
    if error is None and app.builder.format == "html":
        index, texts = _files(app)
        Path(app.outdir, "llms.txt").write_text(index, "utf-8")
        Path(app.outdir, "llms-full.txt").write_text(texts, "utf-8")


def _files(app: Sphinx) -> tuple[str, str]:
    builder = TextBuilder(app, app.env)
    builder.init()
    root = app.config.root_doc
    head = f"# {app.config.project}\n\n> {_introduction(app, root)}\n"
    index, texts = [head], [head]
    for caption, names in _sections(app):
        links = "\n".join(_link(app, name) for name in names)
        index.append(f"## {caption}\n\n{links}\n")
        texts += [f"{RULE}\n{name}\n{RULE}\n\n{_text(builder, name)}" for name in names]
    return "\n".join(index), "\n".join(texts)


def _sections(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """Yield the captions of the first page's toctrees, and the names of their pages."""
    for tree in app.env.get_doctree(app.config.root_doc).findall(addnodes.toctree):
        yield tree["caption"], [name for _, name in tree["entries"]]


def _link(app: Sphinx, name: str) -> str:
    title, sentence = app.env.titles[name].astext(), re.split(r"(?<=[.:?]) ", _introduction(app, name))[0]
    return f"- [{title}]({app.builder.get_target_uri(name)})" + f": {sentence.rstrip(':')}" * bool(sentence)


def _introduction(app: Sphinx, name: str) -> str:
    """Return the first paragraph of a page outside of tables and lists, on one line; "" if it has none."""
    paragraphs = app.env.get_doctree(name).findall(nodes.paragraph)
    return " ".join(next((p.astext() for p in paragraphs if isinstance(p.parent, nodes.section)), "").split())


def _text(builder: TextBuilder, name: str) -> str:
    builder.secnumbers = {}
    doctree = builder.env.get_and_resolve_doctree(name, builder, tags=builder.tags)
    translator = builder.create_translator(doctree, builder)
    doctree.walkabout(translator)
    return str(translator.body)  # type: ignore[attr-defined]
