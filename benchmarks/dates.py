"""Read columns of dates with two-digit years, 400 rows each, and count wrong dates.

    python benchmarks/dates.py

Dates are drawn from eleven years, and from the first twelve days of each month, where the order of day and month says
least. A column is right if all its dates are; if it has a second reading, it must be reported as ambiguous.
"""

import argparse

import numpy as np
import pandas as pd

from pricekit.text.dates import date_format, parse_dates

FORMATS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d", "%d-%m-%y", "%d-%b-%y")
ROWS = 400


def main() -> None:
    """Print for each format what it is read as, the number of wrong dates, and other readings."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    random = np.random.RandomState(0)
    days = pd.Series(pd.date_range("2015-01-01", "2025-12-31"))
    early = days[days.dt.day <= 12]
    for name, drawn in (("all days", days), ("days 1 to 12", early)):
        for form in FORMATS:
            dates = drawn.sample(ROWS, random_state=random, ignore_index=True)
            cells = dates.dt.strftime(form)
            written = date_format(cells)
            assert written is not None
            right = (dates - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
            wrong = int((parse_dates(cells, written) != right.to_numpy()).sum())
            others = f"also fits {', '.join(written.others)}" if written.others else "nothing else fits"
            print(f"{name:13} {form:9} {written.pattern:9} wrong: {wrong:3}  {others}; {written.why}")


if __name__ == "__main__":
    main()
