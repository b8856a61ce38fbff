"""Rows of many batches: distinct ones, and prices that are computed once."""

import numpy as np
import pytest

from pricekit.export.priced_once import PricedOnce, RowPrices, longest_forms


def batch(*texts, length, pad=9):
    """Rows of the given token ids, padded; the feature of a row is its sum."""
    ids = np.full((len(texts), length), pad)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "features": np.array([[sum(text)] for text in texts], np.float32),
    }


class Recorded:
    """Prices a row by its real tokens, and keeps the shapes of all batches."""

    def __init__(self):
        self.shapes = []

    def __call__(self, rows):
        self.shapes.append(rows["input_ids"].shape)
        return (rows["input_ids"] * rows["attention_mask"]).sum(1) + 0.5 * rows["features"][:, 0]


def test_a_row_is_priced_once_and_without_padding():
    recorded = Recorded()
    price = RowPrices(recorded)
    assert price(batch([1, 2], [4], [1, 2], length=7)).tolist() == [4.5, 6.0, 4.5]
    assert recorded.shapes == [(2, 2)]
    assert price(batch([4], [1, 2], length=3)).tolist() == [6.0, 4.5]
    assert price(batch([1], [1, 2], length=2)).tolist() == [1.5, 4.5]
    assert recorded.shapes == [(2, 2), (1, 1)]


def test_rows_with_other_features_are_other_rows():
    one = batch([1, 2], length=2)
    price = RowPrices(Recorded())
    assert price(one) == 4.5
    assert price({**one, "features": one["features"] + 2}) == 5.5


def test_known_prices_are_those_that_were_added():
    price = RowPrices()
    price.add(batch([1], [2], length=4), np.array([7.0, 8.0]))
    assert price(batch([2], [1], length=1)).tolist() == [8.0, 7.0]
    with pytest.raises(KeyError):
        price(batch([3], length=1))


def test_equal_batches_are_priced_once_and_others_again():
    recorded, loads = Recorded(), []
    price = PricedOnce(lambda: loads.append(1) or recorded)
    for rows in (batch([1, 2], length=3), batch([1, 2], length=3), batch([1, 2], length=4)):
        assert price(rows) == 4.5
    masked = batch([1, 2], length=3)
    masked["attention_mask"][0, 1] = 0
    assert price(masked) == 2.5
    assert (recorded.shapes, loads) == ([(1, 3), (1, 4), (1, 3)], [1])
    price.close()
    assert price(masked) == 2.5
    assert loads == [1]
    assert price(batch([5], length=1)) == 7.5
    assert loads == [1, 1]


def test_of_equal_rows_the_one_with_the_most_padding_remains():
    found = longest_forms(
        [
            batch([1, 2], [3], length=2),
            batch([3], [5], length=4),
            batch([1, 2], length=4),
            batch([1], length=1),
        ]
    )
    assert [(one["input_ids"].shape, one["features"][:, 0].tolist()) for one in found] == [
        ((1, 1), [1.0]),
        ((3, 4), [3.0, 3.0, 5.0]),
    ]


def test_new_batches_are_priced_once_each():
    recorded = Recorded()
    price = PricedOnce(lambda: recorded)
    one, two, three = batch([1], length=1), batch([2], length=2), batch([3], length=3)
    assert price(two) == 3.0
    assert np.concatenate(list(price.each([one, two, one, three]))).tolist() == [1.5, 3.0, 1.5, 4.5]
    assert recorded.shapes == [(1, 2), (1, 1), (1, 3)]
    assert list(price.each([])) == []
