"""Look for known vulnerabilities of the packages in constraints.txt with pip-audit.

    python release/audit.py

Exit code 1 if there are any. If the service that knows them cannot be reached, or does not know the packages, this is
printed, and nothing was audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"


def verdict(dependencies: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """Return whether no package is vulnerable, and a summary.

    Args:
        dependencies: the packages in the JSON that pip-audit prints.

    Example:
        >>> verdict([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}])
        (True, '1 package audited, 0 vulnerable; 1 not audited: b')
    """
    audited = [each for each in dependencies if "vulns" in each]
    skipped = [each["name"] for each in dependencies if "vulns" not in each]
    wrong = [
        f"{each['name']} {each['version']} ({', '.join(v['id'] for v in each['vulns'])})"
        for each in audited
        if each["vulns"]
    ]
    summary = f"{len(audited)} package{'s' * (len(audited) != 1)} audited, {len(wrong)} vulnerable"
    if not audited:
        summary = "nothing was audited: the service does not know the packages, or cannot be reached"
    listed = f"; {len(skipped)} not audited: {', '.join(skipped)}" if skipped and audited else ""
    return not wrong, summary + "".join(f"\n  {each}" for each in wrong) + listed


def main() -> None:
    """Run pip-audit and print the summary."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(CONSTRAINTS),
        "--no-deps",
        "--disable-pip",
    ]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True)
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except ValueError:
        dependencies = []
        print(done.stderr.strip().rpartition("\n")[2], file=sys.stderr)
    good, summary = verdict(dependencies)
    print(summary)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
