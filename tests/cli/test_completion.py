"""Completion of commands, options and values."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from pricekit.cli.main import COMMANDS, cli, installed


@pytest.fixture
def completed(capsys):
    """Return the completions of the last word, and check that nothing is printed."""

    def complete(*words):
        *before, typed = map(str, words)
        found = ShellComplete(cli, {}, "pricekit", "_PRICEKIT_COMPLETE").get_completions(before, typed)
        assert capsys.readouterr() == ("", "")
        return [item.value for item in found]

    return complete


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text("sku;title;unit price\n1;Tea;2,50\n2;Oil;3,50\n")
    return path


def test_commands_and_options(completed):
    assert completed("") == [*COMMANDS, *installed()]
    assert completed("tr") == ["train"]
    assert completed("train", "--poli") == ["--policy"]


@pytest.mark.parametrize(
    ("option", "typed", "expected"),
    [
        ("--policy", "qu", ["quick"]),
        ("--backbone", "ba", ["bag"]),
        ("--metric", "m", ["mape", "mdape", "mae", "medae"]),
        ("--loss", "", ["focal-smape", "log-huber", "log-l1", "log-l2", "mape", "pinball", "smape"]),
        ("--features", "fast", ["fast15"]),
        ("--features", "fast15,ultra", ["fast15,ultra25"]),
    ],
)
def test_plugins(completed, option, typed, expected):
    assert completed("train", option, typed) == expected


def test_engines(completed):
    assert {"auto", "ort-cpu"} <= set(completed("predict", "bundle", "new.csv", "--engine", ""))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--set", "train"], ["training."]),
        (["--set", "training.epo"], ["training.epochs="]),
        (["--set", "max_le"], ["max_length="]),
        (["--set", "backbone.wid"], ["backbone.width="]),
        (["--loss", "focal-smape", "--set", "loss.g"], ["loss.gamma="]),
        (["--set", "training.epochs=1"], []),
    ],
)
def test_keys_of_settings(completed, words, expected):
    assert completed("train", *words) == expected


def test_columns_of_the_table(completed, shop):
    assert completed("train", shop, "--text", "") == ["sku", "title", "unit price"]
    assert completed("train", shop, "--text", "title,s") == ["title,sku"]
    assert completed("check", shop, "--price", "un") == ["unit price"]
    assert completed("predict", "bundle", shop, "--id", "s") == ["sku"]


def test_columns_of_the_table_of_the_project_file(completed, shop, monkeypatch):
    monkeypatch.chdir(shop.parent)
    (shop.parent / "pricekit.toml").write_text('table = "shop.csv"\n')
    assert completed("train", "--price", "un") == ["unit price"]


@pytest.mark.parametrize("table", ["none.csv", "."])
def test_an_unreadable_table_offers_no_completions(completed, table):
    assert completed("train", table, "--text", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_on_stdout(pricekit, shell):
    code, out, err = pricekit("completion", shell)
    assert (code, err) == (0, "")
    assert f"_PRICEKIT_COMPLETE={shell}_complete" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_works_in_bash(pricekit, shop, tmp_path):
    script = pricekit("completion", "bash")[1]
    program = tmp_path / "pricekit"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from pricekit.cli.main import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    typed = f"COMP_WORDS=(pricekit train {shop} --price un) COMP_CWORD=4"
    # `complete` and `compopt` work in interactive shells only
    source = f"{script}\n{typed}; _pricekit_completion pricekit; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = subprocess.run(
        ["bash", "-c", source], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert found.stdout.splitlines() == ["unit price"], found.stderr
