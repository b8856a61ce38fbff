"""A function in a new process: its result, its error, and its end."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from pricekit.errors import DataError, PluginError
from pricekit.io.new_process import in_new_process

NUMBERS = {"numbers": np.arange(3, dtype=np.float32)}


def doubles(facts, arrays):
    os.write(1, b"a library in C prints")
    print("a plugin prints")
    return [facts, os.getpid(), hash("tea"), [*map(str, Path().iterdir())]], {
        "doubled": 2 * arrays["numbers"]
    }


def fails(facts, arrays):
    raise facts_error(facts)


def facts_error(facts):
    return DataError("no tea") if facts == "ours" else KeyError(facts)


def leaves_a_process(facts, arrays):
    return subprocess.Popen(["sleep", "1000"]).pid, {}


def ends(facts, arrays):
    os._exit(facts)


def test_the_result_comes_from_another_process_with_another_hash():
    (facts, process, seed, files), arrays = in_new_process(
        f"{__name__}:doubles", {"tea": 1}, NUMBERS, elsewhere=True
    )
    assert facts == {"tea": 1}
    assert process != os.getpid()
    assert seed != hash("tea")
    assert files == []
    assert arrays["doubled"].tolist() == [0.0, 2.0, 4.0]
    assert arrays["doubled"].dtype == np.float32


@pytest.mark.parametrize(("facts", "message"), [("ours", "no tea"), ("tea", "KeyError: 'tea'")])
def test_an_error_of_the_function_is_told(facts, message):
    with pytest.raises(PluginError, match=f"^{message}$"):
        in_new_process(f"{__name__}:fails", facts, {})


def test_a_process_that_it_starts_ends_with_it():
    process, _ = in_new_process(f"{__name__}:leaves_a_process", None, {})
    command = Path(f"/proc/{process}/cmdline")
    end = time.monotonic() + 10
    while command.exists() and command.read_bytes() and time.monotonic() < end:
        time.sleep(0.01)
    assert not command.exists() or not command.read_bytes()


def test_a_process_that_ends_early_is_an_error():
    with pytest.raises(PluginError, match=r"ended without a result \(exit code 7\)"):
        in_new_process(f"{__name__}:ends", 7, {})
