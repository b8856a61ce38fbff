"""Which settings a search may change, and within which range: `Search`, in the annotation of a pydantic field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class Search:
    """The range in which `tune` searches a setting. A setting without one keeps its value.

    It has one of three forms: an interval, some values, or a factor for numbers whose scale depends on the policy.

    Attributes:
        low: the least value; an int for a setting of whole numbers.
        high: the greatest value.
        log: search the logarithm; the least value is above 0.
        choices: the values: numbers, texts or booleans.
        times: at least 1: search the logarithm from the setting's own value divided by this number to its product.

    Example:
        >>> from typing import Annotated
        >>> from pydantic import BaseModel, Field
        >>> class Options(BaseModel):
        ...     rounds: Annotated[int, Search(100, 1000, log=True)] = Field(300, ge=1)
        ...     rate: Annotated[float, Search(times=3.0)] = Field(0.01, gt=0)
        >>> searched(Options)["rate"].interval(0.01)
        (0.0033333333333333335, 0.03)
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()
    times: float | None = None

    def __post_init__(self) -> None:
        interval = self.low is not None or self.high is not None
        if [interval, bool(self.choices), self.times is not None].count(True) != 1:
            raise ValueError("a Search has either low and high, or choices, or times")
        if interval and (self.low is None or self.high is None or not self.low < self.high):
            raise ValueError(f"a Search needs low < high; found {self.low} and {self.high}")
        if self.log and (self.low is None or self.low <= 0):
            raise ValueError("a Search with log needs low above 0")
        if self.times is not None and not (math.isfinite(self.times) and self.times > 1):
            raise ValueError(f"times is {self.times}; expected a number above 1")

    def __str__(self) -> str:
        """Return the range in a few characters, such as "100 to 1000, log"."""
        if self.choices:
            return ", ".join(map(str, self.choices))
        if self.times is not None:
            return f"1/{self.times:g} to {self.times:g} times"
        return f"{self.low:g} to {self.high:g}{', log' * self.log}"

    @property
    def logarithmic(self) -> bool:
        """Whether the logarithm is searched."""
        return self.log or self.times is not None

    def fits(self, value: Any) -> bool:
        """Return whether a setting that has this value can be searched; one that is disabled or `auto` cannot."""
        if self.choices:
            return value is None or isinstance(value, bool | int | float | str)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return value > 0 or not self.logarithmic

    def interval(self, value: float) -> tuple[float, float]:
        """Return the least and the greatest value, so that the setting's own value is in between; for no choices.

        They are ints if the setting's own value is an int.
        """
        if self.times is not None:
            low, high = value / self.times, value * self.times
        else:
            assert self.low is not None
            assert self.high is not None
            low, high = min(self.low, value), max(self.high, value)
        return (math.ceil(low), math.floor(high)) if isinstance(value, int) else (float(low), float(high))

    def ends(self, value: Any) -> tuple[Any, ...]:
        """Return the choices, or the least and the greatest value."""
        return self.values(value) if self.choices else self.interval(value)

    def values(self, value: Any) -> tuple[Any, ...]:
        """Return the choices, among them the setting's own value."""
        return self.choices if value in self.choices else (*self.choices, value)


def searched(model: type[BaseModel]) -> dict[str, Search]:
    """Return the range of each field of a model that declares one."""
    found = {}
    for name, field in model.model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Search):
                found[name] = mark
    return found
