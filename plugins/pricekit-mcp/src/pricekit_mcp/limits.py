"""Limits of a call."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pricekit.plugin import ConfigError


@dataclass(frozen=True)
class Limits:
    """Limits of each call of a tool.

    Attributes:
        max_rows: most rows of a table.
        max_bytes: most bytes of a table, and of a model.
        time_limit: seconds until a call is ended with all its processes.

    Raises:
        ConfigError: a limit is not above 0.

    Example:
        >>> Limits(max_rows=1000)
        Limits(max_rows=1000, max_bytes=1000000000, time_limit=600.0)
    """

    max_rows: int = field(default=100_000, metadata={"help": "most rows of a table"})
    max_bytes: int = field(default=1_000_000_000, metadata={"help": "most bytes of a table, and of a model"})
    time_limit: float = field(
        default=600.0, metadata={"help": "time until a call is ended with all its processes"}
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            if not (value := getattr(self, each.name)) > 0:
                raise ConfigError(
                    f"{each.name} is {value!r}; expected a number above 0", parameters=(each.name,)
                )
