"""Coverage-guided fuzzing of everything that parses a stranger's bytes, for a bounded time.

    pip install atheris
    python -m tests.faults.fuzz 600                  # seconds, divided among all targets
    python -m tests.faults.fuzz 60 --target prices
    python -m tests.faults.fuzz --target prices --input crash-123    # one input again

atheris is no dependency of the tests. Inputs that break a requirement are written to the folder `crashes`.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"

INSTRUMENTED = (
    "pricekit.table",
    "pricekit.predict",
    "pricekit.features.preprocess",
    "pricekit.text.tokens",
)
"""Packages whose coverage guides the fuzzer."""

SECONDS_OF_INPUT = 10


@contextmanager
def _explained() -> Iterator[None]:
    """Allow pricekit's errors, if they are one paragraph."""
    from pricekit.errors import PricekitError
    from pricekit.wording import printable

    try:
        yield
    except PricekitError as error:
        if printable(str(error)) != str(error):
            raise AssertionError(repr(str(error))) from error


def prices(content: bytes) -> None:
    """Read each line as a price, all lines as one column."""
    import numpy as np
    import pyarrow as pa

    from pricekit.table import ReadOptions
    from pricekit.table.price_columns import parse_price, price_format

    lines = content.decode("utf-8", "ignore").split("\n")
    with _explained():
        column = pa.array(lines, pa.large_string())
        values, flaws = parse_price(column, price_format([column], ReadOptions()))
        assert len(values) == len(flaws) == len(lines)
        assert not np.isinf(values).any()
        assert not any(flaw and np.isfinite(value) for value, flaw in zip(values, flaws, strict=True))


def csv(content: bytes) -> None:
    """Read the bytes as a CSV file, in chunks and at once."""
    from pricekit.table import iter_table, read_table

    path = _folder() / "table.csv"
    path.write_bytes(content)
    with _explained():
        whole = len(read_table(path, notices=_ignore))
        assert sum(len(part) for part in iter_table(path, rows=2, notices=_ignore)) == whole


def manifest(content: bytes) -> None:
    """Read the bytes as the manifest of a bundle."""
    from pricekit.predict.bundle import open_bundle

    bundle = _bundle()
    (bundle / "manifest.json").write_bytes(content)
    with _explained():
        open_bundle(bundle)


def tokenizer(content: bytes) -> None:
    """Check the bytes as a tokenizer; one that passes must tokenise texts or say why not."""
    from pricekit.features.preprocess import load_preprocessor
    from pricekit.predict.limits import check_tokenizer
    from pricekit.text.tokens import encode

    with _explained():
        check_tokenizer(content, "the bundle")
        files = {"tokenizer.json": content, "preprocess.json": (GOLDEN / "preprocess.json").read_bytes()}
        loaded = load_preprocessor(files, GOLDEN)
        texts = ["Green tea, 20 count", "", "日本語 é", *(f"item {number}" for number in range(9))]
        for some in (texts[:3], texts):
            assert len(encode(loaded.tokenizer, some, 16, 0)) == len(some)


def graph(content: bytes) -> None:
    """Check the bytes as a graph."""
    from pricekit.predict.limits import check_graph

    with _explained():
        check_graph(content, "the graph")


TARGETS: dict[str, Callable[[bytes], None]] = {
    "prices": prices,
    "csv": csv,
    "manifest": manifest,
    "tokenizer": tokenizer,
    "graph": graph,
}

_SEEDS: dict[str, list[bytes]] = {
    "prices": ["$1,234.56\n1.234,56 €\n12 万円\nfree\n1 000 kr\n-5\n₹1,00,000\n5-7".encode()],
    "csv": [
        b'text,price\n"tea, green",1.5\ncoffee,"2"\n',
        b"text;price\r\na;1,5\r\n",
        b"text\tprice\n\0END\0\t2\n",
    ],
    "manifest": [(GOLDEN / "manifest.json").read_bytes()],
    "tokenizer": [(GOLDEN / "tokenizer.json").read_bytes()],
    "graph": [(GOLDEN / "model.onnx").read_bytes()[:4096]],
}

_made: dict[str, Path] = {}


def _folder() -> Path:
    if "folder" not in _made:
        _made["folder"] = Path(tempfile.mkdtemp(prefix="fuzz-"))
        atexit.register(shutil.rmtree, _made["folder"], ignore_errors=True)
    return _made["folder"]


def _bundle() -> Path:
    if "bundle" not in _made:
        _made["bundle"] = Path(shutil.copytree(GOLDEN, _folder() / "bundle"))
    return _made["bundle"]


def _ignore(message: str) -> None:
    """Read no notice."""


def fuzz(target: str, seconds: int, crashes: Path) -> None:
    """Fuzz one target in this process, which ends with the time or with the first failure."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        for module in INSTRUMENTED:
            import_module(module)
    corpus = _folder() / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(_SEEDS[target]):
        (corpus / str(number)).write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS_OF_INPUT}",
        "-max_len=20000",
        "-rss_limit_mb=4096",
        f"-artifact_prefix={crashes}/{target}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[target])
    atheris.Fuzz()


def main() -> None:
    """Fuzz the targets one after the other; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=int, nargs="?", default=300)
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--input", type=Path, help="run the target on this file only")
    options = parser.parse_args()
    if options.target and options.input:
        TARGETS[options.target](options.input.read_bytes())
        return
    if find_spec("atheris") is None:
        sys.exit(
            "atheris is not installed: pip install atheris (it has wheels for Linux and some versions of Python)"
        )
    crashes = Path("crashes").absolute()
    crashes.mkdir(exist_ok=True)
    if options.target:
        fuzz(options.target, options.seconds, crashes)
    command = [sys.executable, "-m", "tests.faults.fuzz", str(options.seconds // len(TARGETS)), "--target"]
    codes = {target: subprocess.run([*command, target], check=False).returncode for target in TARGETS}
    with suppress(OSError):
        crashes.rmdir()  # unless it holds inputs
    print(json.dumps(codes))
    sys.exit(any(codes.values()))


if __name__ == "__main__":
    os.environ.setdefault("PRICEKIT_LOAD_PLUGINS", "")
    main()
