"""Verification: the export fails unless the graph predicts the model's prices on real rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pricekit.core.contracts import Batch, PriceBatch
from pricekit.errors import ExportError
from pricekit.export.priced_once import PricedOnce
from pricekit.export.tensors import Stored, first_difference, token_count, worst_piece
from pricekit.features.preprocess import Inputs
from pricekit.io.causes import raise_outside_cause
from pricekit.io.cpus import usable_cpus
from pricekit.io.progress import tracked
from pricekit.metrics import smape
from pricekit.predict.loaded_engine import BATCH_SIZE, BATCH_TOKENS
from pricekit.predict.ort import EMBEDDING, load_cpu
from pricekit.text.tokens import batches_by_length
from pricekit.wording import counted, shorten

BATCH_SIZES = (1, 2, 7, 64)
LENGTHS = (1, 2, SHORT := 17, 128)
SMALLEST_LARGE = 8
"""Rows that a large batch has at least, however long they are: more than the small batches."""

SINGLE_ROWS = 64
"""Rows that are also priced one by one, to measure batch sensitivity."""


@dataclass(frozen=True)
class Limits:
    """The differences that a precision allows.

    Attributes:
        price: of a price from the model's price in torch float32, relative.
        smape: change of SMAPE on the sample rows, in points. A relative difference d of all prices changes it by at
            most 100·d, and rounding by less than that, because it has either sign.
        batch_sensitivity: of a row's price alone from its price in a batch, relative.
        embedding: of a row's embedding from that in torch float32: the distance relative to the mean length.
    """

    price: float
    smape: float
    batch_sensitivity: float
    embedding: float = 1e-4


LIMITS = {
    "fp32": Limits(1e-4, 2e-3, 1e-5, 1e-4),
    "fp16": Limits(2e-2, 0.05, 2e-2, 2e-2),
    "int8": Limits(0.5, 0.3, 1e-5, 0.2),
}


@dataclass(frozen=True)
class ShapeCheck:
    """The largest relative price difference for one batch shape.

    Attributes:
        rows: of the batch.
        length: of the batch, in tokens.
        difference: relative; infinite if a price is not finite or not positive.
    """

    rows: int
    length: int
    difference: float


@dataclass(frozen=True)
class VerificationReport:
    """The differences between an exported graph and its model.

    Attributes:
        checks: one for each batch shape.
        row_difference: largest relative price difference of a sample row.
        smape_change: in points, on the sample rows; 0 if these have no prices.
        batch_sensitivity: largest relative difference between a row's price alone and in a batch.
        batch_sensitivity_share_of_sd: the same for log prices, as a share of their standard deviation over the rows.
        embedding_difference: largest distance of a row's two embeddings, relative to their mean length; None without.
    """

    checks: list[ShapeCheck]
    row_difference: float
    smape_change: float
    batch_sensitivity: float
    batch_sensitivity_share_of_sd: float
    embedding_difference: float | None = None

    @property
    def largest_difference(self) -> float:
        """The largest relative price difference of all rows and shapes."""
        return max(self.row_difference, *(check.difference for check in self.checks))


@dataclass(frozen=True)
class _Pair:
    """The model and the graph, as functions of a batch, and the rows on which they are compared.

    Attributes:
        reference: the model in torch.
        engine: the graph in ONNX Runtime.
        precision: of the graph.
        inputs: as of `Sample`.
        max_length: as of `Sample`.
    """

    reference: PriceBatch
    engine: PricedOnce
    precision: str
    inputs: Inputs
    max_length: int

    @property
    def limits(self) -> Limits:
        return LIMITS[self.precision]

    def failure(self, what: str) -> ExportError:
        advice = (
            "either an operation of the backbone or of the loss is exported inexactly, which its author should know, "
            "or a feature that hardly varies magnifies the rounding of float32: leave that feature out"
        )
        return _failure(what, self.precision, advice)


def _failure(what: str, precision: str, advice: str) -> ExportError:
    """Return the error about a graph that differs; the advice is for fp32."""
    parameters = () if precision == "fp32" else ("precision",)
    advice = advice if precision == "fp32" else "export it as fp32"
    return ExportError(f"{what}. Nothing was published; {advice}", parameters=parameters, precision=precision)


@dataclass(frozen=True)
class Sample:
    """The rows on which a graph is compared with its model.

    Attributes:
        inputs: N real rows, at least one; few rows are repeated to fill a batch.
        max_length: the longest length to check, in tokens.
        price: true prices of the rows, (N,).
    """

    inputs: Inputs
    max_length: int
    price: np.ndarray | None = None


def verify_graph(
    reference: PriceBatch,
    graph: Stored,
    sample: Sample,
    precision: str = "fp32",
    *,
    float32: Path | None = None,
    engine: PricedOnce | None = None,
) -> VerificationReport:
    """Compare the graph in ONNX Runtime with the model in torch over many batch shapes and all sample rows.

    Args:
        reference: prices batches with the model in float32.
        graph: the contents of the exported file, or the file.
        sample: the rows.
        precision: of the graph; a key of `LIMITS`.
        float32: the graph before its conversion, to locate the first node that differs.
        engine: prices batches with the graph; None: the graph is loaded.

    Raises:
        ExportError: a difference exceeds its limit, a price is not finite or not positive, or the graph fails for a
            batch shape.
    """
    engine = engine or PricedOnce(lambda: load_cpu(graph, usable_cpus()))
    pair = _Pair(reference, engine, precision, sample.inputs, sample.max_length)
    checks = _check_shapes(pair, graph, float32)
    expected, actual = _check_rows(pair)
    price = sample.price
    change = 0.0 if price is None else abs(smape(expected, price) - smape(actual, price))
    if not change <= pair.limits.smape:
        raise pair.failure(
            f"the {precision} graph changes SMAPE on the run's sample rows by {change:.3g} points; the limit is "
            f"{pair.limits.smape:g}"
        )
    difference = float((np.abs(actual - expected) / expected).max())
    return VerificationReport(checks, difference, change, *_check_sensitivity(pair))


def verify_embeddings(
    expected: Sequence[np.ndarray], graph: Stored, batches: Sequence[Batch], precision: str
) -> float:
    """Compare the embeddings of the graph in ONNX Runtime with those of the model; return the largest difference.

    Args:
        expected: the model's embeddings of each batch in float32, each (B, H).
        graph: the contents of the exported file, or the file.
        batches: of real rows.
        precision: of the graph; a key of `LIMITS`.

    Raises:
        ExportError: a difference exceeds the limit.
    """
    embed, limits = load_cpu(graph, usable_cpus(), output=EMBEDDING), LIMITS[precision]
    advice = "an operation of the backbone is exported inexactly, which its author should know"
    scale = max(float(np.mean([_lengths(each).mean() for each in expected])), np.finfo(np.float32).tiny)
    worst = 0.0
    with tracked(f"verifying the {precision} graph: embeddings", batches, token_count) as left:
        for batch, correct in zip(left, expected, strict=True):
            distance = _lengths(embed(batch) - correct).max() / scale
            worst = max(worst, float(distance) if np.isfinite(distance) else np.inf)
    if worst > limits.embedding:
        raise _failure(
            f"the {precision} graph returns other embeddings than the model: distance up to {worst:.2g} of their mean "
            f"length, the limit is {limits.embedding:g}",
            precision,
            advice,
        )
    return worst


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(vectors.astype(np.float64), axis=1))


def fit_length(batch: Batch, length: int, pad_id: int) -> Batch:
    """Cut or pad a batch to a length in tokens."""
    missing = max(0, length - batch["input_ids"].shape[1])
    ids, mask = (
        np.pad(batch[name][:, :length], ((0, 0), (0, missing)), constant_values=fill)
        for name, fill in (("input_ids", pad_id), ("attention_mask", 0))
    )
    return {"input_ids": ids, "attention_mask": mask, "features": batch["features"]}


def shapes(inputs: Inputs, max_length: int) -> Iterator[Batch]:
    """Yield batches of real rows in every size and length, cut or padded to it, and in their own length.

    A batch of long rows has no more of them than `most_rows`.
    """
    for size in BATCH_SIZES:
        batch = inputs.batch(np.arange(size) % len(inputs))
        for length in sorted({min(n, max_length) for n in (*LENGTHS, max_length)}):
            yield fit_length(_first(batch, most_rows(length)), length, inputs.pad_id)
        yield _first(batch, most_rows(batch["input_ids"].shape[1]))


def most_rows(length: int) -> int:
    """Return the rows of a batch with `BATCH_TOKENS` tokens, or those of the smallest large one."""
    return max(SMALLEST_LARGE, BATCH_TOKENS // length)


def _first(batch: Batch, rows: int) -> Batch:
    return {name: array[:rows] for name, array in batch.items()}


def sample_batches(inputs: Inputs) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yield (row numbers, batch) for all rows: the first ones alone, the others in batches of similar length."""
    every = np.arange(len(inputs))
    for row in every[:SINGLE_ROWS]:
        yield every[row : row + 1], inputs.batch(every[row : row + 1])
    for rows in batches_by_length(inputs.tokens.lengths, every[SINGLE_ROWS:], BATCH_SIZE, BATCH_TOKENS):
        yield rows, inputs.batch(rows)


