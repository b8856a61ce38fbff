"""Output on stderr: sentences at different levels, or JSON."""

import io
import json
import logging
import subprocess
import sys
import warnings

import pytest
from rich.console import Console
from rich.file_proxy import FileProxy

from pricekit.cli.terminal import logging_to_terminal, print_json, show_result, show_table
from pricekit.io.log import logger

TINY = (
    *("--set", "backbone.vocab_size=500", "--set", "backbone.buckets=64", "--set", "backbone.width=4"),
    *("--epochs", "1", "--max-length", "32", "--features", "fast15"),
)


def test_the_first_line_comes_before_any_heavy_import():
    code = (
        "import sys, pricekit.cli.terminal as t\n"
        "def begin(message, *_):\n"
        "    heavy = [m for m in ('torch', 'pandas', 'numpy', 'pydantic', 'rich') if m in sys.modules]\n"
        "    print(message, heavy, file=sys.stderr)\n"
        "    sys.exit(0)\n"
        "t.begin = begin\n"
        "sys.argv = ['pricekit', 'train', 'products.csv', '--out', 'run']\n"
        "from pricekit.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "reading products.csv []\n"


def test_quiet_prints_the_result_only(pricekit, catalog, tmp_path):
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run", *TINY, "--quiet")
    assert code == 0
    assert [line.split(",")[0].split(" ", 2)[:2] for line in err.splitlines()] == [
        ["validation", "SMAPE"],
        ["these", "metrics"],
        ["the", "run"],
    ]
    code, _, err = pricekit("train", "none.csv", "--out", tmp_path / "other", "--quiet")
    assert (code, err.count("\n"), err.startswith("pricekit: none.csv")) == (1, 1, True)


def test_verbose_prints_details(pricekit, monkeypatch):
    monkeypatch.setattr("pricekit.core.registry.Registry.of_kind", lambda *_: logger.debug("a detail") or [])
    assert "a detail" not in pricekit("plugins", "list")[2]
    assert "a detail" in pricekit("plugins", "list", "--verbose")[2]
    assert "a detail" in pricekit("plugins", "list", "-v")[2]
    assert "a detail" in pricekit("-v", "plugins", "list")[2]
    assert "a detail" not in pricekit("plugins", "list")[2]


def test_json_is_one_object_a_line(pricekit, catalog, tmp_path):
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run", *TINY, "--log-format", "json")
    assert code == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    assert [line["level"] for line in lines[-2:]] == ["result", "result"]
    assert lines[-1]["facts"] == {"run": str(tmp_path / "run")}


def test_python_warnings_are_json_too(capsys):
    show = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with logging_to_terminal():
            print_json()
            warnings.warn("old and\nnew", stacklevel=1)
        assert warnings.showwarning is show
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found["level"] == "warning"
    assert "old and\nnew" in found["message"]


def test_control_characters_are_escaped(capsys):
    with logging_to_terminal():
        logger.error("unknown column \x1b[2J\x9b31m")
        show_table("a \x1b]0;title\x07", ["fact"], [["\x1b[31mred [bold]"]])
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\x9b" not in err
    for shown in (r"unknown column \x1b[2J\x9b31m", r"a \x1b]0;title\x07", r"\x1b[31mred [bold]"):
        assert shown in err


def test_json_tables_have_a_row_for_each_line(pricekit, run):
    code, _, err = pricekit("evaluate", run, "--log-format", "json")
    assert code == 0
    tables = [json.loads(line) for line in err.splitlines() if "rows" in json.loads(line).get("facts", {})]
    assert tables[0]["facts"]["rows"][0] == {"metric": "rows", "value": "60"}


def test_json_errors_have_facts_and_parameters(pricekit, catalog, tmp_path):
    code, _, err = pricekit(
        "train", catalog, "--out", tmp_path / "run", "--text", "titel", "--log-format", "json"
    )
    line = json.loads(err.splitlines()[-1])
    assert (code, line["level"]) == (1, "error")
    assert "titel" in line["message"]


@pytest.mark.parametrize("option", [["--log-format", "json"], ["--log-format=json"]])
def test_json_also_applies_to_wrong_usage(pricekit, option):
    code, _, err = pricekit("train", "--epoch", "3", *option)
    assert code == 2
    assert json.loads(err)["level"] == "error"


def test_a_result_is_not_logged_as_an_error(capsys):
    with logging_to_terminal():
        show_result("done")
        logger.log(logging.ERROR, "not done")
    assert capsys.readouterr().err == "done\npricekit: not done\n"


def test_records_are_printed_above_a_progress_bar(monkeypatch):
    """While a bar is drawn, rich replaces sys.stderr. Output that bypasses it would garble the bar."""
    above, around = io.StringIO(), io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", FileProxy(Console(file=above), around))
    with logging_to_terminal():
        logger.info("epoch 1")
    around.flush()
    assert (above.getvalue(), around.buffer.getvalue()) == ("epoch 1\n", b"")
