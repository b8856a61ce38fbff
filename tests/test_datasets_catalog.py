"""The generated catalogue: its shape, its prices and its seed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pricekit.datasets import NOISE_SD, PACK_ELASTICITY, SIZE_ELASTICITY, _draw, make_catalog
from pricekit.table import Table, split_usable


@pytest.fixture(scope="module")
def catalog() -> pd.DataFrame:
    return make_catalog(5000, seed=3)


def test_has_the_columns_of_the_reference_task(catalog: pd.DataFrame) -> None:
    assert list(catalog.columns) == ["sample_id", "catalog_content", "price"]
    assert len(catalog) == 5000
    assert catalog.sample_id.is_unique
    assert catalog.price.dtype == np.float64


def test_the_seed_determines_everything(catalog: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(catalog, make_catalog(5000, seed=3))
    assert not make_catalog(5000, seed=4).catalog_content.equals(catalog.catalog_content)


def test_every_row_is_usable(catalog: pd.DataFrame) -> None:
    table = Table(catalog.sample_id, catalog.catalog_content, catalog.price.to_numpy(), catalog)
    usable, rejected = split_usable(table)
    assert len(usable) == 5000
    assert rejected.empty


def test_prices_are_whole_cents(catalog: pd.DataFrame) -> None:
    cents = catalog.price * 100
    assert np.allclose(cents, cents.round())
    assert catalog.price.between(0.05, 5000).all()


@pytest.mark.parametrize(
    "pattern",
    [
        r"^Item Name: ",
        r"\nBullet Point 1: ",
        r"\nBullet Point: ",
        r"\nProduct Description: ",
        r"\nValue: \d+\.\d+\nUnit: [A-Za-z. ]+\n$",
        r"\(Pack of \d+\)",
        r"\d+ x \d",
        r"PACK OF \d",
        r"<p>|<br>|&amp;",
        r"[^\x00-\x7f]",
        r"\nUnit: None\n$",
    ],
)
def test_text_has_the_variety_of_real_tables(catalog: pd.DataFrame, pattern: str) -> None:
    share = catalog.catalog_content.str.contains(pattern).mean()
    assert share > 0


def test_value_is_the_total_quantity() -> None:
    texts = make_catalog(2000, seed=1).catalog_content
    found = texts.str.extract(r" (\d+) x ([\d.]+) (?:oz|Ounce)\n(?:.*\n)*Value: ([\d.]+)\n").dropna()
    pack, size, total = (found[column].astype(float) for column in found)
    assert len(found) > 5
    assert np.allclose(pack * size, total, rtol=1e-3)


def test_price_follows_the_formula_and_its_noise_is_as_documented() -> None:
    rows = 50_000
    products = _draw(rows, np.random.default_rng(7))
    noise = np.log(make_catalog(rows, seed=7).price.to_numpy()) - products.log_price
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - NOISE_SD) < 0.01
    smape = 200 * np.tanh(np.abs(noise) / 2).mean()
    assert abs(smape - 19.7) < 0.3


def test_elasticities_can_be_read_from_the_prices() -> None:
    products = _draw(20_000, np.random.default_rng(5))
    one_kind = (products.brand == 0) & (products.category == 0)
    design = np.column_stack(
        [np.ones(one_kind.sum()), np.log(products.size[one_kind]), np.log(products.pack[one_kind])]
    )
    fitted = np.linalg.lstsq(design, products.log_price[one_kind], rcond=None)[0]
    assert np.allclose(fitted[1:], [SIZE_ELASTICITY, PACK_ELASTICITY])
