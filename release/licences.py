"""List the licences of the packages in this environment; fail for one that is unknown or has stronger conditions.

python release/licences.py
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions

ACCEPTED = (
    "apache",
    "bsd",
    "bsl",
    "cc0",
    "cnri",
    "hpnd",
    "isc",
    "lgpl",
    "mit",
    "mpl",
    "psf",
    "public domain",
    "python",
    "unlicense",
    "zlib",
)
"""Words of licences that let others use and pass on the package, unchanged, beside code of any licence."""

_NAMED = re.compile(rf"(?<![a-z])({'|'.join(ACCEPTED)})(?![a-uw-z]|v[a-z])", re.IGNORECASE)
"""One of these words. Digits and versions may touch it, as in 0BSD and LGPLv3."""

_GPL = re.compile(r"(?<![a-z])a?gpl|(?<!lesser )general public licen[cs]e", re.IGNORECASE)
"""The GPL or the AGPL, but not the LGPL."""


def licence(package: Distribution) -> str:
    """Return what the metadata of a package say about its licence, "" if nothing."""
    facts = package.metadata
    if stated := facts["License-Expression"]:
        return str(stated)
    classifiers = [line for line in facts.get_all("Classifier", []) if line.startswith("License ::")]
    named = [line.rpartition(" :: ")[2] for line in classifiers if not line.endswith("OSI Approved")]
    return "; ".join(named) or (facts["License"] or "").strip().partition("\n")[0]


def accepted(text: str) -> bool:
    """Return whether a licence is accepted: each part of an expression has an alternative that is.

    Example:
        >>> accepted("MIT AND (Apache-2.0 OR GPL-3.0-only)"), accepted("GPL-3.0-only")
        (True, False)
    """
    parts = re.split(r"\bAND\b|;", text)
    return all(any(map(_accepted_alone, re.split(r"\bOR\b", part))) for part in parts)


def _accepted_alone(text: str) -> bool:
    return _NAMED.search(text) is not None and _GPL.search(text) is None


def main() -> None:
    """Print the table; raises SystemExit for a licence that is not accepted."""
    found = {package.metadata["Name"]: licence(package) for package in distributions()}
    for name, text in sorted(found.items(), key=lambda pair: pair[0].casefold()):
        print(f"{name:35} {text}")
    if wrong := sorted(name for name, text in found.items() if not accepted(text)):
        raise SystemExit(f"look at the licences of {', '.join(wrong)}")


if __name__ == "__main__":
    main()
