"""The gallery of examples: each script of examples/ with its text. New scripts appear by themselves.

The scripts are shown, not run: each one is a test already (tests/test_example_scripts.py), and to run all of them takes
minutes.
"""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples"


def examples_page() -> str:
    """Return a section for each script as Markdown."""
    return "\n\n".join(_section(script) for script in sorted(FOLDER.glob("*.py")))


def _section(script: Path) -> str:
    source = script.read_text("utf-8")
    said = ast.get_docstring(ast.parse(source)) or script.stem
    title, _, rest = said.partition("\n")
    body = source.partition('"""')[2].partition('"""')[2].strip()
    heading = title.partition(":")[0].rstrip(".").replace("_", "\\_")
    code = f"````{{code-block}} python\n:caption: {script.name}\n\n{body}\n````"
    return (
        f"## {heading}\n\n{title}\n\n```\n{rest.strip() or f'python examples/{script.name}'}\n```\n\n{code}"
    )
