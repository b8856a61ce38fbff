"""DeBERTa's relative positions: sliced to the reachable ones in training, looked up by distance in the exported graph.

    python benchmarks/deberta.py [--repeats 9] [--batch 8]
    python benchmarks/deberta.py --graph [--precision fp16] [--engine openvino]

Forward passes alternate with those of the library's own implementation. The weights of deberta-v3-small are random, in
float32; --graph measures the exported graph in an engine. The last column is the largest difference of the outputs
(for prices, the relative difference).
"""

import argparse
import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from speed.timing import Run, interleaved, ratio

from pricekit.cli.terminal import show_table
from pricekit.config import HeadConfig
from pricekit.core.contracts import Graph, PriceBatch
from pricekit.core.loader import registry
from pricekit.export.graph import export_graph
from pricekit.export.precision import convert
from pricekit.nets.encoder import TransformerEncoder
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.nets.transformer import DEBERTA_V3_SMALL, export_by_distance, family_of, slice_positions

LENGTHS = (32, 64, 128, 256)


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--graph", action="store_true", help="the exported graph, not torch")
    parser.add_argument("--precision", choices=["fp32", "fp16", "int8"], default="fp32")
    parser.add_argument("--engine", default="ort-cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    family = family_of("deberta-v2")
    whole = family.model(family.config.from_dict(dict(DEBERTA_V3_SMALL.numbers))).eval()
    twin = copy.deepcopy(whole)
    if options.graph:
        export_by_distance(twin, max(LENGTHS))
        title, ways = f"{options.precision}, {options.engine}", ("by element", "by distance")
        priced = [_priced(model, options) for model in (whole, twin)]
        rows = [_graphs(priced, length, options) for length in LENGTHS]
    else:
        slice_positions(twin)
        title, ways = "forward", ("whole", "sliced")
        rows = [_forward(whole, twin, length, options) for length in LENGTHS]
    headers = ["tokens", *(f"{way}, s" for way in ways), "times", "largest difference"]
    show_table(f"deberta-v3-small, {title}", headers, rows, stderr=False)


def _forward(
    whole: torch.nn.Module, sliced: torch.nn.Module, length: int, options: argparse.Namespace
) -> list[str]:
    ids = torch.randint(3, 1000, (options.batch, length))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        difference = (whole(**inputs).last_hidden_state - sliced(**inputs).last_hidden_state).abs().max()
        return _row(length, lambda: whole(**inputs), lambda: sliced(**inputs), float(difference), options)


def _priced(model: Any, options: argparse.Namespace) -> PriceBatch:
    """Export a model and load the graph."""
    torch.manual_seed(0)  # the same heads
    priced = PriceModel(TransformerEncoder(model, "mean"), HeadConfig(), smape(), 1)
    example = _batch(2, 16)
    with tempfile.TemporaryDirectory() as folder:
        export_graph(priced, example, Path(folder) / "m.onnx")
        graph = (Path(folder) / "m.onnx").read_bytes()
        converted = convert(graph, options.precision, [example])
        loaded = Graph(converted.model, 512, 1, Path(folder))
        price: PriceBatch = registry().create("engine", options.engine).load(loaded)
    return price


def _graphs(priced: list[PriceBatch], length: int, options: argparse.Namespace) -> list[str]:
    batch = _batch(options.batch, length)
    one, two = (price(batch) for price in priced)
    difference = float(np.max(np.abs(one - two) / one))
    return _row(length, lambda: priced[0](batch), lambda: priced[1](batch), difference, options)


def _batch(rows: int, length: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(length).integers(3, 1000, (rows, length))
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "features": np.zeros((rows, 1), np.float32),
    }


def _row(length: int, one: Run, two: Run, difference: float, options: argparse.Namespace) -> list[str]:
    times = interleaved({"one": one, "two": two}, options.repeats)
    seconds = [f"{times[name].median:.3f}" for name in ("one", "two")]
    return [str(length), *seconds, f"{ratio(times['one'], times['two']):.2f}", f"{difference:.1g}"]


if __name__ == "__main__":
    main()
