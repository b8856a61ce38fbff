"""Cells to numbers: each different image is read once, by several threads."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import BoundedSemaphore, Event
from typing import Any

import numpy as np

from pricekit.plugin import DataError, PricekitError, logger, shorten, usable_cpus
from pricekit_images.decode import decode
from pricekit_images.encoder import Encoder
from pricekit_images.memory import MEMORY, Memory, Numbers
from pricekit_images.sources import file_of, is_link, read_file, read_link
from pricekit_images.statistics import NAMES, SIDE, statistics_of
from pricekit_images.unusable import MOST_REASONS, Report, UnusableError
from pricekit_images.web.fetch import Downloader, Limits, StoppedError

SAID_SECONDS = 30.0
"""Seconds between messages on how many images are read."""
LEAST_PASSING = 20
"""Links, more than half of a column, whose failures may pass, so that a training does not go on without them."""

_memory, _report = Memory(MEMORY), Report()
_decoding = BoundedSemaphore(usable_cpus())
"""Few images are decoded at a time, because each takes memory."""
_unexpected: set[type[Exception]] = set()
"""Errors that were logged."""


@lru_cache(8)
def downloader_of(limits: Limits) -> Downloader:
    """Return the downloader with these limits, of which a process has one."""
    return Downloader(limits)


@dataclass(frozen=True)
class Reader:
    """Turns cells into numbers.

    Attributes:
        folder: of local images; None: paths lead to nothing.
        limits: of downloads, and of the bytes of files.
        most_pixels: of an image.
        encoder: of pictures; None: statistics only.
    """

    folder: Path | None
    limits: Limits
    most_pixels: int
    encoder: Encoder | None = None

    @property
    def width(self) -> int:
        """The number of values of an image: its statistics, then its vector."""
        return len(NAMES) + (self.encoder.facts.values if self.encoder else 0)

    def numbers(self, cells: Sequence[str], *, most: bool = False) -> Numbers:
        """Return the values of the images of N cells, float32 (N, width); NaN where there is no usable image.

        A warning says how many images cannot be used; cells without an image are none of them.

        Args:
            cells: paths, links, or "" for none.
            most: most links are needed.

        Raises:
            DataError: `most`, and most links failed for reasons that may pass.
        """
        distinct = list(dict.fromkeys(cell for cell in cells if cell))
        links = sum(map(is_link, distinct))
        threads = self.limits.connections if links else usable_cpus()
        failures: dict[str, UnusableError] = {}
        found: dict[str, Numbers] = {}
        said = time.monotonic() + SAID_SECONDS
        stopped = Event()
        with _pool(max(1, min(threads, len(distinct))), stopped) as pool:
            results = pool.map(partial(self._of, stopped=stopped), distinct)
            for done, (cell, result) in enumerate(zip(distinct, results, strict=True), 1):
                if isinstance(result, UnusableError):
                    failures[cell] = result
                else:
                    found[cell] = result
                if time.monotonic() > said:
                    said = time.monotonic() + SAID_SECONDS
                    logger.info(f"{done:,} of {len(distinct):,} images are read")
        _report.add(len(distinct), [(cell, error.reason) for cell, error in failures.items()])
        if most:
            self._check_links(links, failures)
        none = np.full(self.width, np.nan, np.float32)
        rows = [found.get(cell, none) for cell in cells]
        return np.array(rows, np.float32).reshape(len(cells), self.width)

    def _check_links(self, links: int, failures: Mapping[str, UnusableError]) -> None:
        """Raise DataError if most links failed for reasons that may pass, and forget these failures."""
        passing = [error.reason for cell, error in failures.items() if is_link(cell) and not error.final]
        if len(passing) < LEAST_PASSING or 2 * len(passing) <= links:
            return
        _memory.forget_passing()
        downloader_of(self.limits).hosts.forget()
        counts = ", ".join(f"{why}: {count:,}" for why, count in Counter(passing).most_common(MOST_REASONS))
        raise DataError(
            f"{len(passing):,} of {links:,} links of images failed for reasons that may pass ({counts}); the images "
            "that were fetched are kept, so the same command continues with the others; repeat it when the hosts "
            "answer, or leave out the feature 'images'",
            parameters=("features",),
            failed=len(passing),
            links=links,
        )

    def _of(self, cell: str, stopped: Event) -> Numbers | UnusableError:
        """Return the values of an image, or why it cannot be used."""
        try:
            return self._found(cell, stopped)
        except UnusableError as error:
            return error
        except OSError as error:
            return UnusableError(f"cannot be read: {error.strerror or type(error).__name__}")
        except (PricekitError, StoppedError, MemoryError):  # not of this image
            raise
        except Exception as error:
            return _unexpectedly(cell, error)

    def _found(self, cell: str, stopped: Event) -> Numbers:
        limits: tuple[Any, ...] = (
            self.most_pixels,
            self.limits.most_bytes,
            self.encoder and self.encoder.digest,
        )
        if is_link(cell):
            downloader = downloader_of(self.limits)
            return _memory.get((cell, limits), lambda: self._read(read_link(cell, downloader, stopped)))
        if self.folder is None:
            raise UnusableError("a path, and there is no folder of images")
        file = file_of(cell, self.folder)
        facts = file.stat()
        key = (str(file), facts.st_mtime_ns, facts.st_size, limits)
        return _memory.get(key, lambda: self._read(read_file(file, self.limits.most_bytes)))

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


@contextmanager
def _pool(threads: int, stopped: Event) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that end soon if the block fails, for example because the user interrupts it."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    except BaseException:
        stopped.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _unexpectedly(cell: str, error: Exception) -> UnusableError:
    """Return why an image cannot be used that causes an error which no image should, and log the error once."""
    kind = type(error)
    if kind not in _unexpected and logger.isEnabledFor(logging.WARNING):
        _unexpected.add(kind)
        logger.warning(
            f"an image causes an unexpected {kind.__name__} and counts as missing: {shorten(str(error), 200)}; it is "
            f"{shorten(repr(cell), 200)}; report it to the developers of pricekit-images"
        )
        logger.debug("where it was raised", exc_info=error)
    return UnusableError(f"an unexpected {kind.__name__}")
