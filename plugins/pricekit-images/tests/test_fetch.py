import socket
import time
from itertools import count
from threading import Event
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pricekit_images.unusable import UnusableError
from pricekit_images.web import deadline, fetch, hosts
from pricekit_images.web.fetch import Downloader, Limits, StoppedError, parse
from shop import jpeg

QUICK = Limits(seconds=0.3, pause=0.001, rate=10_000, attempts=3)


@pytest.fixture
def get(shop, folder):
    downloader = Downloader(QUICK)
    return lambda path: downloader.get(path if "//" in path else shop.url + path)


def refused(get, path):
    with pytest.raises(UnusableError) as found:
        get(path)
    return found.value.reason


def test_an_image_is_downloaded_over_a_connection_that_stays_open(shop, get):
    connections = set()

    def page(handler):
        connections.add(handler.client_address)
        shop.send(handler, 200, jpeg())

    shop.pages["/a.jpg"] = page
    assert {get("/a.jpg") for _ in range(5)} == {jpeg()}
    assert len(connections) == 1


def test_redirects_are_followed_and_relative_ones_too(shop, get):
    shop.pages |= {"/1": shop.redirect("/2", 301), "/2": shop.redirect("3", 307), "/3": b"content"}
    assert get("/1") == b"content"


def test_a_loop_of_redirects_ends(shop, get):
    shop.pages |= {"/1": shop.redirect("/2"), "/2": shop.redirect("/1")}
    assert refused(get, "/1") == "more than 5 redirects"
    assert sum(shop.asked.values()) == 6


@pytest.mark.parametrize(
    "to", ["http://10.0.0.1/x", "http://169.254.169.254/latest", "http://[::1]:80/", "http://0xa.1/"]
)
def test_a_redirect_to_a_private_address_is_refused(shop, get, to):
    shop.pages["/1"] = shop.redirect(to)
    assert "not public" in refused(get, "/1")


@pytest.mark.parametrize("to", ["http://[bad", "http://[::1/x", "//[", "http://a:99999/"])
def test_a_redirect_to_an_invalid_link_is_refused(shop, get, to):
    shop.pages["/1"] = shop.redirect(to)
    assert "invalid link" in refused(get, "/1")


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://a/b", "gopher://a", "http://u:p@127.0.0.1/"])
def test_a_redirect_to_another_scheme_is_refused(shop, get, to):
    shop.pages["/1"] = shop.redirect(to)
    assert refused(get, "/1")
    assert sum(shop.asked.values()) == 1


def test_private_addresses_are_refused_before_anything_is_sent(shop, get, monkeypatch):
    monkeypatch.delenv("PRICEKIT_IMAGES_ALLOW")
    assert "not public" in refused(get, "/a.jpg")
    assert not shop.asked


def test_the_connection_goes_to_the_address_that_was_checked(shop, get, monkeypatch):
    """A name whose second answer is another address."""
    asked, real = [], socket.getaddrinfo

    def resolved(host, port, *args, **kwargs):
        if host != "shop.example":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "10.0.0.1", port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    shop.pages["/a.jpg"] = lambda handler: shop.send(handler, 200, handler.headers["Host"].encode())
    assert get(f"http://shop.example:{shop.port}/a.jpg") == f"shop.example:{shop.port}".encode()
    assert len(asked) == 1
    assert "not public" in refused(get, f"http://shop.example:{shop.port}/a.jpg")


@pytest.mark.parametrize("status", [500, 503, 429])
def test_failures_that_may_pass_are_tried_again(shop, get, status):
    shop.pages["/a.jpg"] = jpeg()
    shop.always = lambda handler, number: status if number < 3 else None
    assert get("/a.jpg") == jpeg()
    assert shop.asked["/a.jpg"] == 3
    shop.always = lambda handler, number: status
    assert refused(get, "/a.jpg") == f"status {status}"
    assert shop.asked["/a.jpg"] == 6


@pytest.mark.parametrize("status", [403, 404, 410])
def test_others_are_final(shop, get, status):
    shop.pages["/a.jpg"] = status
    assert refused(get, "/a.jpg") == f"status {status}"
    assert shop.asked["/a.jpg"] == 1


def test_the_server_may_ask_for_a_longer_pause(shop, get, monkeypatch):
    slept = []
    monkeypatch.setattr(Downloader, "_pause", lambda self, seconds, stopped: slept.append(seconds))
    shop.pages["/a.jpg"] = lambda handler: shop.send(handler, 503, b"", Retry_After="7")
    assert refused(get, "/a.jpg") == "status 503"
    assert sorted(slept)[-2:] == [7, 7]


def test_a_stalled_connection_ends_and_is_tried_again(shop, get):
    shop.pages["/a.jpg"] = jpeg()
    shop.always = lambda handler, number: (lambda _: time.sleep(1)) if number == 1 else None
    assert get("/a.jpg") == jpeg()


