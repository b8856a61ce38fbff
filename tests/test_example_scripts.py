"""Every script in examples/ runs as written, and its README names it."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_an_example_runs(script, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script.name, "--epochs", "1"])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())  # nothing is left behind


def test_the_readme_names_each_script():
    text = (FOLDER / "README.md").read_text("utf-8")
    assert [script.name for script in SCRIPTS if f"({script.name})" not in text] == []
