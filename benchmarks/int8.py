"""8 bits: the fixed scales of `export --precision int8` against scales of each batch, and against float32.

    python benchmarks/int8.py RUN products.csv [--rows 256] [--repeats 7]

"of each batch" is ONNX Runtime's `quantize_dynamic`. Changes are those of log prices
from float32, in their standard deviations. Then follows how many times as fast as float32 a graph is: medians of
rounds in turn, processor time of one thread. The last column is the largest relative difference between a row's
price alone and in a batch of all rows, padded to the longest.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from speed.timing import Run, interleaved, ratio

from pricekit.cli.terminal import logging_to_terminal, show_table
from pricekit.core.contracts import Batch, PriceBatch
from pricekit.export.graph import export_graph
from pricekit.export.precision import convert
from pricekit.export.verify import fit_length, shapes
from pricekit.features.preprocess import Inputs
from pricekit.predict.loaded_engine import BATCH_SIZE, BATCH_TOKENS
from pricekit.predict.ort import OrtCpu, load_cpu
from pricekit.runs.opened import LoadedRun, open_run, read_sample
from pricekit.table import read_table
from pricekit.text.tokens import batches_by_length

SINGLE = 48
"""Rows that are timed one by one."""

HEADERS = [
    "",
    "MB",
    "change, rms",
    "largest",
    "batches of 256",
    "of 1,024 tokens",
    "single rows",
    "alone against batch",
]


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("table", type=Path, help="table with texts")
    parser.add_argument("--rows", type=int, default=256, help="rows [default: 256]")
    parser.add_argument("--repeats", type=int, default=7, help="rounds [default: 7]")
    options = parser.parse_args(arguments)
    with logging_to_terminal():
        run = open_run(options.run)
        columns = replace(run.preprocessor.columns, price=None)
        inputs = run.preprocessor(read_table(options.table, columns, limit=options.rows))
        rows = measure(_graphs(run), inputs, options.repeats)
    show_table(f"8 bits, {run.config.backbone.name}", HEADERS, rows, stderr=False)


def measure(graphs: dict[str, bytes], inputs: Inputs, repeats: int) -> list[list[str]]:
    """Return a row of the table for each graph; the first graph is the reference."""
    engines = {name: load_cpu(graph) for name, graph in graphs.items()}
    every = np.arange(len(inputs))
    small = batches_by_length(inputs.tokens.lengths, every, 256, OrtCpu.batch_tokens)
    work = [
        [inputs.batch(every[start : start + 256]) for start in range(0, len(inputs), 256)],
        [inputs.batch(rows) for rows in small],
        [inputs.batch(every[i : i + 1]) for i in range(min(SINGLE, len(inputs)))],
    ]
    times = [
        interleaved(
            {name: _over(engine, batches) for name, engine in engines.items()}, repeats, time.process_time
        )
        for batches in work
    ]
    reference = next(iter(graphs))
    expected = np.log(_prices(engines[reference], inputs))
    lines = []
    for name, engine in engines.items():
        change = (np.log(_prices(engine, inputs)) - expected) / expected.std()
        speeds = [f"{ratio(timed[reference], timed[name]):.2f}" for timed in times]
        size = f"{len(graphs[name]) / 1e6:.1f}"
        changes = [f"{np.sqrt(np.square(change).mean()):.4f}", f"{np.abs(change).max():.4f}"]
        lines.append([name, size, *changes, *speeds, f"{_sensitivity(engine, inputs):.1g}"])
    return lines


def _graphs(run: LoadedRun) -> dict[str, bytes]:
    inputs = run.preprocessor(read_sample(run))
    example = inputs.batch(np.arange(2) % len(inputs))
    batches = [*shapes(inputs, run.config.max_length), *(inputs.batch(rows) for rows in _batches(inputs))]
    with tempfile.TemporaryDirectory() as folder:
        exported, of_batch = Path(folder) / "model.onnx", Path(folder) / "dynamic.onnx"
        longest = max(2, example["input_ids"].shape[1])
        export_graph(run.model, fit_length(example, longest, inputs.pad_id), exported)
        graph = onnx.load(exported)
        del graph.graph.value_info[:]  # the exporter's shapes contradict those of the quantised graph
        quantize_dynamic(
            graph,
            of_batch,
            op_types_to_quantize=["MatMul", "Gemm"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        float32 = exported.read_bytes()
        return {
            "float32": float32,
            "of each batch": of_batch.read_bytes(),
            "fixed": convert(float32, "int8", batches).model,
        }


def _over(engine: PriceBatch, batches: Sequence[Batch]) -> Run:
    return lambda: [engine(batch) for batch in batches]


def _prices(engine: PriceBatch, inputs: Inputs) -> np.ndarray:
    found = np.empty(len(inputs))
    for rows in _batches(inputs):
        found[rows] = engine(inputs.batch(rows))
    return found


def _batches(inputs: Inputs) -> Iterator[np.ndarray]:
    return batches_by_length(inputs.tokens.lengths, np.arange(len(inputs)), BATCH_SIZE, BATCH_TOKENS)


def _sensitivity(engine: PriceBatch, inputs: Inputs) -> float:
    rows = np.arange(min(256, len(inputs)))
    alone = np.concatenate([engine(inputs.batch(rows[i : i + 1])) for i in rows])
    return float(np.abs(engine(inputs.batch(rows)) / alone - 1).max())


if __name__ == "__main__":
    main()
