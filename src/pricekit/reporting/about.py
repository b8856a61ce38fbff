"""Sections that need no prices of rows: the data, and how to train the model again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pricekit
from pricekit.evaluation.table_report import TableReport
from pricekit.reporting.blocks import Block, Paragraph, TableBlock
from pricekit.reporting.languages import describe_languages

MOST_LINES = 100
"""Columns of a table that are listed."""


def data_blocks(facts: Mapping[str, Any], table: TableReport | None, texts: Sequence[str]) -> Iterator[Block]:
    """Describe the rows of the training, the languages of texts, and a table.

    Args:
        facts: of the model: the content of its manifest, `run.json` or `cv.json`.
        table: the report on a table; None without one.
        texts: of the rows that the report is about, (N,).
    """
    counts = facts.get("rows")
    if isinstance(counts, dict):
        words = ", ".join(
            f"{int(number):,} {name}" for name, number in counts.items() if isinstance(number, int)
        )
        yield Paragraph(f"Rows of the training table {facts.get('table', '')}: {words}.")
    if languages := describe_languages(texts):
        yield Paragraph(languages)
    if table is None:
        yield Paragraph(
            "To see columns, rejected rows, leaks and duplicates here, make the report with the table of the training."
        )
        return
    yield from _table_findings(table)


def _table_findings(table: TableReport) -> Iterator[Block]:
    yield TableBlock(
        f"Columns of {table.table}",
        ["column", "kind", "filled", "distinct", "used as", "left out"],
        [
            [
                c.name,
                c.kind,
                f"{c.filled:.0%}",
                f"{c.distinct:.0%}",
                table.role(c.name),
                table.left_out.get(c.name, ""),
            ]
            for c in table.columns[:MOST_LINES]
        ],
        [False, False, True, True, False, False],
    )
    if table.rejected:
        rejected = [[reason, f"{count:,}"] for reason, count in table.rejected.items()]
        yield TableBlock("Rejected rows", ["reason", "rows"], rejected, [False, True])
    yield from (Paragraph(note) for note in table.notes)


def reproduction_blocks(path: Path, facts: Mapping[str, Any]) -> Iterator[Block]:
    """Show the plugins and the settings of the training, and the command; `facts` as of `data_blocks`."""
    version = facts.get("pricekit_version", pricekit.__version__)
    plugins = facts.get("plugins") or []
    if plugins:
        yield TableBlock(
            "Plugins",
            ["kind", "name", "package", "version"],
            [
                [str(plugin.get(key, "")) for key in ("kind", "name", "package", "version")]
                for plugin in plugins
            ],
            [False] * 4,
        )
    yield Paragraph(f"pricekit {version} made this report. The settings of the training:")
    for name in ("config.toml", "members.toml", "cv.toml"):
        file = path / name
        if file.is_file():
            yield Paragraph(_read(file), "code")
            option = f"--config {name}"
            yield Paragraph(
                f"pricekit {'cv' if name == 'cv.toml' else 'train'} TABLE {option} --out run", "code"
            )
            return
    yield Paragraph("A bundle does not contain the settings of its training; its manifest:")
    shown = {name: value for name, value in facts.items() if name not in ("files", "verified")}
    yield Paragraph(json.dumps(shown, indent=2, ensure_ascii=False, default=str), "code")


def _read(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")[:20_000]
