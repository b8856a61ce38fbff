"""Sections that need no prices of rows: the data with the languages of its texts, and how to train the model again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError

import pricekit
from pricekit.evaluation.table_report import TableReport
from pricekit.reporting.page import MOST_LINES, Block, Paragraph, TableBlock
from pricekit.reporting.subject import chosen_rows
from pricekit.support.text import counted

MOST_TEXTS = 500
"""Larger tables are sampled to this number of texts, with a fixed seed."""
LEAST_PROBABILITY = 0.9
"""Below it, the language of a text counts as undetermined: most such texts are short."""
LEAST_SHARE = 0.02
"""Rarer languages are summed up: some of them are mistakes."""


def data_blocks(facts: Mapping[str, Any], table: TableReport | None, texts: Sequence[str]) -> Iterator[Block]:
    """Describe the rows of the training, the languages of texts, and a table.

    Args:
        facts: of the model: the content of its manifest, `run.json` or `cv.json`.
        table: the report on a table; None without one.
        texts: of the rows that the report is about, (N,).
    """
    if isinstance(counts := facts.get("rows"), dict):
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
    if plugins := facts.get("plugins"):
        keys = ["kind", "name", "package", "version"]
        yield TableBlock(
            "Plugins",
            keys,
            [[str(plugin.get(key, "")) for key in keys] for plugin in plugins],
            [False] * 4,
        )
    yield Paragraph(f"pricekit {version} made this report. The settings of the training:")
    for name in ("config.toml", "members.toml", "cv.toml"):
        file = path / name
        if file.is_file():
            yield Paragraph(file.read_text("utf-8", errors="replace")[:20_000], "code")
            command = "cv" if name == "cv.toml" else "train"
            yield Paragraph(f"pricekit {command} TABLE --config {name} --out run", "code")
            return
    yield Paragraph("A bundle does not contain the settings of its training; its manifest:")
    shown = {name: value for name, value in facts.items() if name not in ("files", "verified")}
    yield Paragraph(json.dumps(shown, indent=2, ensure_ascii=False, default=str), "code")


def describe_languages(texts: Sequence[str]) -> str:
    """Return one sentence on the languages of texts, the most frequent first."""
    some = [texts[place] for place in chosen_rows(len(texts), MOST_TEXTS).tolist()]
    if not some:
        return ""
    counts = Counter(language_of(text) for text in some)
    named = [(count, name) for name, count in counts.items() if count >= LEAST_SHARE * len(some) and name]
    shares = [f"{name} {count / len(some):.0%}" for count, name in sorted(named, reverse=True)]
    if rest := len(some) - sum(count for count, _ in named):
        shares.append(f"rare or undetermined {rest / len(some):.0%}")
    return f"Languages of {counted(len(some), 'text')}: {', '.join(shares)}."


@cache
def _identifier() -> Any:
    """Load the model of py3langid, which takes a second, with probabilities that sum to 1."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> str:
    """Return the English name of a text's language, "" if it cannot be determined."""
    code, probability = _identifier().classify(text)
    if probability < LEAST_PROBABILITY:
        return ""
    try:
        return Locale.parse(code).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):  # languages without a locale
        return str(code)
