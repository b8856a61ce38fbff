"""What plugins print goes to stderr, and threads that they leave running are named."""

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

NOISY = """
import os
import threading
import numpy as np
from pricekit import plugin

print("import of the file")

@plugin.feature("noisy")
class Noisy(plugin.Feature):
    "the length of a text"
    names = ("noisy",)

    def transform(self, table, state):
        print("transform prints")
        os.write(1, b"a library in C prints\\n")
        return table.text.str.len().to_numpy(np.float32)[:, None]

@plugin.hookimpl
def pricekit_run_ended(folder):
    print("a hook prints")
"""

THREAD = """
import time

def poll():
    {body}

threading.Thread(target=poll, name="beat", daemon={daemon}).start()
"""

SMALL = ["--epochs", "2", "--no-refit", "--set", "backbone.width=8", "--set", "backbone.buckets=64"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return a function that runs the program in a process of its own, with the plugin file."""
    folder = tmp_path_factory.mktemp("noisy")

    def run(*arguments, more=""):
        (folder / "noisy.py").write_text(NOISY + more)
        words = [sys.executable, "-m", "pricekit", *map(str, arguments), "--plugin", str(folder / "noisy.py")]
        return subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)

    return run


@pytest.fixture(scope="module")
def noisy_bundle(program, catalog, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for words in (
        ["train", catalog, "--out", folder / "run", "--features", "noisy", *SMALL],
        ["export", folder / "run", "--out", folder / "bundle"],
    ):
        done = program(*words)
        assert (done.returncode in (0, 5), done.stdout) == (True, ""), done.stderr
        assert "transform prints" in done.stderr
    return folder / "bundle"


def test_a_csv_on_stdout_has_only_prices(program, noisy_bundle, catalog):
    done = program("predict", noisy_bundle, catalog, "--out", "-", "--engine", "ort-cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sample_id,")
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 400
    for line in ("import of the file", "transform prints", "a library in C prints"):
        assert line in done.stderr


def test_json_on_stdout_is_only_json(program, noisy_bundle, catalog, tmp_path):
    done = program("evaluate", noisy_bundle, catalog, "--json", "--limit", 50, "--engine", "ort-cpu")
    assert json.loads(done.stdout)["rows"] == 50, done.stderr
    assert "transform prints" in done.stderr


def test_in_one_process_python_prints_go_to_stderr(pricekit, tmp_path):
    (tmp_path / "mine.py").write_text(NOISY)
    code, out, err = pricekit("plugins", "show", "noisy", "--json", "--plugin", tmp_path / "mine.py")
    assert (code, json.loads(out)["name"]) == (0, "noisy")
    assert "import of the file" in err
    print("stdout is what it was before")


def test_a_thread_that_does_not_end_is_named_and_left(program):
    more = THREAD.format(body="threading.Event().wait()", daemon=False)
    more += "\nimport __main__\n__main__.THREAD_SECONDS = 2\n"
    done = program("plugins", "list", "--log-format", "json", more=more)
    assert done.returncode == 3  # a plugin failed
    message = json.loads(done.stderr.splitlines()[-1])["message"]
    assert message.endswith("noisy.py)")
    assert "exit code 3: 'beat' (poll in " in message
    assert "The program ends without them in 2 seconds" in message


def test_a_slow_thread_is_waited_for(program):
    more = THREAD.format(body="time.sleep(3), print('saved')", daemon=False)
    done = program("plugins", "list", "--json", more=more)
    assert done.returncode == 0
    assert json.loads(done.stdout)
    assert "threads of a plugin are still running" in done.stderr
    assert done.stderr.endswith("saved\n")


@pytest.mark.parametrize(
    "more",
    [
        THREAD.format(body="threading.Event().wait()", daemon=True),
        "\nthreading.Thread(target=print).start()\n",
        "\nfrom concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(2).submit(print).result()\n",
    ],
    ids=["daemon", "ended", "idle"],
)
def test_threads_that_do_not_hold_up_the_end_are_not_named(program, more):
    done = program("plugins", "list", more=more)
    assert (done.returncode, "still running" in done.stderr) == (0, False)
