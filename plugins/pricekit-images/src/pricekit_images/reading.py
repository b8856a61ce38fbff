"""Cells to numbers: each different image is read once, by several threads."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from pricekit.support.cpus import usable_cpus
from pricekit.support.log import logger
from pricekit_images.decode import decode
from pricekit_images.encoder import Encoder
from pricekit_images.fetch import Downloader, Limits
from pricekit_images.sources import file_of, is_link, read_file, read_link
from pricekit_images.statistics import NAMES, SIDE, statistics_of
from pricekit_images.unusable import Report, UnusableError

MEMORY = 256 << 20
"""Bytes of numbers that are remembered, so that a training reads each image once."""
MOST_KEPT = 200_000
"""Images whose numbers, or failures, are remembered."""
FAILURE_SECONDS = 600.0
"""How long it is remembered that an image cannot be used."""
SAID_SECONDS = 30.0
"""Seconds between messages on how many images are read."""

Numbers = npt.NDArray[np.float32]


class Memory:
    """Remembers results by key, and lets one thread compute each."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._lock = Lock()
        self._kept: OrderedDict[object, tuple[Future[Numbers], float]] = OrderedDict()

    def get(self, key: object, compute: Callable[[], Numbers]) -> Numbers:
        """Return the result of `compute` for a key; it, or its UnusableError, may be an earlier one."""
        with self._lock:
            future, ends = self._kept.get(key, (None, 0.0))
            mine = future is None or (future.done() and ends < time.monotonic())
            if mine:
                future = Future()
                self._kept[key] = future, float("inf")
        assert future is not None
        return self._compute(key, future, compute) if mine else future.result()

    def _compute(self, key: object, future: Future[Numbers], compute: Callable[[], Numbers]) -> Numbers:
        try:
            found = compute()
        except UnusableError as error:
            future.set_exception(error)
            self._keep(key, future, 0, time.monotonic() + FAILURE_SECONDS)
            raise
        except BaseException as error:
            self._kept.pop(key, None)
            future.set_exception(error)
            raise
        future.set_result(found)
        self._keep(key, future, found.nbytes, float("inf"))
        return found

    def _keep(self, key: object, future: Future[Numbers], size: int, ends: float) -> None:
        with self._lock:
            self._kept[key] = future, ends
            self._bytes += size
            while self._kept and (self._bytes > self._most or len(self._kept) > MOST_KEPT):
                oldest = self._kept.popitem(last=False)[1][0]
                if oldest.done() and oldest.exception() is None:
                    self._bytes -= oldest.result().nbytes


_memory, _report = Memory(MEMORY), Report()
_decoding = BoundedSemaphore(usable_cpus())
"""Few images are decoded at a time, because each takes memory."""


@lru_cache(8)
def downloader_of(limits: Limits) -> Downloader:
    """Return the downloader with these limits, of which a process has one."""
    return Downloader(limits)


@dataclass(frozen=True)
class Reader:
    """Turns cells into numbers.

    Attributes:
        folder: of local images.
        limits: of downloads, and of the bytes of files.
        most_pixels: of an image.
        encoder: of pictures; None: statistics only.
    """

    folder: Path
    limits: Limits
    most_pixels: int
    encoder: Encoder | None = None

    @property
    def width(self) -> int:
        """The number of values of an image: its statistics, then its vector."""
        return len(NAMES) + (self.encoder.facts.values if self.encoder else 0)

    def numbers(self, cells: Sequence[str]) -> Numbers:
        """Return the values of the images of N cells, float32 (N, width); NaN where there is no usable image.

        A warning says how many images cannot be used; cells without an image are none of them.
        """
        distinct = list(dict.fromkeys(cell for cell in cells if cell))
        links = sum(map(is_link, distinct))
        threads = self.limits.connections if links else usable_cpus()
        failures: list[tuple[str, str]] = []
        found: dict[str, Numbers] = {}
        said = time.monotonic() + SAID_SECONDS
        with self._pool(max(1, min(threads, len(distinct)))) as pool:
            for done, (cell, result) in enumerate(
                zip(distinct, pool.map(self._of, distinct), strict=True), 1
            ):
                if isinstance(result, str):
                    failures.append((cell, result))
                else:
                    found[cell] = result
                if time.monotonic() > said:
                    said = time.monotonic() + SAID_SECONDS
                    logger.info(f"{done:,} of {len(distinct):,} images are read")
        _report.add(len(distinct), failures)
        none = np.full(self.width, np.nan, np.float32)
        rows = [found.get(cell, none) for cell in cells]
        return np.array(rows, np.float32).reshape(len(cells), self.width)

    @contextmanager
    def _pool(self, threads: int) -> Iterator[ThreadPoolExecutor]:
        """Yield threads that end soon if the block fails, for example because the user interrupts it."""
        pool = ThreadPoolExecutor(threads)
        try:
            yield pool
        except BaseException:
            downloader_of(self.limits).stop()
            downloader_of.cache_clear()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _of(self, cell: str) -> Numbers | str:
        """Return the values of an image, or why it cannot be used."""
        limits: tuple[Any, ...] = (
            self.most_pixels,
            self.limits.most_bytes,
            self.encoder and self.encoder.digest,
        )
        try:
            if is_link(cell):
                return _memory.get((cell, limits), lambda: self._read(self._downloaded(cell)))
            file = file_of(cell, self.folder)
            facts = file.stat()
            key = (str(file), facts.st_mtime_ns, facts.st_size, limits)
            return _memory.get(key, lambda: self._read(read_file(file, self.limits.most_bytes)))
        except UnusableError as error:
            return error.reason
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    def _downloaded(self, link: str) -> bytes:
        return read_link(link, downloader_of(self.limits))

    def _read(self, content: bytes) -> Numbers:
        side = max(SIDE, self.encoder.facts.side if self.encoder else 0)
        with _decoding:
            picture = decode(content, self.most_pixels, side)
            found = statistics_of(picture)
            if self.encoder is not None:
                found = np.concatenate([found, self.encoder(picture.pixels)])
        if len(found) != self.width:
            raise UnusableError("the encoder returns another number of values")
        if not np.isfinite(found).all():
            raise UnusableError("the encoder returns numbers that are not finite")
        return found
