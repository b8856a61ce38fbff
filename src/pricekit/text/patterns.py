"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast


class _Pattern:
    """Compiles an expression when an attribute is first read, and keeps that attribute."""

    def __init__(self, expression: str | Callable[[], str], flags: int) -> None:
        self._expression, self._flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # such as those that copies and pickles look for
            raise AttributeError(name)
        text = self._expression if isinstance(self._expression, str) else self._expression()
        value = getattr(re.compile(text, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(expression: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` does, without compiling it yet: the words of all languages take 50 ms.

    Args:
        expression: the regular expression, or a function that returns it.
        flags: as of `re.compile`.

    Example:
        >>> lazy_pattern("[0-9]+").fullmatch("12")
        <re.Match object; span=(0, 2), match='12'>
    """
    return cast("re.Pattern[str]", _Pattern(expression, flags))
