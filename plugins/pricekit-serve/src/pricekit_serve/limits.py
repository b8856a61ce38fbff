"""Limits of a server: sizes of requests, of batches and of the queue, and times."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pricekit.plugin import ConfigError


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        max_bytes: the most bytes of a request's body.
        max_rows: the most rows of a request.
        batch_rows: the most rows that are priced together.
        batch_wait: the most seconds that a batch waits for rows of other requests while several requests come at a
            time. A row that comes alone never waits.
        queue_rows: the most rows that wait to be priced; more are answered with 503.
        timeout: seconds until a request that is not answered is given up.

    Raises:
        ConfigError: a limit is not above 0, or the queue has no room for the largest request.

    Example:
        >>> Limits(max_rows=100).batch_rows
        256
    """

    max_bytes: int = 10_000_000
    max_rows: int = 10_000
    batch_rows: int = 256
    batch_wait: float = 0.003
    queue_rows: int = 20_000
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0 and not (field.name == "batch_wait" and value == 0):
                raise ConfigError(
                    f"{field.name} is {value!r}; expected a number above 0", parameters=(field.name,)
                )
        if self.queue_rows < self.max_rows:
            raise ConfigError(
                f"queue_rows is {self.queue_rows:,}, and a request may have {self.max_rows:,} rows; expected room for "
                "at least one such request",
                parameters=("queue_rows", "max_rows"),
            )


EXPLAINED_ROWS = 16
"""The most rows of a request that are explained or compared; each takes as long as dozens of prices."""

COMPARABLES = 100
"""The most comparables of a row."""
