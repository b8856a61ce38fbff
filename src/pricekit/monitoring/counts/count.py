"""From rows to counts in the bins of a sketch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from pricekit.monitoring.counts.model import (
    MOST_NEW_VALUES,
    MOST_NEW_WORDS,
    Counts,
    FieldCounts,
    Half,
    most_frequent,
)
from pricekit.monitoring.domain import Domain, vectors_of
from pricekit.monitoring.fields import BRAND, OWN, brands_of, fields_of
from pricekit.monitoring.make import is_unknown
from pricekit.monitoring.rows import ComparedRows
from pricekit.monitoring.sketch import Sketch, three_digits
from pricekit.monitoring.words import Documents, documents_of
from pricekit.preprocess import Preprocessor


@dataclass(frozen=True)
class Priced:
    """What the model makes of N rows.

    Attributes:
        features: float32 (N, K).
        tokens: of all rows, int32.
        predicted: prices, float32 (N,).
    """

    features: np.ndarray
    tokens: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True)
class Seen:
    """What is read from rows.

    Attributes:
        rows: the N rows.
        documents: their words.
        fields: their values by field, each (N,): the fields of the sketch that the rows have.
        priced: what the model makes of them; None if they lack columns.
        vectors: in the space in which training rows have mean 0, float64 (N, D); None if they were not priced.
    """

    rows: ComparedRows
    documents: Documents
    fields: dict[str, list[str]]
    priced: Priced | None
    vectors: np.ndarray | None


def see(
    sketch: Sketch, domain: Domain, rows: ComparedRows, names: Sequence[str], priced: Priced | None
) -> Seen:
    """Return what is read from rows; `names` are those of the K features."""
    documents = documents_of(rows.table.text.tolist() if rows.readable else [])
    vectors = None
    if priced is not None:
        scored = sketch.vector.features
        values = priced.features[:, [names.index(name) for name in scored]]
        vectors = domain.scaled(vectors_of(documents, values, [sketch.features[name] for name in scored]))
    return Seen(rows, documents, _read_fields(sketch, rows), priced, vectors)


def _read_fields(sketch: Sketch, rows: ComparedRows) -> dict[str, list[str]]:
    """Return the fields of the sketch that the table has, with their values."""
    labels = [name for name in sketch.fields if name not in (*OWN, *sketch.others)]
    found = fields_of(rows.table, sketch.others, labels)
    if BRAND in sketch.fields and sketch.fields[BRAND].values:
        found[BRAND] = brands_of(rows.table.text, sketch.label, sketch.fields[BRAND].values)
    if not rows.readable:
        found = {name: values for name, values in found.items() if name in sketch.others}
    kept = sketch.fields.keys() - set(rows.missing)
    return {name: values for name, values in found.items() if name in kept}


def count(sketch: Sketch, seen: Seen, preprocessor: Preprocessor, first: np.ndarray) -> Counts:
    """Return the counts of rows; those of rare names that the sketch lacks may be too low, as of `most_frequent`.

    Args:
        sketch: of the training table.
        seen: what was read from the N rows.
        preprocessor: of the model's first member.
        first: the rows of the first of two halves, bool (N,).
    """
    table, documents, priced = seen.rows.table, seen.documents, seen.priced
    readable = seen.rows.readable
    features = {} if priced is None else dict(_features(sketch, priced, preprocessor.features.names))
    predicted: list[int] = []
    if priced is not None and sketch.prices is not None:
        predicted = sketch.prices.predicted.count(three_digits(priced.predicted)).tolist()
    lengths = table.text.str.len().to_numpy(np.int64)
    tokens, unknown = (0, 0) if priced is None else _tokens(priced.tokens, preprocessor.tokenizer)
    vectors = seen.vectors
    words = dict(zip(documents.vocabulary, documents.rows.tolist(), strict=True))
    return Counts(
        rows=len(table),
        text_length=sketch.text_length.count(lengths).tolist() if readable else [],
        features=features,
        predicted=predicted,
        fields={name: _field(sketch, name, values) for name, values in seen.fields.items()},
        words=most_frequent(words, sketch.words, MOST_NEW_WORDS),
        word_pairs=len(documents.word),
        unknown_words=int(documents.outside(sketch.words).sum()),
        tokens=tokens,
        unknown_tokens=unknown,
        outside=0 if priced is None else _outside(sketch, priced, preprocessor.features.names),
        halves=[] if vectors is None else [Half.of(vectors[which]) for which in (first, ~first)],
    )


def _features(sketch: Sketch, priced: Priced, names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    for name, then in sketch.features.items():
        yield name, then.count(priced.features[:, names.index(name)]).tolist()


def _field(sketch: Sketch, name: str, values: Sequence[str]) -> FieldCounts:
    counts = Counter(values)
    filled = len(values) - counts.pop("", 0)
    known = sketch.fields[name].values
    named = most_frequent(counts, known, MOST_NEW_VALUES) if known else {}
    return FieldCounts(filled=filled, values=named)


def _tokens(ids: np.ndarray, tokenizer: Tokenizer) -> tuple[int, int]:
    unknown = is_unknown(ids, tokenizer)
    return (0, 0) if unknown is None else (len(ids), int(unknown.sum()))


def _outside(sketch: Sketch, priced: Priced, names: Sequence[str]) -> int:
    """Return the number of rows with a feature beyond the range of the training rows."""
    found = np.zeros(len(priced.features), bool)
    for name, then in sketch.features.items():
        found |= then.outside(priced.features[:, names.index(name)])
    return int(found.sum())
