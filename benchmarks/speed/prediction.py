"""Speed of prediction: the bundles of a run in each engine and precision, and other prediction loops."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import torch

from pricekit.config import SpeedConfig
from pricekit.core.loader import registry
from pricekit.errors import BundleError, ConfigError, ExportError, PluginError
from pricekit.export.export import export_run
from pricekit.export.graph import export_graph
from pricekit.features.preprocess import Inputs
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.model import opened_model
from pricekit.nets.inference import torch_engine
from pricekit.predict.engines import AUTO
from pricekit.predict.loaded_engine import LoadedEngine, for_each
from pricekit.predict.predictor import Predictor
from pricekit.runs.opened import LoadedRun as TrainedRun
from pricekit.runs.opened import open_run
from pricekit.table import Table, read_table
from pricekit.training.machine import DTYPES, choose_precision
from speed.timing import Run, Timed, interleaved, ratio
from speed.training import machine
from speed.workload import training_flops

LOOP_ROWS, PIPELINE_ROWS = 64, 16
"""Batch sizes of the plain loop and of transformers.pipeline; both keep the order of the file."""

SIZE = 2048
"""Rows and columns of the matrices whose product measures the machine's peak."""

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Line:
    """One contender: its share of the matrix products' peak, and how many times faster pricekit's fastest is."""

    name: str
    rows_per_second: float
    share: float | None
    times: float


@dataclass(frozen=True)
class Measured:
    """The result of a benchmark: the model alone over prepared batches, whole files, and facts."""

    model: list[Line]
    files: list[Line]
    facts: dict[str, float | str]


def measure(
    path: Path, source: Path, rows: int, precisions: Sequence[str], peers: Sequence[str], repeats: int
) -> Measured:
    """Export a run in each precision, and time the prediction of the first rows of a table.

    Raises:
        ConfigError: `pipeline` cannot run the backbone.
        ExportError: no precision can be exported.
    """
    run = open_run(path)
    if "pipeline" in peers:
        _check_pipeline(run)
    run.model.to(CPU)
    columns = replace(run.preprocessor.columns, price=None)
    table = read_table(source, columns, limit=rows, notices=logger.warning)
    inputs = run.preprocessor(table)
    products = {f"a matrix product, {name}": _product(name) for name in {"fp32", _best_precision()}}
    with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
        own = _predictors(_export(path, Path(folder), precisions))
        if not own:
            raise ExportError("no engine can run any of the bundles; see the reasons above")
        models = _model_runs(run, own, inputs) | products
        files = _file_runs(run, own, peers, table, Path(folder)) | {"": lambda: run.preprocessor(table)}
        with progress("timing", 2 * repeats) as advance:
            model_times = interleaved(models, repeats, after_round=lambda: advance(1))
            file_times = interleaved(files, repeats, after_round=lambda: advance(1))
    flops = training_flops(run.model) / 3 * float(inputs.tokens.lengths.sum())
    peaks = {name: 2 * SIZE**3 / model_times.pop(name).median for name in products}
    preparing = file_times.pop("")
    file_lines = _lines(file_times, own, len(table), None, 1.0)
    facts = _facts(inputs, preparing, file_times[file_lines[0].name], peaks)
    return Measured(_lines(model_times, own, len(table), flops, max(peaks.values())), file_lines, facts)


def _facts(
    inputs: Inputs, preparing: Timed, fastest: Timed, peaks: dict[str, float]
) -> dict[str, float | str]:
    return {
        "machine": machine(CPU),
        "rows": float(len(inputs)),
        "tokens of a row": float(inputs.tokens.lengths.mean()),
        "preparing, rows/s": len(inputs) / preparing.median,
        "preparing, share of the fastest": ratio(preparing, fastest),
        **{f"GFLOP/s of {name}": peak / 1e9 for name, peak in peaks.items()},
    }


def _export(path: Path, folder: Path, precisions: Sequence[str]) -> dict[str, Path]:
    """Return the verified bundles by precision; failures are logged and left out."""
    bundles = {}
    for precision in precisions:
        try:
            export_run(path, folder / precision, precision=precision)
            bundles[precision] = folder / precision
        except ExportError as error:
            logger.warning(f"{precision} is left out: {error}")
    return bundles


def _predictors(bundles: dict[str, Path]) -> dict[str, Predictor]:
    """Return the predictors by engine and precision; engines that cannot run a bundle are logged and left out."""
    found, reported = {}, set()
    for precision, bundle in bundles.items():
        for engine in [AUTO, *(entry.name for entry in registry().of_kind("engine"))]:
            try:
                opened = Predictor.load(bundle, engine)
            except (PluginError, BundleError) as error:
                if str(error) not in reported:
                    logger.warning(f"{engine}, {precision}, is left out: {error}")
                reported.add(str(error))
                continue
            name = f"{AUTO} ({opened.engine})" if engine == AUTO else engine
            found[f"{name}, {precision}"] = opened
    return found


