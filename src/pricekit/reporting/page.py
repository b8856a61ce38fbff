"""Sections to one HTML file that needs no network. jinja2 escapes every text of the table."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pricekit.errors import ConfigError
from pricekit.reporting.blocks import Section
from pricekit.storage import Location, write_text

TEMPLATE = Path(__file__).parent / "template"


def require_libraries() -> None:
    """Raise ConfigError if a library of the extra `report` is not installed."""
    missing = [name for name in ("jinja2", "matplotlib", "py3langid") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a report needs {' and '.join(missing)}, which is not installed: pip install 'pricekit[report]'"
        )


def write_page(out: Location, title: str, sections: Sequence[Section]) -> None:
    """Write the page, which appears as a whole."""
    write_text(out, render(title, sections))


def render(title: str, sections: Sequence[Section]) -> str:
    """Return the page.

    The policy in its head allows no request, and no script but the one that sorts tables, by its hash.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((TEMPLATE / name).read_text("utf-8") for name in ("report.css", "sort.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page: str = environment.get_template("report.html").render(
        title=title, sections=sections, style=style, script=script, digest=digest
    )
    return page
