"""Cut the sizes out of the titles of a table, and write it twice: without a change, and with the sizes in a column.

    python benchmarks/sizes_in_column.py ../shared/data/scotch.csv sizes --title name
    pricekit cv sizes/title.csv --folds 3 --text name,... --out cv/title
    pricekit cv sizes/column.csv --folds 3 --text name,size,... --out cv/column
    pricekit compare cv/title cv/column

A size is an amount with a unit ("12 Ounce", "6 x 330 ml", "30 cm") or a pack ("Pack of 6"). All sizes of a
title move to the column `size`, separated by commas. With `--line "Item Name"`, the title is this line of a column of
labelled lines, and the sizes become the line "size: ..." below it; both files then have the same columns.
"""

import argparse
import re
from pathlib import Path

import pandas as pd

UNITS = (
    "fl\\.? ?oz|fluid ounces?|ounces?|oz|pounds?|lbs?|kg|g|grams?|gm|mg|ml|cl|l|ltr|lit(?:er|re)s?|gallons?|gal|"
    "quarts?|pints?|counts?|ct|pieces?|pcs?|packs?|pk|cm|mm|m|in(?:ch(?:es)?)?|ft|feet|gb|tb|mah|w"
)
AMOUNT = r"[0-9]+(?:[.,/][0-9]+)*"
SIZE = re.compile(
    rf"(?<![\w.])(?:(?:packs?|case|box|set) of {AMOUNT}|{AMOUNT}(?: ?[x×] ?{AMOUNT})*[ -]?(?:{UNITS}))(?!\w)",
    re.I,
)
LEFT = re.compile(r"[\s,;/|-]*[(\[]\s*[)\]]|[\s,;|-]+$")


def main() -> None:
    """Parse the command line and write the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path, help="folder for title.csv and column.csv")
    parser.add_argument("--title", required=True, help="the column with the titles")
    parser.add_argument("--line", help="the label of the title inside of that column")
    parser.add_argument("--columns", help="names of the columns of a table without a header")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.columns.split(",") if options.columns else None
    table = pd.read_csv(options.table, names=names, dtype="str", keep_default_na=False)
    table.to_csv(options.out / "title.csv", index=False)
    titles = table[options.title].tolist()
    if options.line:
        apart = table.assign(**{options.title: [in_lines(text, options.line) for text in titles]})
    else:
        found = [split(title) for title in titles]
        apart = table.assign(
            **{options.title: [title for title, _ in found], "size": [size for _, size in found]}
        )
    apart.to_csv(options.out / "column.csv", index=False)
    moved = sum(before != after for before, after in zip(titles, apart[options.title], strict=True))
    print(f"{moved:,} of {len(table):,} titles had a size.")


def split(title: str) -> tuple[str, str]:
    """Return a title without its sizes, and the sizes."""
    sizes = ", ".join(SIZE.findall(title))
    return (LEFT.sub("", LEFT.sub("", SIZE.sub("", title))) if sizes else title), sizes


def in_lines(text: str, label: str) -> str:
    """Move the sizes of the line with a label to a line of their own."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith(f"{label}:"):
            title, sizes = split(line)
            lines[place : place + 1] = [title, f"size: {sizes}"] if sizes else [line]
            break
    return "\n".join(lines)


if __name__ == "__main__":
    main()
