"""The tutorials of docs/plugins run as written, and the reference describes every hook and contract."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from pricekit.cli.plugins import USE
from pricekit.core import hookspecs
from pricekit.core.registry import KINDS
from pricekit.datasets import make_catalog

FOLDER = Path(__file__).parents[1] / "docs" / "plugins"
TUTORIALS = [*USE, "observer", "source", "README"]
GENERATOR = runpy.run_path(str(FOLDER.parent / "site" / "plugin_pages.py"))
REFERENCE = GENERATOR["plugins_page"]()
INSTALLED = ("word-count",)
"""What the documents install: how that goes is the nox session `scaffold`."""


def _blocks(document: Path) -> list[tuple[str, str]]:
    """Return the code blocks in order: language and text."""
    return re.findall(r"^```(\w*)\n(.*?)^```", document.read_text("utf-8"), re.M | re.S)


@pytest.mark.examples
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_as_written(name, pricekit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_catalog(300, seed=5).to_csv("products.csv", index=False)
    commands = 0
    for language, text in _blocks(FOLDER / f"{name}.md"):
        if language == "python":
            file = re.match(r"# (\w+\.py)\n", text)
            assert file, text
            Path(file[1]).write_text(text)
        for line in text.splitlines() if language == "" else []:
            words = shlex.split(line)
            if words[0] != "pricekit" or any(word in line for word in INSTALLED):
                continue
            if words[1] == "train":  # seconds instead of a minute
                words += ["--quiet", *(() if "--epochs" in words else ("--epochs", "3"))]
            code, out, err = pricekit(*words[1:])
            commands += 1
            assert code == 0, (line, out, err)
    assert commands
    if name == "observer":
        assert len(Path("run/observers/smape.txt").read_text().splitlines()) == 2


def test_the_first_plugin_has_five_lines():
    (_, text), *_ = [block for block in _blocks(FOLDER / "README.md") if block[0] == "python"]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "from "))]
    assert len(lines) <= 5


def test_every_hook_and_argument_is_documented():
    hooks = GENERATOR["hooks"]()
    assert set(KINDS.values()) < set(hooks)
    for hook, arguments in hooks.items():
        (section,) = re.findall(rf"^### `{hook}`\n(.*?)^##", REFERENCE, re.M | re.S)
        for argument in arguments:
            assert argument == "register" or f"\n- `{argument}`: " in section, (hook, argument)


def test_every_member_of_a_contract_is_documented():
    for kind in KINDS:
        section_of_kind = rf"^### `{kind.title()}`\n(.*?)^(?:###? |\Z)"
        (section,) = re.findall(section_of_kind, REFERENCE + "\n## end", re.M | re.S)
        members = section.split("\n#### ")
        assert len(members) > 1
        assert all(len(re.sub(r"```.*?```", "", m, flags=re.S).strip().splitlines()) > 1 for m in members[1:])


def test_the_version_is_the_one_of_the_document():
    text = (FOLDER / "versions.md").read_text("utf-8")
    assert f"now {hookspecs.API}." in text
    assert f"pricekit_api = {hookspecs.API}\n" in text


def test_a_documented_name_exists():
    """Every `pricekit.x.y` that the tutorials name can be imported."""
    from importlib import import_module

    texts = [REFERENCE, *(document.read_text("utf-8") for document in FOLDER.glob("*.md"))]
    named = {name for text in texts for name in re.findall(r"`(pricekit(?:\.\w+)+)`", text)}
    assert len(named) > 8
    for name in named:
        module, _, attribute = name.rpartition(".")
        try:
            import_module(name)
        except ModuleNotFoundError:
            assert hasattr(import_module(module), attribute), name


def test_packages_that_the_documents_name_are_there():
    named = {n for f in FOLDER.glob("*.md") for n in re.findall(r"`plugins/([\w-]+)`", f.read_text("utf-8"))}
    assert {n for n in named if not (FOLDER.parents[1] / "plugins" / n / "pyproject.toml").is_file()} == set()
