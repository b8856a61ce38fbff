"""The queues of a model: one thread prices rows of requests that come at the same time together, another explains."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pricekit_serve.errors import RequestError
from pricekit_serve.limits import Limits
from pricekit_serve.rows import Rows, joined

Prices = npt.NDArray[np.float32]
"""Prices of rows, float32 (N,), or prices and spreads, float32 (N, 2)."""

RETRY_AFTER = "1"
"""Seconds after which a client may try again when the queue is full."""


class Watcher(Protocol):
    """Hears of a queue's work, in the thread that does it."""

    def batch(self, rows: int, waited: Sequence[float]) -> None:
        """Hear that rows are priced together, and how long their requests waited, in seconds."""

    def waiting(self, rows: int) -> None:
        """Hear how many rows are in the queue."""


@dataclass(eq=False)
class Times:
    """When a request came and when its first rows left the queue, in nanoseconds since 1970."""

    came: int = field(default_factory=time.time_ns)
    began: int = 0


@dataclass(eq=False)
class _Job:
    """The rows of one request.

    Attributes:
        rows: to be priced.
        done: receives the prices.
        times: of the request.
        next: the first row that is not priced yet.
        waiting: how many of the rows count as waiting.
        error: why the work failed.
    """

    rows: Rows
    done: Future[Prices] = field(default_factory=Future)
    times: Times = field(default_factory=Times)
    prices: list[Prices] = field(default_factory=list)
    next: int = 0
    waiting: int = 0
    arrived: float = field(default_factory=time.perf_counter)
    error: BaseException | None = None

    @property
    def left(self) -> int:
        """How many rows are not priced yet."""
        return len(self.rows) - self.next

    @property
    def goes_on(self) -> bool:
        """Whether rows are left to price, and somebody waits for them."""
        return self.error is None and self.left > 0 and not self.done.done()

    @property
    def kind(self) -> tuple[object, ...]:
        """What the rows of one batch have in common."""
        return (self.rows.spread, *self.rows.cells)

    def finish(self) -> None:
        """Hand over the prices or the error."""
        try:
            prices = np.concatenate(self.prices) if self.error is None else None
        except MemoryError as error:
            self.error = error
        with suppress(InvalidStateError):  # the request was given up
            if self.error is None and prices is not None:
                self.done.set_result(prices)
            else:
                self.done.set_exception(self.error)


_Piece = tuple[_Job, int]
"""A job, and how many of its rows are priced next."""


