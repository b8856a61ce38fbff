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


def licence(package: Distribution) -> str:
    """Return what the metadata of a package say about its licence, "" if nothing."""
    facts = package.metadata
    if stated := facts["License-Expression"]:
        return str(stated)
    classifiers = [line for line in facts.get_all("Classifier", []) if line.startswith("License ::")]
    named = [line.rpartition(" :: ")[2] for line in classifiers if not line.endswith("OSI Approved")]
    return "; ".join(named) or (facts["License"] or "").strip().partition("\n")[0]


def accepted(text: str) -> bool:
    """Return whether a licence, or each part of an expression of licences, is accepted.

    Example:
        >>> accepted("MIT AND (Apache-2.0 OR GPL-3.0-only)"), accepted("GPL-3.0-only")
        (True, False)
    """
    parts = re.split(r"\bAND\b|;", text)
    return all(any(word in part.lower() for word in ACCEPTED) for part in parts)


def main() -> None:
    """Print the table; raises SystemExit for a licence that is not accepted."""
    found = {package.metadata["Name"]: licence(package) for package in distributions()}
    for name, text in sorted(found.items(), key=lambda pair: pair[0].casefold()):
        print(f"{name:35} {text}")
    if wrong := sorted(name for name, text in found.items() if not accepted(text)):
        raise SystemExit(f"look at the licences of {', '.join(wrong)}")


if __name__ == "__main__":
    main()
