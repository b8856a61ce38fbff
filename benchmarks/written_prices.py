"""Reads written prices of many languages, each in a column of plain prices, and counts what is wrong.

Each line of ``written_prices.jsonl`` is a cell: how someone wrote it, the right value ("rejected" where the text is
unclear, or is no total price), the column around it, a chosen currency, its language or notation, and whether its
kind is from a public source. The script puts the cell among 120 plain cells of its column, so that the column decides
what one cell leaves open, and reads the table.

    python benchmarks/written_prices.py [--all]

It prints how many cells were read right, rejected though they have a value, and silently wrong; the lists of the last
two follow. A table that stops with an error counts as a rejection.
"""

import argparse
import collections
import json
import math
import pathlib
import random

import pandas as pd

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, read_usable

CELLS = pathlib.Path(__file__).with_suffix(".jsonl")
PLAIN_CELLS = 120

# Name: how a plain cell is written, its separators of thousands and decimals, decimals, lowest and highest price.
COLUMNS = {
    "plain": ("{}", "", ".", 2, 5, 900),
    "us": ("${}", ",", ".", 2, 5, 900_000),
    "gb": ("£{}", ",", ".", 2, 5, 900_000),
    "au": ("A${}", ",", ".", 2, 5, 900_000),
    "ca": ("C${}", ",", ".", 2, 5, 9_000),
    "sg": ("S${}", ",", ".", 2, 5, 900_000),
    "de": ("{} €", ".", ",", 2, 1, 900_000),
    "ch": ("CHF {}", "'", ".", 2, 5, 900_000),
    "fr": ("{} €", "\u202f", ",", 2, 5, 900_000),
    "nl": ("€ {}", ".", ",", 2, 5, 900_000),
    "it": ("{} €", ".", ",", 2, 5, 900_000),
    "es": ("{} €", ".", ",", 2, 5, 900_000),
    "gr": ("{} €", ".", ",", 2, 5, 900_000),
    "mx": ("${}", ",", ".", 2, 5, 900_000),
    "br": ("R$ {}", ".", ",", 2, 5, 900_000),
    "pl": ("{} zł", "\u00a0", ",", 2, 1, 900_000),
    "cz": ("{} Kč", " ", ",", 0, 100, 9_000_000),
    "hu": ("{} Ft", " ", ",", 0, 1_000, 90_000_000),
    "ro": ("{} lei", ".", ",", 2, 5, 900_000),
    "ru": ("{} ₽", "\u00a0", ",", 2, 5, 9_000_000),
    "ua": ("{} грн", " ", ",", 2, 5, 9_000_000),
    "se": ("{} kr", " ", ",", 0, 50, 9_000_000),
    "no": ("{} kr", " ", ",", 2, 50, 9_000_000),
    "dk": ("{} kr.", ".", ",", 2, 50, 900_000),
    "fi": ("{} €", "\u00a0", ",", 2, 5, 900_000),
    "tr": ("{} TL", ".", ",", 2, 5, 9_000_000),
    "jp": ("{}円", ",", ".", 0, 100, 90_000_000),
    "kr": ("{}원", ",", ".", 0, 1_000, 900_000_000),
    "cn": ("¥{}", "", ".", 2, 5, 9_000_000),
    "tw": ("NT${}", ",", ".", 0, 50, 90_000_000),
    "th": ("฿{}", ",", ".", 2, 50, 9_000_000),
    "vn": ("{} đ", ".", ",", 0, 5_000, 9_000_000),
    "vn_ty": ("{} tỷ", ".", ",", 2, 1, 80),
    "id": ("Rp {}", ".", ",", 0, 10_000, 900_000_000),
    "in": ("₹ {}", ",,", ".", 0, 50, 90_000_000),
    "pk": ("PKR {}", ",", ".", 0, 50_000, 90_000_000),
    "bd": ("৳ {}", ",,", ".", 0, 50, 9_000_000),
    "sa": ("{} ر.س", ",", ".", 2, 5, 900_000),
    "ae": ("AED {}", ",", ".", 0, 500, 9_000_000),
    "ir": ("{} تومان", "٬", "٫", 0, 50_000, 900_000_000),
    "il": ("₪{}", ",", ".", 2, 5, 900_000),
    "za": ("R {}", ",", ".", 0, 500, 9_000_000),
    "ng": ("₦{}", ",", ".", 0, 500, 9_000_000),
    "ke": ("KSh {}", ",", ".", 0, 50, 900_000),
    "de_m2": ("{} €/m²", ".", ",", 2, 900, 9_000),
    "us_month": ("${}/month", ",", ".", 0, 500, 9_000),
}
FACTORS = {"vn_ty": 1e9}
PERSIAN_DIGITS = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")


