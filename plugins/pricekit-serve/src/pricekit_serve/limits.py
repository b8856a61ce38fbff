"""Limits of a server: sizes of requests, of batches and of the queue, and times."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, fields
from typing import Any

from pricekit.plugin import ConfigError


def _limit(default: float | None, text: str, *, may_be_zero: bool = False) -> Any:
    """Return a field with the text that documents the attribute and the option of `pricekit serve`."""
    return field(default=default, metadata={"help": text, "may_be_zero": may_be_zero})


EXPLAINED_ROWS = 16
"""The most rows of a request that are explained or compared; each takes as long as dozens of prices."""

COMPARABLES = 100
"""The most comparables of a row."""


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes:
        ATTRIBUTES

    Raises:
        ConfigError: a limit is not above 0, or the queue has no room for the largest request.

    Example:
        >>> Limits(max_rows=100).batch_rows
        256
    """

    max_bytes: int = _limit(10_000_000, "most bytes of a request")
    max_rows: int = _limit(10_000, "most rows of a request")
    batch_rows: int = _limit(256, "most rows that are priced together")
    batch_wait: float = _limit(
        0.003,
        "longest time that a batch waits for rows of other requests while several requests come at a time; a row that "
        "comes alone never waits",
        may_be_zero=True,
    )
    queue_rows: int = _limit(20_000, "most rows that wait to be priced; more are answered with 503")
    queue_explanations: int = _limit(
        32, "most rows that wait to be explained or compared; more are answered with 429"
    )
    max_connections: int | None = _limit(
        None,
        "most open connections; if there are more, those that wait the longest are closed; default: 1,000, or fewer if "
        "the process may open fewer files",
    )
    timeout: float = _limit(
        30.0,
        "time for each step of a request: until it begins on a new connection, until its head is complete, then its "
        "body, then the prices, and until the client has read enough of the answer",
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and not value > 0 and not (each.metadata["may_be_zero"] and value == 0):
                raise ConfigError(
                    f"{each.name} is {value!r}; expected a number above 0", parameters=(each.name,)
                )
        if self.queue_rows < self.max_rows:
            raise ConfigError(
                f"queue_rows is {self.queue_rows:,}, and a request may have {self.max_rows:,} rows; expected room for "
                "at least one such request",
                parameters=("queue_rows", "max_rows"),
            )
        if self.queue_explanations < EXPLAINED_ROWS:
            raise ConfigError(
                f"queue_explanations is {self.queue_explanations:,}; expected room for at least {EXPLAINED_ROWS} rows, "
                "the most of a request",
                parameters=("queue_explanations",),
            )


def _attributes() -> str:
    lines = []
    for each in fields(Limits):
        unit = "; seconds" if each.type == "float" else ""
        text = f"{each.name}: {each.metadata['help']}{unit}."
        lines.append(textwrap.fill(text, 112, initial_indent=" " * 8, subsequent_indent=" " * 12))
    return "\n".join(lines).lstrip()


if Limits.__doc__:  # without `python -OO`
    Limits.__doc__ = Limits.__doc__.replace("ATTRIBUTES", _attributes())
