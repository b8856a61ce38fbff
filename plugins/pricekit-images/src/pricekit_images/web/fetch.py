"""Download of images over HTTP: few redirects, limits on bytes and time, a rate, retries with growing pauses.

Each connection goes to an IP address that was checked, also after a redirect; proxies are not used, because what they
connect to cannot be checked.
"""

from __future__ import annotations

import random
import ssl
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore, Event, Lock
from urllib.parse import urljoin

import urllib3
from urllib3.util import Timeout, Url, parse_url

from pricekit_images.unusable import UnusableError
from pricekit_images.web.addresses import resolve
from pricekit_images.web.deadline import Deadline, HttpPool, HttpsPool, deadline_of
from pricekit_images.web.hosts import GoneError, Hosts

MOST_REDIRECTS = 5
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses that another attempt may not meet."""
MOST_PAUSE = 30.0
"""Seconds before another attempt."""
KEPT_OPEN = 64
"""Hosts whose connections are kept open."""
SLOT_SECONDS = 0.5
"""Seconds after which a download that waits for others looks whether it was stopped."""
BLOCK = 1 << 16
_HEADERS = {"User-Agent": "pricekit-images", "Accept": "image/*", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Limits:
    """Limits of downloads.

    Attributes:
        most_bytes: of an image.
        seconds: without an answer; a download as a whole may take three times as long, without its waiting for others.
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
        self.hosts = Hosts()
        self._lock = Lock()
        self._pools: OrderedDict[tuple[str, str, int, str], urllib3.HTTPConnectionPool] = OrderedDict()
        self._next = 0.0
        self._slots = BoundedSemaphore(limits.connections)

    def get(self, link: str, stopped: Event | None = None) -> bytes:
        """Return what a link leads to.

        Args:
            link: for http or https.
            stopped: ends the download soon, when it is set.

        Raises:
            UnusableError: it leads to nothing, or to more than is allowed.
            StoppedError: `stopped` was set while the download waited.
        """
        stopped = stopped or Event()
        for attempt in range(self.limits.attempts):
            try:
                return self._follow(link, stopped)
            except GoneError:
                raise
            except UnusableError as error:
                if error.final or attempt + 1 == self.limits.attempts:
                    raise
                usual = self.limits.pause * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311
                self._pause(min(MOST_PAUSE, max(error.pause, usual)), stopped)
        raise AssertionError

    def _follow(self, link: str, stopped: Event) -> bytes:
        left = 3 * self.limits.seconds
        for _ in range(MOST_REDIRECTS + 1):
            found, left = self._answer_of(parse(link), left, stopped)
            if isinstance(found, bytes):
                return found
            try:
                link = urljoin(link, found)
            except ValueError:
                raise UnusableError("a redirect to an invalid link") from None
        raise UnusableError(f"more than {MOST_REDIRECTS} redirects", lasting=True)

    def _answer_of(self, url: Url, left: float, stopped: Event) -> tuple[bytes | str, float]:
        """Return the content of a page, or the link to which it redirects, and the seconds that are left.

        A request that fails starts again as long as the downloads of its host pause: that is no attempt.
        """
        host = _named(url)
        while True:
            try:
                with (
                    self.hosts.turn(host, partial(self._pause, stopped=stopped)) as answered,
                    self._slot(stopped),
                ):
                    self._wait(stopped)
                    with deadline_of(left) as deadline:
                        response = self._ask(url, deadline)
                        answered()
                        return self._read(response, deadline), deadline.left()
            except UnusableError as error:
                if error.final or not self.hosts.pauses(host):
                    raise

    def _ask(self, url: Url, deadline: Deadline) -> urllib3.BaseHTTPResponse:
        host = str(url.host).strip("[]")
        port = url.port or (443 if url.scheme == "https" else 80)
        address = resolve(host, port)
        seconds = min(self.limits.seconds, deadline.left())
        if not seconds:
            raise UnusableError("too slow", final=False)
        try:
            return self._pool(str(url.scheme), address, port, host).urlopen(
                "GET",
                url.request_uri,
                headers=_HEADERS | {"Host": _named(url)},
                retries=False,
                redirect=False,
                timeout=Timeout(seconds),
                preload_content=False,
                decode_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise UnusableError(_words(error, deadline), final=_is_untrusted(error)) from None

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: Deadline) -> bytes | str:
        """Return the content of a page, or the link to which it redirects."""
        try:
            if response.status in (301, 302, 303, 307, 308):
                return response.headers.get("Location", "")
            return self._content(response, deadline)
        finally:
            response.drain_conn() if response.length_remaining == 0 else response.close()

    def _content(self, response: urllib3.BaseHTTPResponse, deadline: Deadline) -> bytes:
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
                if not deadline.left():
                    raise UnusableError("too slow", final=False)
        except urllib3.exceptions.HTTPError as error:
            raise UnusableError(_words(error, deadline), final=False) from None
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
                    HttpsPool(address, port, maxsize=size, server_hostname=host, assert_hostname=host)
                    if scheme == "https"
                    else HttpPool(address, port, maxsize=size)
                )
            self._pools.move_to_end(key)
            if len(self._pools) > KEPT_OPEN:
                self._pools.popitem(last=False)[1].close()
            return self._pools[key]

    @contextmanager
    def _slot(self, stopped: Event) -> Iterator[None]:
        """Let few downloads run at a time."""
        while not self._slots.acquire(timeout=SLOT_SECONDS):
            self._pause(0, stopped)
        try:
            yield
        finally:
            self._slots.release()

    def _wait(self, stopped: Event) -> None:
        """Wait until the next request is due."""
        with self._lock:
            now = time.monotonic()
            due = max(now, self._next)
            self._next = due + 1 / self.limits.rate
        self._pause(due - now, stopped)

    def _pause(self, seconds: float, stopped: Event) -> None:
        if stopped.wait(seconds):
            raise StoppedError


def parse(link: str) -> Url:
    """Return the parts of a link; raises UnusableError if it is none for HTTP."""
    try:
        url = parse_url(link)
    except (urllib3.exceptions.HTTPError, ValueError):
        raise UnusableError("an invalid link") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UnusableError("a link that is not http or https")
    if url.auth:
        raise UnusableError("a link with a password")
    return url


def _named(url: Url) -> str:
    """Return the host of a link, with the port if it is stated."""
    return str(url.host) if url.port is None else f"{url.host}:{url.port}"


def _is_untrusted(error: Exception) -> bool:
    """Return whether a certificate is not that of the host; another attempt would find the same one."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in (*error.args, error.__cause__))


def _words(error: Exception, deadline: Deadline) -> str:
    if not deadline.left():
        return "too slow"
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return "the connection failed"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.SSLError):
        return "the certificate is not valid"
    return "the connection failed"