def _model_runs(run: TrainedRun, predictors: dict[str, Predictor], inputs: Inputs) -> dict[str, Run]:
    def over(engine: LoadedEngine) -> Run:
        batches = [engine.batch(inputs, rows) for rows in engine.batches(inputs)][::-1]
        return lambda: for_each(engine.price_batch, batches, engine.streams)

    runs = {name: over(predictor.members[0].engine) for name, predictor in predictors.items()}
    runs["torch eager, fp32"] = over(LoadedEngine("torch", torch_engine(run.model)))
    if _best_precision() == "bf16":
        half = torch_engine(run.model, lambda: torch.autocast("cpu", torch.bfloat16))
        runs["torch eager, bf16"] = over(LoadedEngine("torch", half))
    return runs


def _file_runs(
    run: TrainedRun,
    predictors: dict[str, Predictor],
    peers: Sequence[str],
    table: Table,
    folder: Path,
) -> dict[str, Run]:
    source, out = folder / "table.csv", folder / "out.csv"
    table.frame.to_csv(source, index=False)

    def through(predictor: Predictor) -> Run:
        return lambda: opened_model(predictor).predict_file(source, out)

    runs = {name: through(predictor) for name, predictor in predictors.items()}
    if "loop" in peers:
        runs["plain ONNX Runtime loop, fp32"] = _plain_loop(run, table, source, out)
    if "pipeline" in peers:
        runs["transformers.pipeline, fp32"] = _pipeline(run, table, source, out)
    return runs


def _plain_loop(run: TrainedRun, table: Table, source: Path, out: Path) -> Run:
    """Run the graph as torch exports it: the whole table in memory, batches in its order, one after the other."""
    prepare, graph = run.preprocessor, out.with_name("plain.onnx")
    example = prepare(table.take(np.arange(2) % len(table)))
    export_graph(run.model, example.batch(np.arange(2)), graph, translations={})
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])

    def price() -> None:
        pd.read_csv(source)
        prices = []
        for start in range(0, len(table), LOOP_ROWS):
            inputs = prepare(table.take(np.arange(start, min(start + LOOP_ROWS, len(table)))))
            prices.append(session.run(["price"], dict(inputs.batch(np.arange(len(inputs)))))[0])
        pd.DataFrame({"id": table.ids, "price": np.concatenate(prices)}).to_csv(out, index=False)

    return price


def _check_pipeline(run: TrainedRun) -> None:
    if not hasattr(getattr(run.model.encoder, "model", None), "config"):
        raise ConfigError(
            f"transformers.pipeline cannot run the backbone '{run.config.backbone.name}'; remove the peer 'pipeline'"
        )


def _pipeline(run: TrainedRun, table: Table, source: Path, out: Path) -> Run:
    """Run the encoder's architecture with one output in `transformers.pipeline`: texts alone, no features."""
    import transformers

    library: Any = transformers
    inner = run.model.encoder.model
    config = type(inner.config).from_dict({**inner.config.to_dict(), "num_labels": 1})
    prepared = run.preprocessor
    pad_token = prepared.tokenizer.id_to_token(prepared.pad_id)
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_object=prepared.tokenizer, pad_token=pad_token, model_max_length=prepared.max_length
    )
    priced = library.TextClassificationPipeline(
        model=library.AutoModelForSequenceClassification.from_config(config).eval(),
        tokenizer=tokenizer,
        function_to_apply="none",
        device=CPU,
    )

    def price() -> None:
        pd.read_csv(source)
        found = priced(table.text.tolist(), batch_size=PIPELINE_ROWS, truncation=True)
        prices = np.exp([row["score"] for row in found])
        pd.DataFrame({"id": table.ids, "price": prices}).to_csv(out, index=False)

    return price


def _lines(
    times: dict[str, Timed], own: dict[str, Predictor], rows: int, flops: float | None, peak: float
) -> list[Line]:
    """Return the contenders: pricekit's fastest first, then the others by speed."""
    fastest = min((name for name in times if name in own), key=lambda name: times[name].median)
    return [
        Line(
            name,
            rows / timed.median,
            None if flops is None else flops / timed.median / peak,
            ratio(timed, times[fastest]),
        )
        for name, timed in sorted(times.items(), key=lambda pair: (pair[0] != fastest, pair[1].median))
    ]


def _product(precision: str) -> Run:
    """Return a product of large square matrices; it measures the machine's current peak, in turns with the models."""
    dtype = DTYPES.get(precision, torch.float32)
    left, right = (torch.randn(SIZE, SIZE, dtype=dtype) for _ in range(2))
    return lambda: left @ right


def _best_precision() -> str:
    return choose_precision(SpeedConfig(), CPU)