def _check_shapes(pair: _Pair, graph: Stored, float32: Path | None) -> list[ShapeCheck]:
    title = f"verifying the {pair.precision} graph: batch shapes"
    checks: list[ShapeCheck] = []
    batches = list(shapes(pair.inputs, pair.max_length))
    prices = pair.engine.each(batches)
    with tracked(title, batches, token_count) as left:
        for batch in left:
            rows, length = batch["input_ids"].shape
            expected = pair.reference(batch).astype(np.float64)
            try:
                actual = next(prices).astype(np.float64)
            except Exception as error:  # those of onnxruntime, which name the node
                raise_outside_cause(error)
                reason = shorten(str(error), 300)
                raise pair.failure(
                    f"the {pair.precision} graph cannot price {counted(rows, 'row')} of {counted(length, 'token')}: "
                    f"{reason}"
                ) from error
            usable = actual.shape == expected.shape and all(
                np.isfinite(p).all() and (p > 0).all() for p in (actual, expected)
            )
            difference = float(np.max(np.abs(actual - expected) / expected)) if usable else float("inf")
            checks.append(ShapeCheck(rows, length, difference))
    place = max(range(len(checks)), key=lambda one: checks[one].difference)
    worst, batch = checks[place], batches[place]
    limit = pair.limits.price
    if worst.difference <= limit:
        return checks
    failed = [check for check in checks if not check.difference <= limit]
    piece = worst_piece(batch, pair.reference(batch), pair.engine(batch))
    node = first_difference(float32, graph, piece, limit) if float32 else None
    where = f"; the first node that differs is {node.name} ({node.op_type})" if node else ""
    raise pair.failure(
        f"the exported {pair.precision} graph differs from the model at {len(failed)} of {len(checks)} shapes, most at "
        f"({worst.rows}, {worst.length}): relative difference {worst.difference:.2g}, the limit is {limit:g}{where}"
    )


