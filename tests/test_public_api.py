"""The public names, their documentation, and the announcement of each change.

`public_api.json` holds the signatures of the last release. After a release: python tests/test_public_api.py VERSION
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pricekit

ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "tests" / "public_api.json"


def signatures(package: Any = pricekit) -> dict[str, str]:
    """Return the signature of each public function, class and method of a package, by dotted name."""
    found: dict[str, str] = {}
    for name in sorted(set(package.__all__) - {"__version__"}):
        thing = getattr(package, name)
        if inspect.ismodule(thing):
            found |= {f"{name}.{inner}": value for inner, value in signatures(thing).items()}
            continue
        found[name] = _signature(thing)
        if inspect.isclass(thing):
            members = inspect.getmembers(thing, lambda m: callable(m) or isinstance(m, property))
            own = [pair for pair in members if not pair[0].startswith("_") and _is_ours(pair[1])]
            found |= {f"{name}.{member}": _signature(value) for member, value in own}
    return found


def _is_ours(member: Any) -> bool:
    inner = member.fget if isinstance(member, property) else member
    return str(getattr(inner, "__module__", "")).startswith("pricekit")


def _signature(thing: Any) -> str:
    if isinstance(thing, property):
        return "property"
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "no signature"
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = ", ".join(
        f"{stars.get(p.kind, '')}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}")
        for p in parameters
    )
    return re.sub(r" at 0x[0-9a-f]+", "", shown)  # the address of a default that is a function


def test_a_change_of_a_public_signature_is_in_the_changelog():
    released = json.loads(RELEASED.read_text("utf-8"))
    now = signatures()
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased = text.partition("## Unreleased")[2].partition("\n## ")[0]
    announced = set(re.findall(r"`([\w.]+)", unreleased))
    changed = {name for name in now | released["names"] if now.get(name) != released["names"].get(name)}
    missing = sorted(
        name for name in changed if name not in announced and name.partition(".")[0] not in announced
    )
    assert not missing, f"announce these in CHANGELOG.md under Unreleased, in backticks: {missing}"


def test_every_public_name_has_a_docstring():
    for package in (pricekit, pricekit.plots):
        for name in set(package.__all__) - {"__version__"}:
            assert len((getattr(package, name).__doc__ or "").strip()) > 20, name


def test_public_names_are_documented():
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert [name for name in pricekit.__all__ if f"`{name}" not in page and name != "__version__"] == []
    pictures = (ROOT / "docs" / "plots.md").read_text("utf-8")
    assert [name for name in pricekit.plots.__all__ if f"`{name}" not in pictures] == []


if __name__ == "__main__":
    RELEASED.write_text(json.dumps({"version": sys.argv[1], "names": signatures()}, indent=1) + "\n", "utf-8")
