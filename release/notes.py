"""The release notes of a version: its section of CHANGELOG.md.

python release/notes.py 0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    r"""Return the section of a version, without its title.

    A title names its version, and may say more: "## Unreleased: 0.2.0" or "## 0.2.0, unreleased".

    Args:
        changelog: the text of a changelog in Markdown, with a title of second level for each version.
        version: such as "0.2.0".

    Raises:
        ValueError: there is no such section, or it is empty.

    Example:
        >>> notes("# Changes\n\n## 0.2.0\n\n- New.\n\n## 0.1.0\n\n- First.\n", "0.2.0")
        '- New.\n'
    """
    _, *sections = re.split(r"^## ", changelog, flags=re.M)
    found = {title: body.strip() for title, _, body in (section.partition("\n") for section in sections)}
    for title, body in found.items():
        if version in re.findall(r"\d+\.\d+[\w.]*", title) and body:
            return body + "\n"
    raise ValueError(
        f"no section of the changelog describes version {version}; there are: {', '.join(found)}"
    )


if __name__ == "__main__":
    try:
        print(notes(CHANGELOG.read_text("utf-8"), sys.argv[1]), end="")
    except ValueError as error:
        raise SystemExit(str(error)) from None
