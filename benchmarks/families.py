"""Size and speed of float16 graphs against float32 ones, for each tested family of encoders in each engine.

    python benchmarks/families.py [--family bert t5 ...] [--engine ort-cpu openvino] [--rounds 5] [--jobs 1]

Each family is an encoder of two layers, 384 wide, with random weights. It is trained for one epoch on 600 generated
products and exported in both precisions. Then all bundles price the same 400 products in turn. The ratio is that of the
rows/s in float16 to those in float32, the median of the rounds. Sizes are those of the graphs. A family whose export
is refused is named with the reason.
"""

import argparse
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pandas as pd

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.errors import ExportError

sys.path.append(str(Path(__file__).parents[1]))
from tests.nets.tiny_weights import KINDS, write_weights

PRECISIONS = ("fp32", "fp16")
SETTINGS = {"training.epochs": 1, "training.batch_size": 16}
ROWS = 400


def bundles_of(kind: str, times: int, folder: Path) -> dict[str, Path] | str:
    """Return a bundle of an encoder of a family, by precision; or why there is none."""
    bundles = {precision: folder / precision for precision in PRECISIONS}
    if all((path / "manifest.json").exists() for path in bundles.values()):
        return bundles
    folder.mkdir(parents=True, exist_ok=True)
    table = pk.make_catalog(600, seed=1)
    weights = write_weights(folder / "weights", kind, table["catalog_content"].tolist(), times)
    shared = {"policy": "blazing", "backbone": "encoder", "weights": weights, "max_length": 160}
    run = pk.train(table, out=folder / "run", overwrite=True, settings=SETTINGS, **shared)
    for precision, path in bundles.items():
        try:
            pk.load(run).export(out=path, precision=precision, overwrite=True)
        except ExportError as error:
            return str(error)
    return bundles


def ratio(bundles: dict[str, Path], engine: str, rows: pd.DataFrame, rounds: int) -> float:
    """Return rows/s in float16 divided by those in float32."""
    models = {name: pk.load(path, engine) for name, path in bundles.items()}
    for model in models.values():
        model.predict(rows[:50])
    found = []
    for _ in range(rounds):
        seconds = {}
        for name, model in models.items():
            began = time.perf_counter()
            model.predict(rows)
            seconds[name] = time.perf_counter() - began
        found.append(seconds["fp32"] / seconds["fp16"])
    return statistics.median(found)


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=list(KINDS), nargs="+", default=list(KINDS))
    parser.add_argument("--engine", nargs="+", default=["ort-cpu"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=12, help="as wide as the encoders of the tests")
    parser.add_argument("--jobs", type=int, default=1, help="bundles that are made at once")
    parser.add_argument("--folder", help="keeps the bundles, for the next time")
    given = parser.parse_args()
    rows, lines = pk.make_catalog(ROWS, seed=2).drop(columns="price"), []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or temporary
        with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
            made = [pool.submit(bundles_of, kind, given.times, Path(folder, kind)) for kind in given.family]
            found = {kind: bundles.result() for kind, bundles in zip(given.family, made, strict=True)}
        for kind, bundles in found.items():
            if isinstance(bundles, str):
                print(kind, bundles, flush=True)
                continue
            sizes = [(path / "model.onnx").stat().st_size / 1e6 for path in bundles.values()]
            ratios = [f"{ratio(bundles, engine, rows, given.rounds):.2f}" for engine in given.engine]
            lines.append([kind, *(f"{size:.1f}" for size in sizes), *ratios])
            print(*lines[-1], flush=True)
    headers = [
        "family",
        *(f"{name}, MB" for name in PRECISIONS),
        *(f"speed in {name}" for name in given.engine),
    ]
    show_table("float16 against float32", headers, lines, stderr=False)


if __name__ == "__main__":
    main()