def _check_rows(pair: _Pair) -> tuple[np.ndarray, np.ndarray]:
    """Return the prices of the model and of the graph for every row, float64 (N,)."""
    inputs = pair.inputs
    expected, actual = np.empty(len(inputs)), np.empty(len(inputs))
    title = f"verifying the {pair.precision} graph: sample rows"
    batches = list(sample_batches(inputs))
    prices = pair.engine.each([batch for _, batch in batches])
    with tracked(title, batches, lambda one: token_count(one[1])) as left:
        for (rows, batch), price in zip(left, prices, strict=True):
            expected[rows], actual[rows] = pair.reference(batch), price
    difference, limit = np.abs(actual - expected) / expected, pair.limits.price
    if not difference.max() <= limit:
        raise pair.failure(
            f"the {pair.precision} graph prices {int((~(difference <= limit)).sum())} of {len(inputs)} sample rows "
            f"differently from the model: relative difference up to {difference.max():.2g}, the limit is {limit:g}"
        )
    return expected, actual


def _check_sensitivity(pair: _Pair) -> tuple[float, float]:
    """Return how much a row's price depends on the other rows and the padding of its batch.

    Returns:
        The largest relative difference, and the largest difference of log prices as a share of their standard
        deviation.
    """
    max_length = pair.max_length
    rows = np.arange(min(SINGLE_ROWS, len(pair.inputs)))
    shuffled = np.random.default_rng(0).permutation(rows)
    single, short, size = list(rows[:, None]), min(SHORT, max_length), most_rows(max_length)
    pieces = [slice(start, start + size) for start in range(0, len(rows), size)]
    forms: list[tuple[list[np.ndarray], int | None]] = [
        (single, None),
        ([shuffled[piece] for piece in pieces], None),
        ([rows[piece] for piece in pieces], max_length),
        (single, short),
        ([rows], short),
    ]
    with tracked(
        f"verifying the {pair.precision} graph: rows alone and together", forms, lambda _: 1
    ) as left:
        alone, mixed, padded, few, many = [_prices(pair, parts, length) for parts, length in left]
    difference = np.abs(np.log([mixed / alone, padded / alone, many / few]))
    sensitivity, spread = float(np.expm1(difference.max())), float(np.log(alone).std())
    limit = pair.limits.batch_sensitivity
    if not sensitivity <= limit:
        raise pair.failure(
            f"in the {pair.precision} graph a row's price depends on the other rows of its batch: relative difference "
            f"{sensitivity:.2g}, the limit is {limit:g}"
        )
    return sensitivity, float(difference.max() / spread) if spread > 0 else 0.0


def _prices(pair: _Pair, parts: list[np.ndarray], length: int | None) -> np.ndarray:
    """Return the prices of rows 0 to N - 1 in these batches, float32 (N,); in their own length if `length` is None."""
    batches = [pair.inputs.batch(rows) for rows in parts]
    if length is not None:
        batches = [fit_length(batch, length, pair.inputs.pad_id) for batch in batches]
    prices = np.concatenate(list(pair.engine.each(batches)))
    return prices[np.concatenate(parts).argsort()]
