import socket
import threading

import numpy as np
import pytest
from pricekit_images import reading
from pricekit_images.decode import decode
from pricekit_images.reading import Reader
from pricekit_images.statistics import statistics_of
from pricekit_images.web import hosts
from pricekit_images.web.fetch import Limits
from shop import jpeg

from pricekit.plugin import ConfigError, DataError

QUICK = Limits(seconds=2, pause=0.001, rate=10_000, attempts=2)


def reader_of(folder, limits=QUICK):
    return Reader(folder, limits, 25_000_000)


def missing(numbers):
    return np.isnan(numbers[:, 0]).tolist()


def links_of(shop, count):
    shop.pages |= {f"/{n}": jpeg(size=(40 + n, 40)) for n in range(count)}
    return [f"{shop.url}/{n}" for n in range(count)]


def drop(handler):
    handler.close_connection = True


@pytest.mark.parametrize("connections", [1, 16])
def test_an_outage_of_a_host_loses_no_image(shop, folder, monkeypatch, connections):
    """It drops 100 connections; 20 of them would fail all further links."""
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE", "LOOK_SECONDS"):
        monkeypatch.setattr(hosts, name, 0.001)
    links = links_of(shop, 150)
    shop.always = lambda handler, number: drop if 30 < number <= 130 else None
    limits = Limits(pause=0.0, rate=10_000, attempts=hosts.SILENT + 1, connections=connections)
    found = reader_of(folder, limits).numbers(links)
    assert missing(found) == [False] * 150
    assert sum(shop.asked.values()) == 250


def test_a_training_without_most_links_ends_and_continues_when_it_is_repeated(shop, folder, logged, raises):
    links = links_of(shop, 50)
    failing = {f"/{n}" for n in range(20, 50)}
    shop.always = lambda handler, number: 503 if handler.path in failing else None
    reader = reader_of(folder)
    assert sum(missing(reader.numbers(links))) == 30  # a prediction
    assert "30 of 50 images cannot be used" in logged()
    with raises(DataError, "features", failed=30, links=50) as found:
        reader.numbers(links, most=True)
    assert found.value.parameters == ("features",)
    failing.clear()
    assert not any(missing(reader.numbers(links, most=True)))
    assert {shop.asked[f"/{n}"] for n in range(20)} == {1}


def test_a_training_whose_host_does_not_answer_asks_it_again_when_it_is_repeated(shop, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    links = [*links_of(shop, 20), *(f"{dead}/{n}" for n in range(30))]
    for _ in range(2):
        with pytest.raises(DataError) as raised:  # how many wait and how many fail depends on the time
            reader_of(folder).numbers(links, most=True)
        assert raised.value.parameters == ("features",)
        assert (raised.value.facts["failed"], raised.value.facts["links"]) == (30, 50)
    assert {shop.asked[f"/{n}"] for n in range(20)} == {1}


@pytest.mark.parametrize(("count", "failing", "page"), [(19, 19, 503), (40, 20, 503), (40, 40, 404)])
def test_a_training_goes_on_without_some_links(shop, folder, count, failing, page):
    links = links_of(shop, count)
    shop.pages |= {f"/{n}": page for n in range(failing)}
    assert sum(missing(reader_of(folder).numbers(links, most=True))) == failing


def test_an_image_with_an_unexpected_error_is_unusable(folder, monkeypatch, logged):
    def strange(picture):
        if picture.width == 61:
            raise KeyError("strange")
        return statistics_of(picture)

    monkeypatch.setattr(reading, "statistics_of", strange)
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(jpeg(size=(60 + number, 40)))
    reader = reader_of(folder)
    for _ in range(2):
        assert missing(reader.numbers(["0.jpg", "1.jpg", "2.jpg"])) == [False, True, False]
    lines = logged()
    assert lines.count("an unexpected KeyError and counts as missing") == 1
    assert (
        "1 of 3 images cannot be used and count as missing; the first is '1.jpg': an unexpected KeyError"
        in lines
    )


def test_errors_of_the_machine_are_no_errors_of_an_image(shop, folder, monkeypatch, raises):
    monkeypatch.setenv("PRICEKIT_IMAGES_ALLOW", "nonsense")
    with raises(ConfigError):
        reader_of(folder).numbers(links_of(shop, 1))


def test_who_is_interrupted_stops_only_the_own_downloads(shop, folder, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def page(handler):
        begun.set()
        go.wait(30)
        shop.send(handler, 200, jpeg())

    links = links_of(shop, 5)
    shop.pages["/0"] = page
    (folder / "bad.jpg").write_bytes(b"bad")

    def interrupted(content, *rest):
        if content == b"bad":
            raise KeyboardInterrupt
        return decode(content, *rest)

    monkeypatch.setattr(reading, "decode", interrupted)
    reader = reader_of(folder, Limits(connections=1, rate=10_000))
    found = []
    other = threading.Thread(target=lambda: found.append(missing(reader.numbers(links))))
    other.start()
    assert begun.wait(30)
    with pytest.raises(KeyboardInterrupt):
        reader.numbers(["bad.jpg"])
    go.set()
    other.join()
    assert found == [[False] * 5]