class PriceQueue:
    """Prices rows in batches with one thread.

    The thread takes what waits as soon as it is free, so a row that comes alone does not wait. Of a large request it
    takes `batch_rows` rows at a time, and small requests have their turn in between. Large requests are done in the
    order in which they come, so under overload each one that is admitted ends in time. If several requests shared the
    last batch, the next one waits up to `batch_wait` seconds until as many are there.

    Args:
        price: returns the prices of rows.
        limits: of the batches and the queue.
        watcher: hears of the work.
        at_end: called by the thread when everything is done.
    """

    def __init__(
        self,
        price: Callable[[Rows], Prices],
        limits: Limits,
        watcher: Watcher,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        self._price, self._limits, self._watcher, self._at_end = price, limits, watcher, at_end
        self._small: deque[_Job] = deque()
        self._large: deque[_Job] = deque()
        self._turn_of_large = False
        self._changed = threading.Condition()
        self._waiting, self._together, self._closed = 0, 1, False
        threading.Thread(target=self._work, name="prices", daemon=True).start()

    def price(self, rows: Rows, times: Times | None = None) -> Future[Prices]:
        """Queue rows; the future has their prices. Raises RequestError if the queue is full.

        Args:
            rows: to be priced.
            times: learns when they leave the queue.
        """
        job = _Job(rows, times=times or Times())
        with self._changed:
            if self._waiting + job.left > self._limits.queue_rows:
                message = (
                    f"{self._waiting:,} rows wait to be priced, and the queue has no room for more; try later"
                )
                raise RequestError(503, message, headers={"retry-after": RETRY_AFTER})
            self._line_of(job).append(job)
            self._count(job, job.left)
            self._watcher.waiting(self._waiting)
            if self._jobs() == 1 or self._is_full():  # otherwise the thread would wake only to wait again
                self._changed.notify()
        return job.done

    def close(self) -> None:
        """End the thread once everything that waits is done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _count(self, job: _Job, waiting: int) -> None:
        """Note how many rows of a job wait now."""
        self._waiting += waiting - job.waiting
        job.waiting = waiting

    def _work(self) -> None:
        while batch := self._next():
            self._watch(batch)
            self._do(batch)
            with self._changed:
                self._together = len(batch)
                ended = [job for job, _ in batch if not job.goes_on]
                for job, _ in reversed(batch):
                    if job in ended:
                        self._count(job, 0)
                    else:
                        self._count(job, job.left)
                        self._put_back(job)
                self._watcher.waiting(self._waiting)
            for job in ended:  # a row that is answered no longer counts as waiting
                job.finish()
        if self._at_end is not None:
            self._at_end()

    def _watch(self, batch: Sequence[_Piece]) -> None:
        now = time.perf_counter()
        waited = [now - job.arrived for job, _ in batch if job.next == 0]
        self._watcher.batch(sum(count for _, count in batch), waited)

    def _next(self) -> list[_Piece]:
        """Wait for jobs and return those of the next batch; [] at the end."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._small or self._large or self._closed)
                if self._together > 1:
                    self._changed.wait_for(self._is_full, self._limits.batch_wait)
                if (batch := self._take()) or self._closed:
                    return batch

    def _jobs(self) -> int:
        return len(self._small) + len(self._large)

    def _is_full(self) -> bool:
        """Return whether the next batch need not wait. The thread asks between batches, when all counted rows wait."""
        return self._jobs() >= self._together or self._waiting >= self._limits.batch_rows or self._closed

    def _put_back(self, job: _Job) -> None:
        """Queue a job again behind those that came earlier. In front of them, it would be served before them again."""
        line, earlier = self._line_of(job), deque[_Job]()
        while line and line[0].arrived < job.arrived:
            earlier.append(line.popleft())
        line.appendleft(job)
        line.extendleft(reversed(earlier))

    def _line_of(self, job: _Job) -> deque[_Job]:
        """Return the line for small jobs, which are done at once, or that for large ones, which take several turns."""
        return self._large if len(job.rows) > self._limits.batch_rows else self._small

    def _take(self) -> list[_Piece]:
        """Remove the jobs of the next batch: the first one, and those that can be priced with it.

        Small and large jobs begin a batch in turn.
        """
        batch: list[_Piece] = []
        large_first = bool(self._large) and (self._turn_of_large or not self._small)
        self._turn_of_large = not large_first
        for line in (self._large, self._small) if large_first else (self._small, self._large):
            self._fill(batch, line)
        return batch

    def _fill(self, batch: list[_Piece], line: deque[_Job]) -> None:
        """Add jobs of a line to a batch while it has room; the others stay in order."""
        room, others = self._room(batch), deque[_Job]()
        while line and room:
            job = line.popleft()
            if job.done.cancelled():
                self._count(job, 0)
                self._watcher.waiting(self._waiting)
            elif not batch or job.kind == batch[0][0].kind:
                job.times.began = job.times.began or time.time_ns()
                batch.append((job, min(room, job.left)))
                room = self._room(batch)
            else:
                others.append(job)
        line.extendleft(reversed(others))

    def _room(self, batch: Sequence[_Piece]) -> int:
        """Return how many more rows a batch takes."""
        return self._limits.batch_rows - sum(count for _, count in batch)

    def _do(self, batch: Sequence[_Piece]) -> None:
        """Do the work of a batch. If it fails, each job is tried alone, so that none suffers from another."""
        try:
            self._try(batch)
        except BaseException as error:  # whatever a library raises, the thread goes on
            if len(batch) == 1:
                batch[0][0].error = error
                return
            for piece in batch:
                self._do([piece])

    def _try(self, batch: Sequence[_Piece]) -> None:
        parts = [job.rows.part(job.next, job.next + count) for job, count in batch]
        prices = self._price(joined(parts))
        ends = np.cumsum([len(part) for part in parts])[:-1]
        for (job, count), part in zip(batch, np.split(prices, ends), strict=True):
            job.prices.append(part)
            job.next += count


class CallQueue:
    """Calls functions in a thread of its own, in the order in which they come.

    Args:
        limit: the largest number of waiting calls.
        name: of the thread.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit, self._waiting, self._seconds = limit, 0, 0.0
        self._changed = threading.Lock()
        self._thread = ThreadPoolExecutor(1, name)

    def call(self, function: Callable[[int], Any], times: int) -> list[Future[Any]]:
        """Queue `function(0)` to `function(times - 1)`; return a future for each.

        Raises:
            RequestError: too many calls wait.
        """
        with self._changed:
            if self._waiting + times > self._limit:
                message = f"{self._waiting:,} rows wait to be explained or compared, and no more can wait; try later"
                seconds = math.ceil(max(1.0, self._waiting * self._seconds))
                raise RequestError(429, message, headers={"retry-after": str(seconds)})
            self._waiting += times
        futures = [self._thread.submit(self._timed, function, number) for number in range(times)]
        for future in futures:
            future.add_done_callback(self._ended)
        return futures

    def close(self) -> None:
        """End the thread once everything that waits is done."""
        self._thread.shutdown(wait=False)

    def _timed(self, function: Callable[[int], Any], number: int) -> Any:
        began = time.perf_counter()
        try:
            return function(number)
        finally:
            self._seconds = time.perf_counter() - began

    def _ended(self, future: Future[Any]) -> None:
        del future
        with self._changed:
            self._waiting -= 1
