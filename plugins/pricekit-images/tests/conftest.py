"""Fixtures: a web server of images, and an empty cache and folder."""

import importlib.util
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("shop", Path(__file__).with_name("shop.py"))
shop_module = importlib.util.module_from_spec(spec)
sys.modules["shop"] = shop_module
spec.loader.exec_module(shop_module)


@pytest.fixture
def shop():
    """A web server of images on this machine."""
    with shop_module.opened_shop() as found:
        yield found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of local images; the cache is empty, too, and local addresses are allowed."""
    from pricekit_images import memory, reading

    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PRICEKIT_IMAGES_ALLOW", "127.0.0.1")
    monkeypatch.setenv("PRICEKIT_IMAGES_ROOT", str(tmp_path / "images"))
    monkeypatch.setattr(reading, "_memory", memory.Memory(memory.MEMORY))
    monkeypatch.setattr(reading, "_report", reading.Report())
    monkeypatch.setattr(reading, "_unexpected", set())
    reading.downloader_of.cache_clear()
    (tmp_path / "images").mkdir()
    return tmp_path / "images"
