"""Check `pricekit serve` against its own description, /openapi.json, with all checks of schemathesis.

    python -m venv contract && contract/bin/pip install schemathesis
    python benchmarks/serving_contract.py BUNDLE --schemathesis contract/bin/schemathesis

Exit code 1: an answer is not as described. schemathesis 4.32 or later is expected.

Two expectations are relaxed. 413 refuses a request as 422 does, and a described one if it is too large as a whole, such
as 17 rows with explanations. A described request to /v2/models/NAME/infer may get 400 or 422, because JSON Schema
cannot say that a tensor has as many texts as its shape says, that each column is there once, and what is binary.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from load.server import serving

CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "413"]
negative_data_rejection.expected-statuses = ["400", "404", "405", "413", "415", "422"]

[[operations]]
include-path-regex = "/infer$"

[operations.checks]
positive_data_acceptance.expected-statuses = ["2xx", "400", "413", "422"]
"""


def check(bundle: str, schemathesis: str, cases: int, seed: int) -> int:
    """Run schemathesis until it has made so many cases; print its summaries, and return how many runs failed."""
    failed, made = 0, 0
    with serving(bundle) as server, tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "schemathesis.toml")
        config.write_text(CONFIG)
        address = f"http://127.0.0.1:{server.port}/openapi.json"
        while made < cases:
            words = [
                schemathesis,
                "--config-file",
                str(config),
                "run",
                address,
                "--checks",
                "all",
                "--no-color",
            ]
            words += ["--seed", str(seed), "-n", "100", "--workers", "2", "--continue-on-failure"]
            done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
            generated = re.search(r"([\d,]+) generated", done.stdout)
            if generated is None:
                raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
            made += int(generated[1].replace(",", ""))
            seed += 1
            failed += done.returncode != 0
            print(done.stdout if done.returncode else f"{made:,} cases, no gap", flush=True)
        failed += sum("Traceback" in line for line in server.lines)
    return failed


def main() -> int:
    """Read the arguments, check, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle")
    parser.add_argument("--schemathesis", default="schemathesis", help="its program")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    return min(1, check(args.bundle, args.schemathesis, args.cases, args.seed))


if __name__ == "__main__":
    sys.exit(main())
