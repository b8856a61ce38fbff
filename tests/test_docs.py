"""The documents name existing files, commands and options, and docs/architecture.md describes every folder."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pricekit.cli.main import COMMANDS, PACKAGES, cli
from pricekit.core.registry import KINDS
from pricekit.metrics import METRICS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "plugins").glob("*/README.md")),
    ROOT / "examples" / "README.md",
]
NAMES = [d.relative_to(ROOT).as_posix() for d in DOCUMENTS]


def _commands(document: Path, start: str) -> list[list[str]]:
    """Return the command lines in a document's code blocks that begin with a word, split like in a shell."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", document.read_text("utf-8"), re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    parts = [part for line in lines for part in re.split(r"&&|\|", line)]
    return [shlex.split(p, comments=True) for p in parts if p.strip().startswith(start)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_have_existing_targets(document):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_addresses_of_other_sites_are_well_formed(document):
    for address in re.findall(r"\]\((https?:[^)]*)\)", document.read_text("utf-8")):
        assert re.fullmatch(r"https?://[\w.-]+\.\w+(/[^\s<>\"]*)?", address), address


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_commands_exist_with_their_options(document):
    for _, name, *arguments in _commands(document, "pricekit "):
        assert name in {*COMMANDS, *PACKAGES}, name
        if name in PACKAGES:  # its package need not be installed; its own tests check the options
            continue
        command: click.Command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            command = command.commands[arguments[0]]
        options = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
        for flag in (a.split("=")[0] for a in arguments if a.startswith("--")):
            assert flag in {*options, "--help"}, f"{name} {flag}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_scripts_and_sessions_exist(document):
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M)
    for words in _commands(document, "python"):
        if "nox" in words and "-s" in words:
            assert words[words.index("-s") + 1] in sessions
        for script in (w for w in words if w.endswith(".py")):
            assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_commands_install_the_packages_of_this_project_from_its_sources(document):
    """So they are true before the packages are in an index, and after it. An extra needs only an installed pricekit."""
    for words in _commands(document, "pip install"):
        for word in words:
            assert not re.fullmatch(r"pricekit(-\w+(\[.*\])?)?", word), words
            assert not word.startswith("./") or (ROOT / word.partition("[")[0]).is_dir(), words


def test_the_documents_contain_commands():
    assert len(_commands(ROOT / "README.md", "pricekit ")) >= 4
    assert _commands(ROOT / "README.md", "python3 -m pip install nox") == [
        ["python3", "-m", "pip", "install", "nox"]
    ]


def test_the_architecture_names_every_room_and_kind():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = [
        p
        for p in (ROOT / "src" / "pricekit").iterdir()
        if not p.name.startswith("_") and p.suffix != ".typed"
    ]
    assert [p.name for p in rooms if f"{p.stem}" not in text] == []
    assert [kind for kind in KINDS if f"| {kind} |" not in text] == []


def test_every_hook_and_its_argument_are_documented():
    from pricekit.core import hookspecs

    for hook in KINDS.values():
        doc = getattr(hookspecs, hook).__doc__
        assert re.search(r"see `pricekit\.plugin\.\w+`", doc)
    assert "register(" in hookspecs.__doc__


def test_the_glossary_is_alphabetical_and_linked():
    lines = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert terms == sorted(terms, key=str.casefold)
    assert "glossary.md" in (ROOT / "README.md").read_text("utf-8")
    assert "glossary.md" in (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_page_on_training_lists_every_metric_with_its_loss():
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `(\w+)`.*\| `([\w-]+)`[^|`]*\|$", text.partition("| metric | formula | loss |")[2], re.M
    )
    assert rows == [(metric.name, metric.loss) for metric in METRICS.values()]


def test_the_site_lists_every_document():
    """Otherwise nobody finds the page: add it to a toctree of docs/index.md."""
    index = ROOT / "docs" / "index.md"
    blocks = re.findall(r"^```{toctree}\n(.*?)^```", index.read_text("utf-8"), re.M | re.S)
    entries = [line.rpartition("<")[2].rstrip(">") for block in blocks for line in block.splitlines()]
    listed = {
        path.resolve()
        for entry in entries
        if entry and entry[0] != ":"
        for path in index.parent.glob(f"{entry}.md")
    }
    assert [
        name for name, document in zip(NAMES, DOCUMENTS, strict=True) if document not in {*listed, index}
    ] == []


def test_the_messages_that_troubleshooting_quotes_are_in_the_sources():
    quotes = re.findall(r"^> (.+)$", (ROOT / "docs" / "troubleshooting.md").read_text("utf-8"), re.M)
    assert len(quotes) > 20
    sources = [ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "src").rglob("*.py"))]
    texts = [re.sub(r"\s+", " ", text) for source in sources for text in _texts(source)]
    for quote in quotes:
        pattern = re.compile(".*".join(re.escape(part) for part in quote.split("…")))
        assert any(pattern.search(text) for text in texts), quote


def _texts(source: ast.Module) -> Iterator[str]:
    """Yield the strings of a module, with `…` for each value that is filled in."""
    for node in ast.walk(source):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
