"""Write the table of cars twice: with plain digits, and with the numbers as people write them.

    python benchmarks/written_numbers.py ../shared/data/ebay_autos_de.csv cars
    pricekit cv cars/plain.csv --folds 3 --text ... --out cv/plain
    pricekit cv cars/written.csv --folds 3 --text ... --out cv/written
    pricekit compare cv/plain cv/written

In `plain.csv`, the mileage is "150000" and the power "163". In `written.csv` they are "150 000 km" and
"2.0 l / 163 hp"; the displacement is derived from the power, so it adds no information. All else is the same.
"""

import argparse
from pathlib import Path

import pandas as pd

HORSEPOWER_PER_LITRE = 80


def main() -> None:
    """Parse the command line and write the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, help="ebay_autos_de.csv")
    parser.add_argument("out", type=Path, help="folder for plain.csv and written.csv")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cars = pd.read_csv(options.table, encoding="latin-1")
    mileage = cars["odometer"].str.replace(r"\D", "", regex=True).astype(int)
    plain = cars.assign(odometer=mileage)
    plain.to_csv(options.out / "plain.csv", index=False)
    written = plain.assign(
        odometer=[f"{number:,} km".replace(",", " ") for number in mileage],
        powerPS=[f"{power / HORSEPOWER_PER_LITRE:.1f} l / {power} hp" for power in cars["powerPS"]],
    )
    written.to_csv(options.out / "written.csv", index=False)


if __name__ == "__main__":
    main()
