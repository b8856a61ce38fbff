"""The gallery of examples: each script and notebook of examples/ with its text. New ones appear by themselves.

They are shown, not run: each one is a test already (tests/test_example_scripts.py), and to run all of them takes
minutes.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"
HEADING = re.compile(r"(.+)\n([-=~])\2{2,}(?:\n|\Z)")
CELL = re.compile(r"^# ?%%.*\n((?:#.*\n)*)", re.M)


def examples_page() -> str:
    """Return a section for each example as Markdown."""
    shown = {".py": _script, ".ipynb": _notebook}
    files = sorted(path for path in FOLDER.iterdir() if path.suffix in shown)
    return "\n\n".join(part for path in files for part in shown[path.suffix](path))


def _script(path: Path) -> Iterator[str]:
    """Yield the first string of a script as title and introduction, then its cells, which `# %%` begins."""
    source = path.read_text("utf-8")
    module = ast.parse(source)
    said = ast.get_docstring(module) or path.stem
    title, _, rest = said.partition("\n")
    body = (
        "".join(source.splitlines(keepends=True)[module.body[0].end_lineno :])
        if rest or module.body
        else source
    )
    short = title.partition(":")[0].rstrip(".")
    introduction = re.sub(r"\A[=~-]+\n", "", rest).strip()
    yield f"## {_plain(short)}"
    yield _text(introduction if short == title else f"{title}\n\n{introduction}")
    first, *cells = CELL.split(body)
    yield _code(first, path.name)
    for comment, code in zip(cells[::2], cells[1::2], strict=True):
        yield _text(re.sub(r"^# ?", "", comment, flags=re.M))
        yield _code(code, path.name)


def _notebook(path: Path) -> Iterator[str]:
    """Yield the cells of a notebook; its first heading becomes that of a section."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield re.sub(r"^(#+) ", r"#\1 ", text, flags=re.M)
        elif cell["cell_type"] == "code":
            yield _code(text, path.name)


def _text(text: str) -> str:
    """Return the text of a script, which is reStructuredText, for a Markdown page; an underlined line is a heading."""
    heading = HEADING.match(text.strip())
    rest = text.strip()[heading.end() :].strip() if heading else text.strip()
    parts = [f"### {_plain(heading[1])}"] if heading else []
    return "\n\n".join([*parts, f"````{{eval-rst}}\n{rest}\n````"] if rest else parts)


def _code(code: str, name: str) -> str:
    return f"````{{code-block}} python\n:caption: {name}\n\n{code.strip()}\n````" if code.strip() else ""


def _plain(title: str) -> str:
    return re.sub(r"([*_<>\[\]])", r"\\\1", title)
