"""The program works with closed, full and ASCII standard streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = f"{sys.executable} -m pricekit"
UGLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def shell(catalog, tmp_path):
    """Return a function that runs a line in a shell, and returns the exit code, stdout and stderr."""

    def run(line, **environment):
        done = subprocess.run(
            ["bash", "-c", line.replace("TABLE", str(catalog))],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout.decode("ascii", "replace"), done.stderr.decode("ascii", "replace")

    return run


def test_characters_that_the_terminal_lacks_are_escaped(shell, tmp_path):
    (tmp_path / "t.csv").write_text("title,price\n" + "größe 5 …,2\n" * 3, "utf-8")
    code, out, error = shell(f"{PROGRAM} check t.csv --limit 2", **UGLY)
    assert (code, "\\xf6\\xdfe" in out + error) == (0, True)


def test_closed_streams_are_discarded_and_not_mixed_into_files(shell, bundle, tmp_path):
    code = shell(f"{PROGRAM} predict {bundle} TABLE --engine ort-cpu --out f.csv >&- 2>&- <&-")[0]
    assert code == 0
    assert (tmp_path / "f.csv").read_text("utf-8").startswith("sample_id,")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stdout_is_named_and_a_full_stderr_stops_nothing(shell):
    code, _, error = shell(f"{PROGRAM} plugins list > /dev/full")
    assert (code, error.startswith("pricekit: standard output: No space left on device")) == (4, True)
    assert shell(f"{PROGRAM} check TABLE 2> /dev/full")[0] == 0


def test_too_little_address_space_is_one_paragraph(shell):
    code, _, error = shell(f"ulimit -v 1000000; {PROGRAM} train TABLE --out run")
    assert (code, "need 2.5 GB; raise the limit with ulimit -v" in error) == (1, True)