def test_a_trickle_ends(shop, get, monkeypatch):
    def page(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b"x")
            time.sleep(0.01)

    shop.pages["/a.jpg"] = page
    clock = count(step=0.1)
    monkeypatch.setattr(Downloader, "_pause", lambda self, seconds, stopped: None)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert refused(get, "/a.jpg") == "too slow"


@pytest.mark.parametrize(
    "part", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 2", b"HTTP/1.1 302 Found\r\nX-Slow: "]
)
def test_headers_one_byte_at_a_time_end(shop, folder, part, monkeypatch):
    """The page would be complete after some seconds, and each byte comes in time."""

    def page(handler):
        handler.close_connection = True
        handler.wfile.write(part)
        for _ in range(300):
            handler.wfile.write(b"0")
            time.sleep(0.01)
        handler.wfile.write(b"\r\nContent-Length: 1\r\n\r\nx")

    shop.pages["/a.jpg"] = page
    clock = count(step=1)  # seconds pass with the reads, not with the time
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert refused(Downloader(Limits(attempts=1)).get, shop.url + "/a.jpg") == "too slow"


def test_chunks_one_byte_at_a_time_end(shop, folder, monkeypatch):
    def page(handler):
        handler.send_response(200)
        handler.close_connection = True
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"1;")
        for _ in range(300):
            handler.wfile.write(b"0")
            time.sleep(0.01)
        handler.wfile.write(b"\r\nx\r\n0\r\n\r\n")

    shop.pages["/a.jpg"] = page
    clock = count(step=1)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert refused(Downloader(Limits(attempts=1)).get, shop.url + "/a.jpg") == "too slow"


def test_redirects_share_the_time_of_a_download(shop, get, monkeypatch):
    shop.pages |= {f"/{n}": shop.redirect(f"/{n + 1}") for n in range(5)}
    shop.pages["/5"] = b"content"
    assert get("/0") == b"content"
    clock = count(step=0.05)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert get("/4") == b"content"
    assert refused(get, "/0") == "too slow"


def test_a_download_that_is_stopped_leaves_others_alone(shop, folder):
    shop.pages["/a.jpg"] = jpeg()
    downloader, stopped = Downloader(QUICK), Event()
    stopped.set()
    with pytest.raises(StoppedError):
        downloader.get(shop.url + "/a.jpg", stopped)
    assert downloader.get(shop.url + "/a.jpg") == jpeg()


@pytest.mark.parametrize("stated", [True, False])
def test_bytes_are_limited_whatever_the_server_states(shop, folder, stated, raises):
    sent = []

    def page(handler):
        handler.send_response(200)
        handler.send_header(*(("Content-Length", "100000000") if stated else ("Connection", "close")))
        handler.end_headers()
        handler.close_connection = True
        for _ in range(1000):
            handler.wfile.write(b"x" * 10_000)
            sent.append(10_000)

    shop.pages["/a.jpg"] = page
    with raises(UnusableError):
        Downloader(Limits(most_bytes=50_000, seconds=1)).get(shop.url + "/a.jpg")
    assert sum(sent) < 10_000_000


def test_a_connection_that_ends_early_is_tried_again(shop, get):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"x")
        handler.close_connection = True

    shop.pages["/a.jpg"] = jpeg()
    shop.always = lambda handler, number: cut if number == 1 else None
    assert get("/a.jpg") == jpeg()
    shop.always = lambda handler, number: cut
    assert refused(get, "/a.jpg") == "the connection failed"


def test_a_host_that_does_not_answer_is_not_asked_for_ever(folder, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    downloader = Downloader(QUICK)
    tried = []
    ask = downloader._ask
    monkeypatch.setattr(downloader, "_ask", lambda url, *rest: tried.append(url) or ask(url, *rest))
    reasons = []
    for number in range(30):
        with pytest.raises(UnusableError) as found:
            downloader.get(f"http://127.0.0.1:{port}/{number}")
        reasons.append(found.value.reason)
    assert reasons[0] == "the connection failed"
    assert reasons[-1] == "the host does not answer"
    assert len(tried) < hosts.SILENT + QUICK.attempts


def test_requests_keep_a_rate(shop, folder, monkeypatch):
    slept = []
    monkeypatch.setattr(Downloader, "_pause", lambda self, seconds, stopped: slept.append(seconds))
    monkeypatch.setattr(fetch, "time", SimpleNamespace(monotonic=lambda: 100.0))
    shop.pages["/a.jpg"] = b"x"
    downloader = Downloader(Limits(rate=4))
    for _ in range(5):
        downloader.get(shop.url + "/a.jpg")
    assert slept == [0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    "link", ["ftp://a/b", "http:///x", "http://a:b@c/", "http://[::1", "//a/b", "http://a:99999999/"]
)
def test_other_links_are_refused(link):
    with pytest.raises(UnusableError):
        parse(link)


@given(st.text(max_size=40))
def test_any_text_is_a_link_or_refused(text):
    for link in (text, "http://" + text):
        try:
            assert parse(link).scheme in ("http", "https")
        except UnusableError:
            continue