def written_number(number: float, thousands: str, decimal: str, decimals: int) -> str:
    """A number with the separators of its column; ``",,"`` stands for Indian groups (12,34,567)."""
    whole, _, part = f"{number:.{decimals}f}".partition(".")
    if thousands == ",,":
        head, tail = whole[:-3], whole[-3:]
        groups = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
        whole = ",".join([*groups, tail])
    else:
        whole = f"{int(whole):,}".replace(",", thousands)
    return whole + (decimal + part if part else "")


def plain_cells(column: str) -> tuple[list[str], list[float]]:
    """The plain cells of a column and their right prices."""
    pattern, thousands, decimal, decimals, lowest, highest = COLUMNS[column]
    generator = random.Random(column)
    cells, prices = [], []
    for _ in range(PLAIN_CELLS):
        number = round(math.exp(generator.uniform(math.log(lowest), math.log(highest))), decimals)
        text = pattern.format(written_number(number, thousands, decimal, decimals))
        cells.append(text.translate(PERSIAN_DIGITS) if column == "ir" else text)
        prices.append(number * FACTORS.get(column, 1.0))
    return cells, prices


def read_prices(cells: list[str], currency: str | None) -> list[float | None]:
    """The price of each cell, None for a rejected one."""
    frame = pd.DataFrame({"text": [f"thing {row}" for row in range(len(cells))], "price": cells})
    usable, _ = read_usable(
        frame,
        Columns(text=("text",), price="price"),
        read_options=ReadOptions(currency=currency),
        notices=lambda sentence: None,
    )
    read: list[float | None] = [None] * len(cells)
    for row, price in zip(usable.row_numbers.tolist(), usable.price.tolist(), strict=True):
        read[row] = price
    return read


def equal(price: float | None, right: float) -> bool:
    """Whether a price was read and is the right one, but for rounding."""
    return price is not None and abs(price - right) <= 1e-9 * right


def outcome_of(line: dict[str, object]) -> tuple[str, str]:
    """``right``, ``rejected`` or ``wrong``, and what was read."""
    cells, prices = plain_cells(str(line["column"]))
    middle = len(cells) // 2
    cells.insert(middle, str(line["cell"]))
    try:
        read = read_prices(cells, line["currency"])
    except DataError as error:
        return ("right" if line["right"] == "rejected" else "rejected"), f"error: {str(error)[:120]}"
    price = read.pop(middle)
    del cells[middle]
    for cell, value, right in zip(cells, read, prices, strict=True):
        if not equal(value, right):
            return "wrong", f"plain cells changed, such as {cell!r} to {value}"
    if price is None:
        return ("right" if line["right"] == "rejected" else "rejected"), "rejected"
    return (
        "right" if line["right"] != "rejected" and equal(price, float(line["right"])) else "wrong"
    ), f"{price:.12g}"


def main() -> None:
    """Read all cells and print what is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="list the cells that were read right, too")
    options = parser.parse_args()
    lines = [json.loads(line) for line in CELLS.read_text(encoding="utf-8").splitlines()]
    outcomes = collections.defaultdict(list)
    for line in lines:
        outcome, read = outcome_of(line)
        outcomes[outcome].append(f"{line['cell']!r} ({line['language']}): {line['right']}, read: {read}")
    for outcome in ("right", "rejected", "wrong"):
        if outcome != "right" or options.all:
            print(f"\n{outcome}:", *outcomes[outcome], sep="\n  ")
    counts = ", ".join(f"{len(outcomes[outcome])} {outcome}" for outcome in ("right", "rejected", "wrong"))
    languages = len({line["language"] for line in lines})
    print(f"\n{len(lines)} written prices in {languages} languages and notations: {counts}")


if __name__ == "__main__":
    main()
