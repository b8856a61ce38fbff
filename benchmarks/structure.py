"""Size and shape of the package: modules, tokens, names and imports.

    python benchmarks/structure.py [SOURCE]

Tokens are those of code, without comments and docstrings. Imports in functions and under `TYPE_CHECKING` count. An
arrow runs up if a module imports one of a higher layer in pyproject.toml. SOURCE is the folder `src` of another tree.
"""

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import networkx

from pricekit.cli.terminal import show_table

ROOT = Path(__file__).resolve().parents[1]
LAYOUT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, nargs="?", default=ROOT / "src")
    source = parser.parse_args().source.resolve()
    sys.path.insert(0, str(source))
    files = sorted(source.rglob("*.py"))
    imports = graph()
    names = Counter(path.name for path in files if path.name != "__init__.py")
    cycles = [sorted(each) for each in networkx.strongly_connected_components(imports) if len(each) > 1]
    up = arrows_up(imports, layers(source.parent / "pyproject.toml"))
    rows = [
        ["modules", f"{len(files):,}"],
        ["lines", f"{sum(path.read_text('utf-8').count(chr(10)) for path in files):,}"],
        ["tokens", f"{sum(map(tokens, files)):,}"],
        ["modules with one importer", str(sum(degree == 1 for _, degree in imports.in_degree()))],
        ["file names in several folders", str(sum(count > 1 for count in names.values()))],
        ["cycles of modules", str(len(cycles))],
        ["arrows that run up", str(len(up))],
    ]
    show_table("structure", ["what", "count"], rows, stderr=False)
    for cycle in cycles:
        print("cycle:", ", ".join(cycle))
    for importer, imported in up:
        print("up:", importer, "imports", imported)


def tokens(path: Path) -> int:
    """Return the number of tokens of a module, without comments and docstrings."""
    text = path.read_text("utf-8")
    docstrings = {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    return sum(
        token.type not in LAYOUT and token.start not in docstrings
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


def graph() -> networkx.DiGraph:
    """Return the graph of imports between the modules of the package."""
    found = grimp.build_graph("pricekit", exclude_type_checking_imports=False, cache_dir=None)
    return networkx.DiGraph(
        (importer, imported)
        for importer in found.modules
        for imported in found.find_modules_directly_imported_by(importer)
    )


def layers(project: Path) -> dict[str, int]:
    """Return the place of each package or module in the list of layers, from the highest, 0."""
    contracts = tomllib.loads(project.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    lines = next(each["layers"] for each in contracts if each["type"] == "layers")
    return {
        name.strip(): place for place, line in enumerate(lines) for name in line.replace(":", "|").split("|")
    }


def arrows_up(imports: networkx.DiGraph, places: dict[str, int]) -> list[tuple[str, str]]:
    """Return the imports of modules in a higher layer, importer first."""

    def place_of(module: str) -> int | None:
        return next((places[name] for name in (module, *_parents(module)) if name in places), None)

    return sorted(
        (importer, imported)
        for importer, imported in imports.edges
        if (low := place_of(importer)) is not None and (high := place_of(imported)) is not None and high < low
    )


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]


if __name__ == "__main__":
    main()
