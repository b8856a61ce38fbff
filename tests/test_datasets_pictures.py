"""The pictures of the generated catalogue: what they show, and what the texts leave out."""

import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import pricekit as pk
from pricekit.datasets import NOISE_SD, PARTS, SIZES, _draw, write_pictures
from pricekit.errors import ConfigError, DataError

COLOURS = PARTS["colours"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures") / "new" / "pictures"


@pytest.fixture(scope="module")
def catalog(folder):
    return pk.make_catalog(300, seed=5, images=folder)


def pixels_of(path, mode="RGB"):
    with Image.open(path) as picture:
        return np.asarray(picture.convert(mode))


def colours_of(path):
    pixels = pixels_of(path).astype(float).reshape(-1, 3)
    thing = np.median(pixels[pixels.min(axis=1) < 200], axis=0)
    shaded = [np.array(colour["rgb"]) * shade for colour in COLOURS for shade in (0.85, 0.975, 1.1)]
    return int(np.argmin([np.abs(thing - colour).sum() for colour in shaded])) // 3


def test_a_catalogue_without_pictures_stays_as_it_was():
    found = pk.make_catalog(200, seed=5)
    assert list(found) == ["sample_id", "catalog_content", "price"]
    digest = pd.util.hash_pandas_object(found, index=False).sum()
    assert digest == 2651203524449275770


def test_each_product_has_a_picture(catalog, folder):
    assert list(catalog) == ["sample_id", "catalog_content", "image_link", "price"]
    assert catalog.image_link.tolist() == [str(folder / f"{row:07d}.jpg") for row in range(300)]
    assert all(pixels_of(path).shape == (256, 256, 3) for path in catalog.image_link)


def test_the_seed_determines_the_pixels(tmp_path):
    tables = [
        pk.make_catalog(20, seed, images=tmp_path / name) for seed, name in ((5, "a"), (5, "b"), (6, "c"))
    ]
    one, same, other = ([pixels_of(path).tobytes() for path in table.image_link] for table in tables)
    assert one == same
    assert one != other
    drop = [table.drop(columns="image_link") for table in tables]
    pd.testing.assert_frame_equal(drop[0], drop[1])


def test_the_price_depends_on_the_colour_that_only_the_picture_shows(catalog):
    colour = np.array([colours_of(path) for path in catalog.image_link])
    assert set(colour) == set(range(len(COLOURS)))
    products = _draw(300, np.random.default_rng(5))
    rest = np.log(catalog.price.to_numpy()) - products.log_price
    rest -= np.array([each["level"] for each in COLOURS])[colour]
    assert abs(rest.std() - NOISE_SD) < 0.05
    texts = catalog.catalog_content.str.lower().str.replace("green tea", "")
    assert not texts.str.contains("|".join(rf"\b{each['name']}\b" for each in COLOURS)).any()


def test_half_of_the_texts_state_no_quantity(catalog):
    silent = ~catalog.catalog_content.str.contains(r"\nUnit: ")
    assert 0.4 < silent.mean() < 0.6
    names = catalog.catalog_content[silent].str.extract("^Item Name: (.*)")[0]
    assert not names.str.contains(r"\d").any()


@pytest.mark.parametrize(("pack", "size"), [(1, 0), (4, 2), (24, 4)])
def test_count_and_size_can_be_seen(tmp_path, pack, size):
    (path,) = write_pictures(tmp_path, *np.array([[2], [size], [pack]]), seed=0)
    thing = pixels_of(path, "L") < 200
    quads = thing[:-1, :-1].astype(int) + thing[1:, :-1] + thing[:-1, 1:] + thing[1:, 1:]
    assert (quads == 1).sum() - (quads == 3).sum() == pytest.approx(
        4 * pack
    )  # Gray 1971: corners of solid shapes
    edges = np.flatnonzero(np.diff(thing.any(axis=1).astype(int), prepend=0, append=0))
    assert np.abs(np.diff(edges)[::2] - (2 * SIZES[size] + 1)).max() <= 2


def test_pillow_is_needed_for_pictures_only(monkeypatch, tmp_path, raises):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert len(pk.make_catalog(3)) == 3
    with raises(ConfigError, "images"):
        pk.make_catalog(3, images=tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, raises):
    (tmp_path / "file").write_text("")
    with raises(DataError, "images"):
        pk.make_catalog(3, images=tmp_path / "file" / "pictures")
    with raises(ConfigError, "images"):
        pk.make_catalog(3, images="s3://bucket/pictures")
