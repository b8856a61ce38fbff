"""Values that may not be prices."""

import numpy as np
import pandas as pd

from pricekit.evaluation.table_report import describe_suspects, find_suspects, rows_of_equal_years

PRICES = np.arange(1, 4000) * 7 % 3989 + 20.0


def found(*more):
    return [(s.value, s.rows, s.reason) for s in find_suspects(np.concatenate([PRICES, *more]))]


def test_years_and_placeholders_are_found():
    more = ([2013.0] * 30, [99999.0] * 5, [12345.0] * 4, [1.0] * 4)
    assert found(*more) == [
        (1.0, 4, "placeholder"),
        (2013.0, 31, "year"),
        (12345.0, 4, "placeholder"),
        (99999.0, 5, "placeholder"),
    ]


def test_usual_prices_are_not_suspects():
    assert found([1990.0] * 30, [1999.0] * 30, [2000.0] * 30, [7777.0] * 9, [999.0] * 30) == []


def test_prices_that_equal_the_year_of_their_row():
    years = np.resize(np.arange(1990, 2020), len(PRICES))
    frame = pd.DataFrame({"year": years.astype(str), "other": "x"})
    assert rows_of_equal_years(PRICES, frame, [None]) == {}
    price = np.where(np.arange(len(PRICES)) < 40, years, PRICES)
    assert rows_of_equal_years(price, frame, [None])["year"] >= 40
    (sentence,) = describe_suspects([], {"year": 40})
    assert sentence.startswith("In 40 rows the price is the year in the column 'year'.")
