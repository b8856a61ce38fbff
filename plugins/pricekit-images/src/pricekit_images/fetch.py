"""Download of images over HTTP: few redirects, limits on bytes and time, a rate, retries with growing pauses.

Each connection goes to an IP address that was checked, also after a redirect; proxies are not used, because what they
connect to cannot be checked.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import BoundedSemaphore, Event, Lock
from urllib.parse import urljoin

import urllib3
from urllib3.util import Timeout, Url, parse_url

from pricekit_images.unusable import UnusableError
from pricekit_images.web.addresses import resolve

MOST_REDIRECTS = 5
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another attempt may not meet."""
MOST_PAUSE = 30.0
"""Seconds before another attempt."""
SILENT, SILENT_SECONDS = 20, 60.0
"""Failed connections to a host, without one that succeeds, after which it is not asked for some seconds."""
HOSTS = 64
"""Hosts whose connections are kept open."""
BLOCK = 1 << 16
_HEADERS = {"User-Agent": "pricekit-images", "Accept": "image/*", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Limits:
    """Limits of downloads.

    Attributes:
        most_bytes: of an image.
        seconds: without an answer; a download as a whole may take three times as long.
        attempts: for each link.
        rate: requests per second.
        connections: at a time.
        pause: seconds before the second attempt, about; each further pause is twice as long.
    """

    most_bytes: int = 10_000_000
    seconds: float = 10.0
    attempts: int = 4
    rate: float = 50.0
    connections: int = 16
    pause: float = 0.5


class StoppedError(Exception):
    """The downloads were stopped."""


class Downloader:
    """Downloads images; several threads may share one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lock = Lock()
        self._pools: OrderedDict[tuple[str, str, int, str], urllib3.HTTPConnectionPool] = OrderedDict()
        self._failed: dict[str, tuple[int, float]] = {}
        self._next = 0.0
        self._slots = BoundedSemaphore(limits.connections)
        self._stopped = Event()

    def get(self, link: str) -> bytes:
        """Return what a link leads to.

        Raises:
            UnusableError: it leads to nothing, or to more than is allowed.
        """
        host = parse(link).host or ""
        for attempt in range(self.limits.attempts):
            failed, last = self._failed.get(host, (0, 0.0))
            if failed >= SILENT and time.monotonic() < last + SILENT_SECONDS:
                raise UnusableError("the host does not answer", final=False)
            try:
                with self._slots:
                    content = self._follow(link)
            except UnusableError as error:
                if error.final or attempt + 1 == self.limits.attempts:
                    raise
                usual = self.limits.pause * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311
                self._pause(min(MOST_PAUSE, max(error.pause, usual)))
            else:
                return content
        raise AssertionError

    def _follow(self, link: str) -> bytes:
        ends = time.monotonic() + 3 * self.limits.seconds
        for _ in range(MOST_REDIRECTS + 1):
            response = self._ask(parse(link))
            try:
                if response.status not in (301, 302, 303, 307, 308):
                    return self._content(response, ends)
                link = urljoin(link, response.headers.get("Location", ""))
            finally:
                response.drain_conn() if response.length_remaining == 0 else response.close()
        raise UnusableError(f"more than {MOST_REDIRECTS} redirects", lasting=True)

    def _ask(self, url: Url) -> urllib3.BaseHTTPResponse:
        host, https = str(url.host), url.scheme == "https"
        port = url.port or (443 if https else 80)
        address = resolve(host.strip("[]"), port)
        self._wait()
        named = host if url.port is None else f"{host}:{port}"
        try:
            response = self._pool(str(url.scheme), address, port, host.strip("[]")).urlopen(
                "GET",
                url.request_uri,
                headers=_HEADERS | {"Host": named},
                retries=False,
                redirect=False,
                timeout=Timeout(self.limits.seconds),
                preload_content=False,
                decode_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            with self._lock:
                self._failed[host] = self._failed.get(host, (0, 0.0))[0] + 1, time.monotonic()
            raise UnusableError(_words(error), final=False) from None
        self._failed.pop(host, None)
        return response

    def _content(self, response: urllib3.BaseHTTPResponse, ends: float) -> bytes:
        if response.status != 200:
            waits = response.headers.get("Retry-After", "")
            pause = float(waits) if waits.isdecimal() else 0.0
            final = response.status not in AGAIN
            raise UnusableError(f"status {response.status}", final=final, lasting=final, pause=pause)
        stated = response.headers.get("Content-Length", "")
        size = int(stated) if stated.isdecimal() and len(stated) < 20 else 0
        found = bytearray()
        try:
            while size <= self.limits.most_bytes >= len(found):
                if not (block := response.read1(BLOCK)):
                    break
                found += block
                if time.monotonic() > ends:
                    raise UnusableError("too slow", final=False)
        except urllib3.exceptions.HTTPError as error:
            raise UnusableError(_words(error), final=False) from None
        if max(size, len(found)) > self.limits.most_bytes:
            raise UnusableError(f"more than {self.limits.most_bytes:,} bytes")
        return bytes(found)

    def _pool(self, scheme: str, address: str, port: int, host: str) -> urllib3.HTTPConnectionPool:
        """Return the connections to an address, on which a certificate must be that of the host."""
        key = (scheme, address, port, host)
        with self._lock:
            if key not in self._pools:
                size = self.limits.connections
                self._pools[key] = (
                    urllib3.HTTPSConnectionPool(
                        address, port, maxsize=size, server_hostname=host, assert_hostname=host
                    )
                    if scheme == "https"
                    else urllib3.HTTPConnectionPool(address, port, maxsize=size)
                )
            self._pools.move_to_end(key)
            if len(self._pools) > HOSTS:
                self._pools.popitem(last=False)[1].close()
            return self._pools[key]

    def _wait(self) -> None:
        """Wait until the next request is due."""
        with self._lock:
            now = time.monotonic()
            due = max(now, self._next)
            self._next = due + 1 / self.limits.rate
        self._pause(due - now)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise StoppedError

    def stop(self) -> None:
        """End all downloads soon: those that wait fail, and so do later ones."""
        self._stopped.set()


def parse(link: str) -> Url:
    """Return the parts of a link; raises UnusableError if it is none for HTTP."""
    try:
        url = parse_url(link)
    except urllib3.exceptions.HTTPError:
        raise UnusableError("an invalid link") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UnusableError("a link that is not http or https")
    if url.auth:
        raise UnusableError("a link with a password")
    return url


def _words(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "the connection failed"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.SSLError):
        return "the certificate is not valid"
    return "the connection failed"
