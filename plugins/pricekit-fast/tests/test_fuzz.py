"""kernel.c with arbitrary arguments, under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz.c")
FLAGS = [
    "-std=gnu11",
    "-g",
    "-O1",
    "-fno-math-errno",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
SECONDS = os.environ.get("FUZZ_SECONDS", "3")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_no_function_leaves_its_arrays(tmp_path):
    built = subprocess.run(["cc", *FLAGS, FUZZER, "-o", tmp_path / "fuzz"], capture_output=True, text=True)
    if built.returncode and "san" in built.stderr:
        pytest.skip(f"the compiler has no sanitizers: {built.stderr}")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([tmp_path / "fuzz", SECONDS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "rounds from seed" in done.stdout
