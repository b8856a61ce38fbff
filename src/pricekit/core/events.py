"""Telling observers what happens to a run; one that fails never stops it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

from pricekit.core.loader import registry
from pricekit.errors import PricekitError

_said: set[tuple[str, str]] = set()
"""Who has failed to observe what, of the run under way."""


def tell(event: str, **facts: Any) -> None:
    """Call the hook `pricekit_<event>` of every plugin that has one, with copies of the facts."""
    for impl in getattr(registry().manager.hook, f"pricekit_{event}").get_hookimpls():
        try:
            with redirect_stdout(sys.stderr):  # stdout is for data
                impl.function(**{name: deepcopy(facts[name]) for name in impl.argnames})
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())[:300]
            reason = said if isinstance(error, PricekitError) else f"{type(error).__name__}: {said}"
            _say_once(impl.plugin_name, event, reason)


@contextmanager
def observed_run(folder: Path, *, told: bool, **facts: Any) -> Iterator[dict[str, Any]]:
    """Tell that a run starts, and how it ended; what is put into the yielded dict are its facts at the end."""
    _said.clear()
    ended: dict[str, Any] = {}
    outcome = "failed"
    try:
        if told:
            tell("run_started", folder=folder, **facts)
        yield ended
        outcome = "finished"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        if told:
            tell("run_ended", folder=folder, outcome=outcome, facts=ended if outcome == "finished" else {})


def _say_once(plugin: str, event: str, reason: str) -> None:
    if (plugin, event) in _said:
        return
    _said.add((plugin, event))
    print(f"pricekit: {plugin} failed to observe {event}, which changes nothing: {reason}", file=sys.stderr)
