"""Features a second: the vectorised catalogue features against the same features written row by row.

    python benchmarks/features.py TABLE [--rows 75000]

TABLE is a CSV file; its texts are repeated up to that many rows. The row-by-row peer is below: plain Python
with compiled regular expressions and the same rules. On a sample both must give the same numbers, to the bit
in float32. Both run five times in turn, in one thread; the medians are printed. The peer runs on fewer
rows, because its time grows with their number alone, and is scaled.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pricekit.features import columns, lines, names, quantity
from pricekit.features.catalog import Optimized22
from pricekit.features.units import COUNT, NONE, UNITS, VOLUME, WEIGHT, Unit
from pricekit.table import Table

REPEATS = 5
PEER_ROWS = 5000
SAMPLE_ROWS = 2000

LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
WHITE = " \t\n\r\v\f"
KINDS = [(kind, re.compile(pattern, re.ASCII)) for kind, pattern in lines.KINDS.items()]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


VALUE_LINE, SIZE, PIECES, EXTENT, NUTRIENT = map(
    _compiled, (quantity.VALUE_LINE, quantity.SIZE, quantity.PIECES, quantity.EXTENT, quantity.NUTRIENT)
)
PACKS = [_compiled(pattern) for pattern in (quantity.PACK_OF, quantity.PACKS, quantity.TIMES)]
LEADING, HEAD, PLURAL, PACK_PHRASE = map(
    _compiled, (names.LEADING, names.HEAD, names.PLURAL, names.PACK_PHRASE)
)
PREMIUM, BUDGET, BULK, CAPITALS, THOUSANDS, UNIT_FILLER = map(
    _compiled,
    (columns.PREMIUM, columns.BUDGET, columns.BULK, columns.CAPITALS, quantity.THOUSANDS, "[ .-]"),
)
WORD = _compiled("[a-z0-9\x80-\U0010ffff]+")
SENTENCE = _compiled(r"[.!?](?=[ \t\n\r\v\f]|\Z)")


@dataclass
class Row:
    """One text, cut into its labelled lines."""

    text: str
    title: str
    found: dict[str, list[str]]

    def first(self, kind: str) -> str:
        """Give the first line of a kind, "" without one."""
        return self.found.get(kind, [""])[0]

    def last(self, kind: str) -> str:
        """Give the last line of a kind, "" without one."""
        return self.found.get(kind, [""])[-1]


def parse_lines(text: str, known: str) -> Row:
    """Cut one text into lines and find the labels."""
    found: dict[str, list[str]] = {}
    first = ""
    for number, line in enumerate(text.split("\n")):
        kind, content = "", line
        label, colon, rest = line.partition(":")
        if colon and len(label.encode()) < lines.LABEL_BYTES:
            name = label.translate(LOWER).strip(WHITE)
            kind = next((kind for kind, pattern in KINDS if pattern.search(name)), "")
            content = rest if kind else line
        content = content.strip(WHITE)
        found.setdefault(kind, []).append(content)
        if number == 0:
            content = content[: lines.TITLE_CHARACTERS + lines.LABEL_BYTES]
            first = content.removeprefix(f"{known}:").lstrip(" \t") if known else content
    title = found.get("title", [first])[0]
    return Row(text, title[: lines.TITLE_CHARACTERS], found)


def number(text: str | None) -> float:
    """Read a number; NaN without one."""
    if not text:
        return math.nan
    return float(THOUSANDS.sub(r"\1\2", text).replace(",", "."))


def amount(match: re.Match[str] | None, unit: str | None = None) -> tuple[float, Unit]:
    """Turn a match into a value and its unit."""
    if match is None:
        return 0.0, Unit(NONE, 1.0)
    value, under, whole = number(match["number"]), number(match["under"]), number(match["whole"])
    if under in quantity.DENOMINATORS and value < under:
        value = value / under + (whole if whole > 0 else 0.0)
    elif under >= 1:
        value = value * under
    value = min(value, quantity.MAX_VALUE)
    spelled = UNIT_FILLER.sub("", match["unit"] or "" if unit is None else unit)
    known = UNITS.get(spelled, Unit(NONE, 1.0))
    return value, known if value > 0 else Unit(NONE, known.size)


def packs(title: str) -> tuple[float, float]:
    """Give the packs that the item name states, and the pack size."""
    stated = 1.0
    for pattern in PACKS:
        match = pattern.search(title)
        if match and 1 <= float(match["pack"]) <= quantity.MAX_PACK:
            stated = float(match["pack"])
            break
    value, unit = amount(PIECES.search(title))
    pieces = value * unit.size
    size = pieces if stated == 1 and 1 <= pieces <= quantity.MAX_PACK else stated
    return stated, math.floor(size)


def named_amount(title: str, stated: float) -> tuple[float, int, float]:
    """Give value, class of unit and total of the quantity in the item name."""
    title = NUTRIENT.sub("", title)
    for pattern in (SIZE, EXTENT, PIECES):
        value, unit = amount(pattern.search(title))
        if value > 0:
            total = min(value * unit.size, quantity.MAX_TOTAL) * stated
            return min(value * stated, quantity.MAX_VALUE), unit.kind, min(total, quantity.MAX_TOTAL)
    return (stated, COUNT, stated) if stated > 1 else (0.0, NONE, 0.0)


def quantity_of(row: Row, title: str, stated: float) -> tuple[float, int, float]:
    """Give value, class of unit and total: Value line, else the item name; a weight rather than a count."""
    spelled = row.last("unit").translate(LOWER)
    match = VALUE_LINE.search(row.last("value").translate(LOWER))
    value, unit = amount(match, None if spelled in ("", "none") else spelled)
    if unit.kind in (NONE, COUNT):
        named, kind, total = named_amount(title, stated)
        if value <= 0 or kind in (WEIGHT, VOLUME):
            return named if value <= 0 else value, kind, total
    return value, unit.kind, min(value * unit.size, quantity.MAX_TOTAL)


def name_frequency(row: Row, title: str, state: dict[str, Any]) -> tuple[float, float]:
    """Give the logarithms of how frequent brand and category are."""
    brand = row.first("brand").translate(LOWER)[: names.NAME_CHARACTERS]
    count = state["brand"].get(brand, 0)
    if not brand and (match := LEADING.search(title)):
        one, two, three = match["one"], match["two"], match["three"]
        words = [one, two and f"{one} {two}", three and f"{one} {two} {three}"]
        known = [state["brand"].get((name or "")[: names.NAME_CHARACTERS], 0) for name in words]
        count = next((c for c in reversed(known) if c), 0)
    category = row.first("category").translate(LOWER)[: names.NAME_CHARACTERS]
    if not category and (match := HEAD.search(PACK_PHRASE.sub("", title))):
        category = PLURAL.sub(r"\1", match["name"][: names.NAME_CHARACTERS])
    return math.log1p(count), math.log1p(state["category"].get(category, 0))


def quantity_bin(total: float, kind: int) -> int:
    """Give the bin of a quantity."""
    if total <= 0:
        return 0
    edges = columns.PIECE_EDGES if kind in (NONE, COUNT) else columns.MEASURE_EDGES
    return bisect_left(edges.tolist(), total) + 1


def features_of(text: str, state: dict[str, Any]) -> list[float]:
    """Compute the 22 features of one text."""
    text = text[: lines.TEXT_CHARACTERS]
    row = parse_lines(text, state["label"])
    title = row.title.translate(LOWER).replace("_", " ")
    for sign, plain in quantity.VULGAR.items():
        title = title.replace(sign, plain)
    stated, size = packs(title)
    value, kind, total = quantity_of(row, title, stated)
    brand, category = name_frequency(row, title, state)
    words = WORD.findall(text.translate(LOWER))
    count = len(words)
    sentences = max(len(SENTENCE.findall(text)), min(count, 1))
    letters = sum(map(len, words))
    return [
        *(value, size, total, len(text), value > 0, brand, category, count),
        *(any(c in title for c in "0123456789"), CAPITALS.search(row.title) is not None, math.log1p(total)),
        *(total / size, size > 1, len(row.found.get("bullet", [])), quantity_bin(total, kind)),
        *(row.first("description") != "", sentences, letters / max(count, 1)),
        *(len(PREMIUM.findall(title)) - len(BUDGET.findall(title)), kind),
        *(len({word.encode()[:64] for word in words}) / max(count, 1), len(BULK.findall(title))),
    ]


def row_by_row(texts: list[str], state: dict[str, Any]) -> np.ndarray:
    """Compute the 22 features of each text, float32 (N, 22)."""
    return np.array([features_of(text, state) for text in texts], np.float32)


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Read the arguments, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", help="a CSV file")
    parser.add_argument("--rows", type=int, default=75_000, help="repeat the texts up to this many rows")
    parser.add_argument("--text", default="catalog_content", help="the column of texts")
    arguments = parser.parse_args()
    read = pd.read_csv(arguments.table)[arguments.text].fillna("").astype("str")
    text = pd.Series(np.resize(read.to_numpy(object), arguments.rows), dtype="str")
    table = Table(ids=text.index.to_series(), text=text, price=None, frame=text.to_frame())
    plugin = Optimized22()
    state = plugin.fit(table)
    _check(plugin, table, state)
    few = text.iloc[:PEER_ROWS].tolist()
    fast, slow = [], []
    for _ in range(REPEATS):
        fast.append(seconds(lambda: plugin.transform(table, state)))
        slow.append(seconds(lambda: row_by_row(few, state)) * len(text) / len(few))
    _print(len(text), {"vectorised": fast, "row by row": slow})


def _check(plugin: Optimized22, table: Table, state: dict[str, Any]) -> None:
    """Stop unless both ways give the same numbers."""
    sample = table.text.sample(min(SAMPLE_ROWS, len(table)), random_state=0)
    part = Table(ids=table.ids[sample.index], text=sample, price=None, frame=sample.to_frame())
    ours, peers = plugin.transform(part, state), row_by_row(sample.tolist(), state)
    for place, name in enumerate(plugin.names):
        differ = np.flatnonzero(ours[:, place] != peers[:, place])
        if len(differ):
            row = differ[0]
            raise SystemExit(
                f"{name} differs in {len(differ)} of {len(sample)} rows, first {ours[row, place]} against "
                f"{peers[row, place]} in:\n{sample.iloc[row][:500]}"
            )
    print(f"both ways give the same {len(plugin.names)} features on {len(sample):,} rows")


def _print(rows: int, times: dict[str, list[float]]) -> None:
    print(f"{rows:,} rows, {', '.join(times)} in turn, median of {REPEATS}")
    print(f"{'':12} {'seconds':>8} {'rows/s':>9}")
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"{name:12} {value:8.2f} {rows / value:9,.0f}")
    print(f"{'ratio':12} {median['row by row'] / median['vectorised']:8.1f}")


if __name__ == "__main__":
    main()
