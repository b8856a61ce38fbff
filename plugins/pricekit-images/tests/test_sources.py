import json
import os
from dataclasses import replace

import pytest
from pricekit_images import cache
from pricekit_images.sources import file_of, folder_of, is_link, read_file, read_link
from pricekit_images.unusable import UnusableError
from pricekit_images.web.fetch import Downloader, Limits
from shop import jpeg

from pricekit.plugin import ConfigError

QUICK = Limits(seconds=0.5, pause=0.001, rate=10_000, attempts=2)


@pytest.fixture
def inside(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "a.jpg").write_bytes(jpeg())
    (folder.parent / "secret.jpg").write_bytes(jpeg())
    return folder


@pytest.mark.parametrize("cell", ["sub/a.jpg", "./sub/../sub/a.jpg", "{folder}/sub/a.jpg"])
def test_files_inside_of_the_folder_are_found(inside, cell):
    file = file_of(cell.format(folder=inside), folder_of(""))
    assert read_file(file, 10_000) == jpeg()


@pytest.mark.parametrize(
    "cell", ["../secret.jpg", "{folder}/../secret.jpg", "/etc/passwd", "sub/../../secret.jpg", "link.jpg"]
)
def test_files_outside_are_refused(inside, cell, raises):
    (inside / "link.jpg").symlink_to(inside.parent / "secret.jpg")
    with raises(UnusableError):
        file_of(cell.format(folder=inside), folder_of(""))


@pytest.mark.parametrize(
    "cell",
    [
        "b.jpg",
        "sub",
        "pipe",
        "loop",
        "a\0b",
        "x" * 5000,
        "file:///etc/passwd",
        "s3://bucket/a.jpg",
        "data:image/png;base64,AAAA",
    ],
)
def test_other_cells_have_a_reason(inside, cell, raises):
    os.mkfifo(inside / "pipe")
    (inside / "loop").symlink_to(inside / "loop")
    with raises(UnusableError):
        file_of(cell, folder_of(""))


def test_the_folder_stays_inside_of_the_one_of_the_machine(inside, monkeypatch, raises):
    assert folder_of("sub") == inside.resolve() / "sub"
    for root in ("..", "/", "sub/../.."):
        with raises(ConfigError, "settings"):
            folder_of(root)
    with raises(ConfigError, "settings"):
        folder_of("none")
    monkeypatch.delenv("PRICEKIT_IMAGES_ROOT")
    monkeypatch.chdir(inside)
    assert folder_of("sub") == inside.resolve() / "sub"


def test_a_file_has_a_limit(inside, raises):
    with raises(UnusableError):
        read_file(inside / "sub" / "a.jpg", 100)


def test_only_http_is_a_link():
    assert is_link("https://a/b")
    assert not is_link("httpfolder/b")


def test_a_link_is_fetched_once(shop, folder):
    shop.pages["/a.jpg"] = jpeg()
    for _ in range(3):
        assert read_link(shop.url + "/a.jpg", Downloader(QUICK)) == jpeg()
    assert shop.asked["/a.jpg"] == 1


def test_equal_images_are_stored_once(shop, folder):
    shop.pages |= {f"/{n}.jpg": jpeg() for n in range(3)}
    for n in range(3):
        read_link(f"{shop.url}/{n}.jpg", Downloader(QUICK))
    stored = [file for file in (folder.parent / "cache" / "images" / "content").rglob("*") if file.is_file()]
    assert len(stored) == 1
    assert stored[0].read_bytes() == jpeg()


def test_a_link_that_leads_to_nothing_is_remembered_for_a_day(shop, folder, monkeypatch, raises):
    for _ in range(2):
        with raises(UnusableError):
            read_link(shop.url + "/a.jpg", Downloader(QUICK))
    assert shop.asked["/a.jpg"] == 1
    monkeypatch.setattr(cache, "FAILURE_SECONDS", 0)
    shop.pages["/a.jpg"] = jpeg()
    assert read_link(shop.url + "/a.jpg", Downloader(QUICK)) == jpeg()


def test_a_failure_that_may_pass_is_not_remembered(shop, folder):
    shop.pages["/a.jpg"] = 503
    with pytest.raises(UnusableError):
        read_link(shop.url + "/a.jpg", Downloader(QUICK))
    shop.pages["/a.jpg"] = jpeg()
    assert read_link(shop.url + "/a.jpg", Downloader(QUICK)) == jpeg()


@pytest.mark.parametrize("page", [b"<html>please wait</html>", b"<svg/>", b"", jpeg(kind="TIFF")])
def test_a_page_that_is_no_image_is_tried_again_after_a_day(shop, folder, monkeypatch, page, raises):
    link = shop.url + "/a.jpg"
    shop.pages["/a.jpg"] = page
    for _ in range(2):
        with raises(UnusableError):
            read_link(link, Downloader(QUICK))
    assert shop.asked["/a.jpg"] == 1
    shop.pages["/a.jpg"] = jpeg()
    monkeypatch.setattr(cache, "FAILURE_SECONDS", 0)
    assert read_link(link, Downloader(QUICK)) == jpeg()


def test_an_image_over_the_limit_is_fetched_when_the_limit_is_raised(shop, folder, raises):
    shop.pages["/a.jpg"] = jpeg()
    for limits in (replace(QUICK, most_bytes=100), QUICK, replace(QUICK, most_bytes=100)):
        if limits is QUICK:
            assert read_link(shop.url + "/a.jpg", Downloader(limits)) == jpeg()
        else:
            with raises(UnusableError):
                read_link(shop.url + "/a.jpg", Downloader(limits))
    assert shop.asked["/a.jpg"] == 2


def test_a_loop_of_redirects_is_remembered(shop, folder, raises):
    shop.pages["/a.jpg"] = shop.redirect("/a.jpg")
    for _ in range(2):
        with raises(UnusableError):
            read_link(shop.url + "/a.jpg", Downloader(QUICK))
    assert shop.asked["/a.jpg"] == 6


@pytest.mark.parametrize("harm", ["content", "cut", "record", "other", "missing"])
def test_a_damaged_cache_is_fetched_again(shop, folder, harm):
    shop.pages["/a.jpg"] = jpeg()
    read_link(shop.url + "/a.jpg", Downloader(QUICK))
    places = {
        kind: next((folder.parent / "cache" / "images" / kind).glob("*/*")) for kind in ("content", "links")
    }
    if harm == "content":
        places["content"].write_bytes(jpeg()[:-1] + b"x")
    elif harm == "cut":
        places["content"].write_bytes(jpeg()[:50])
    elif harm == "missing":
        places["content"].unlink()
    elif harm == "other":
        places["links"].write_text(json.dumps({"sha256": "../../../secret"}))
    else:
        places["links"].write_text("{")
    assert read_link(shop.url + "/a.jpg", Downloader(QUICK)) == jpeg()
    assert shop.asked["/a.jpg"] == 2
    assert read_link(shop.url + "/a.jpg", Downloader(QUICK)) == jpeg()
    assert shop.asked["/a.jpg"] == 2


def test_a_cache_that_cannot_be_written_only_warns(shop, folder, logged, monkeypatch):
    monkeypatch.setattr(cache, "_warned", set())
    (folder.parent / "cache").write_text("a file")
    shop.pages |= {"/a.jpg": jpeg(), "/b.jpg": jpeg()}
    for name in "ab":
        assert read_link(f"{shop.url}/{name}.jpg", Downloader(QUICK)) == jpeg()
    assert logged().count("images are not cached") == 1
