"""Read columns of dates with two-digit years, 400 rows each, and count wrong dates; or write a table with dates.

    python benchmarks/dates.py
    python benchmarks/dates.py --table dates.csv
    pricekit cv dates.csv --folds 3 --text name,sold_on --out cv/dates
    python benchmarks/same_folds.py cv/dates dates.csv --text name,sold_on --source OLD/src --source src

Dates are drawn from eleven years, and from the first twelve days of each month, where the order of day and month says
least. A column is right if all its dates are; if it has a second reading, it must be reported as ambiguous.

The price of a product in the table is the value of its brand and its kind, with which its name begins. It is 20% less
for each year since it was sold, 50% more in December, 30% less in July, and 30% more on Saturday and Sunday, with noise
of 10%.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.text.dates import date_format, parse_dates

FORMATS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d", "%d-%m-%y", "%d-%b-%y")
ROWS = 400


def main() -> None:
    """Print for each format what it is read as, the number of wrong dates, and other readings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, help="write the table with dates, and nothing else")
    parser.add_argument("--rows", type=int, default=3000, help="of the table")
    options = parser.parse_args()
    random = np.random.RandomState(0)
    if options.table:
        _dated_products(random, options.rows).to_csv(options.table, index=False)
        return
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


def _dated_products(random: np.random.RandomState, rows: int) -> pd.DataFrame:
    """Return products with the columns name, sold_on and price."""
    kinds, brands = ["lamp", "chair", "desk", "shelf", "sofa"], ["Alda", "Brink", "Corvo", "Dunn"]
    kind, brand = random.randint(len(kinds), size=rows), random.randint(len(brands), size=rows)
    day = pd.Series(pd.date_range("2021-01-01", "2024-12-31")).sample(rows, replace=True, random_state=random)
    month, weekday = day.dt.month.to_numpy(), day.dt.day_of_week.to_numpy()
    years = (day.max() - day).dt.days.to_numpy() / 365.25
    log_price = 2 + kind / 2 + brand / 4 + np.log(0.8) * years + 0.1 * random.randn(rows)
    log_price += np.log(1.5) * (month == 12) + np.log(0.7) * (month == 7) + np.log(1.3) * (weekday >= 5)
    words = np.array([a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"])
    extra = [" ".join(row) for row in words[random.randint(len(words), size=(rows, 5))]]
    return pd.DataFrame(
        {
            "name": [f"{brands[b]} {kinds[k]} {more}" for b, k, more in zip(brand, kind, extra, strict=True)],
            "sold_on": day.dt.strftime("%d.%m.%Y").to_numpy(),
            "price": np.exp(log_price).round(2),
        }
    )


if __name__ == "__main__":
    main()
