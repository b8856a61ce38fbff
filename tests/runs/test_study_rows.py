"""The rows of a search: final rows are apart from those of trials, in every way of splitting."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from conftest import tiny_config
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError
from pricekit.runs.split import Source
from pricekit.runs.study import load_search_rows


def _frame(count=120):
    frame = make_catalog(count, seed=5).assign(shop=np.arange(count) % 11)
    twins = frame.tail(30).copy()
    twins["catalog_content"] = twins["catalog_content"].str.replace(r"\d+", "7", regex=True)
    twins["sample_id"] += 1000
    frame = pd.concat([frame, twins], ignore_index=True)
    return frame.assign(listed=np.arange(len(frame)) * 7 % 97 + 2000)


def _rows(*layers, folds=3):
    return load_search_rows(Source(_frame()), tiny_config(*layers), folds, allow_leak=False)


def _ids(table):
    return set(table.ids)


def test_each_row_is_in_one_part_and_no_trial_sees_the_final_rows():
    rows = _rows()
    seen = _ids(rows.plan.table)
    assert not seen & _ids(rows.final)
    assert len(seen) + len(rows.final) == 150
    assert len(rows.final) == pytest.approx(0.15 * 150, abs=3)
    held_out = []
    for fold in range(3):
        split = rows.plan.split(fold)
        assert _ids(split.train) | _ids(split.valid) == seen
        held_out += split.valid.ids.tolist()
    assert sorted(held_out) == sorted(seen)
    whole = rows.whole(tiny_config())
    assert _ids(whole.train) | _ids(whole.valid) == seen
    assert rows.growth() == pytest.approx(1.5, rel=0.05)


def test_sizes_of_one_product_are_on_one_side():
    rows = _rows()
    for part in (rows.final, rows.plan.split(0).valid, rows.whole(tiny_config()).valid):
        ids = _ids(part)
        assert all((1000 + each in ids) == (each in ids) for each in range(100, 120) if each in ids)
        assert any(each >= 1000 for each in ids)


def test_groups_are_on_one_side():
    config = tiny_config({"columns": {"group": "shop"}})
    rows = _rows({"columns": {"group": "shop"}})
    pairs = [
        (rows.final, rows.plan.table),
        *((rows.plan.split(n).train, rows.plan.split(n).valid) for n in range(3)),
    ]
    whole = rows.whole(config)
    for one, other in [*pairs, (whole.train, whole.valid)]:
        assert not set(one.group) & set(other.group)


def test_later_rows_score_earlier_ones():
    layer = {"columns": {"time": "listed"}}
    rows = _rows(layer)
    assert rows.plan.table.time.max() < rows.final.time.min()
    for fold in range(3):
        split = rows.plan.split(fold)
        assert split.train.time.max() < split.valid.time.min()
    whole = rows.whole(tiny_config(layer))
    assert whole.train.time.max() < whole.valid.time.min()
    assert rows.growth() > 1.9


def test_the_digest_tells_rows_and_folds_apart():
    rows = _rows()
    assert rows.digest() == _rows().digest()
    assert rows.digest() != _rows(folds=4).digest()
    assert rows.digest() != _rows({"seed": 1}).digest()
    text = replace(rows.final, text=rows.final.text + "!")
    assert rows.digest() != replace(rows, final=text).digest()


def test_more_folds_than_rows_are_an_error(raises):
    with raises(ConfigError, "folds", folds=12, rows=11):
        load_search_rows(Source(make_catalog(12)), tiny_config(), 12, allow_leak=False)


def test_a_search_says_once_that_products_repeat_with_variants(logged):
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}m" for a in "bcdfghjklnpr" for b in "aeiou"])
    names = [" ".join(rng.choice(words, 3, replace=False)) for _ in range(100)]
    frame = pd.DataFrame(
        {
            "catalog_content": [
                f"{name}, {size}" for name in names for size in ("250 g", "500g", "1 kg", "2 kg")
            ],
            "price": np.repeat(rng.lognormal(2, 1, 100), 4) * np.tile([1, 1.2, 1.5, 1.9], 100),
        }
    )
    load_search_rows(Source(frame), tiny_config(), 2, allow_leak=False)
    assert " ".join(logged().split()).count("are variants, such as sizes, of") == 1
