"""What the feature does without its folder; test_images.py tests the rest."""

import logging

import pandas as pd
import pytest
from pricekit_images import reading
from pricekit_images.feature import MISSING, Images
from pricekit_images.statistics import NAMES
from shop import jpeg

import pricekit as pk
from pricekit.plugin import ConfigError, DataError, logger

STATE = {"medians": [0.0] * len(NAMES)}


def table_of(cells):
    frame = pd.DataFrame({"text": [f"product {n}" for n in range(len(cells))], "image_link": cells})
    return pk.read_table(frame, text="text")


def missing_of(plugin, table):
    return pd.DataFrame(plugin.transform(table, STATE), columns=plugin.names)[MISSING].tolist()


@pytest.fixture
def elsewhere(folder, monkeypatch):
    """A machine without the folder of the training."""
    monkeypatch.setenv("PRICEKIT_IMAGES_ROOT", str(folder / "none"))
    return folder / "none"


@pytest.mark.parametrize("root", ["", "sub"])
def test_a_prediction_needs_no_folder_for_links(shop, elsewhere, logged, root):
    shop.pages["/a.jpg"] = jpeg()
    plugin = Images(Images.Options(root=root))
    assert missing_of(plugin, table_of([shop.url + "/a.jpg", ""])) == [0, 1]
    plugin.fit(table_of([shop.url + "/a.jpg", ""]))
    assert logged() == ""


@pytest.mark.parametrize("root", ["", "sub", "../.."])
def test_a_prediction_without_the_folder_warns_once(shop, elsewhere, caplog, logged, root):
    shop.pages["/a.jpg"] = jpeg()
    plugin = Images(Images.Options(root=root))
    table = table_of(["a.jpg", shop.url + "/a.jpg", "b.jpg"])
    with caplog.at_level(logging.ERROR, logger.name):  # as while a bundle is tested
        missing_of(plugin, table)
    for _ in range(3):
        assert missing_of(plugin, table) == [1, 0, 1]
    (line,) = logged().splitlines()
    assert line.startswith("paths of images count as missing images: the")
    assert "set the variable PRICEKIT_IMAGES_ROOT" in line
    assert str(elsewhere) in line


def test_a_training_without_the_folder_is_refused(elsewhere, raises):
    with raises(ConfigError, "settings"):
        Images(Images.Options()).fit(table_of(["a.jpg"]))


def test_a_training_without_most_links_ends(shop, folder, raises):
    links = [f"{shop.url}/{n}" for n in range(reading.LEAST_PASSING)]
    shop.always = lambda handler, number: 503
    plugin = Images(Images.Options(retries=0, rate=10_000))
    assert missing_of(plugin, table_of(links)) == [1] * len(links)
    with raises(DataError, "features", failed=20, links=20):
        plugin.fit(table_of(links))
