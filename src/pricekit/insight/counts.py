"""Rows as counts in the bins of a sketch, which can be added up. They contain no row, but name words and values."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from pricekit.features.fit import some_rows
from pricekit.features.preprocess import Preprocessor
from pricekit.insight.domain import Domain, vectors_of
from pricekit.insight.fields import BRAND, TEXT_FIELDS, Documents, brands_of, documents_of, fields_of
from pricekit.insight.parts import formats_of, joined_texts, texts_of
from pricekit.insight.sketch import (
    BINS,
    HASHES,
    MOST_FEATURES,
    MOST_LABELS,
    MOST_OTHER_COLUMNS,
    MOST_SCORES,
    Count,
    Name,
    Sketch,
    Value,
    check_counts,
    three_digits,
)
from pricekit.insight.training_sketch import MOST_ROWS, SEED, is_unknown
from pricekit.io.packing import Strict
from pricekit.io.progress import progress
from pricekit.io.storage import Address
from pricekit.table import (
    DEFAULT_READ_OPTIONS,
    Columns,
    ReadOptions,
    Table,
    column_names,
    concat_tables,
    files_size,
    iter_files,
    iter_table,
    table_files,
)


@dataclass(frozen=True)
class ComparedRows:
    """The rows that are compared.

    Attributes:
        table: N rows; missing text columns are empty, and there are no prices if the table has no price column.
        count: the number of rows of the whole table.
        missing: columns that the model reads and the table lacks.
        readable: whether the table has at least one text column.
    """

    table: Table
    count: int
    missing: tuple[str, ...] = ()
    readable: bool = True


def rows_of(table: Table) -> ComparedRows:
    """Return the rows of a table that has all columns, or some of them if there are many."""
    return ComparedRows(table.take(some_rows(len(table), MOST_ROWS)), len(table))


def read_rows(
    source: Any,
    columns: Columns,
    others: Sequence[str] = (),
    *,
    required: Collection[str] = (),
    limit: int | None = None,
    read_options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> ComparedRows:
    """Read the rows of a file or a frame, and draw some if there are many, in bounded memory.

    Args:
        source: a file, a folder of Parquet files, a pattern, or a frame.
        columns: that are read.
        others: further columns that the model's features read.
        required: columns that must exist.
        limit: read only the first `limit` rows.
        read_options: how to read the table.

    Raises:
        DataError: the table cannot be read, has no rows, or lacks a required column.
    """
    files = table_files(source) if isinstance(source, Path | Address) else [source]
    names = column_names(files[0], read_options, columns)
    known = {*names, *required}
    present = tuple(name for name in columns.text if name in known)
    missing = [name for name in columns.text if name not in known]
    read = replace(
        columns,
        text=present or tuple(names[:1]),
        price=columns.price if columns.price in known else None,
    )
    if isinstance(source, Path | Address):
        size = files_size(files)
        tables = iter_files(files, read, limit=limit, read_options=read_options)
    else:
        size = 0
        tables = iter_table(source, read, limit=limit, read_options=read_options)
    table, count = _drawn(tables, size)
    if missing:  # of all text columns, those are empty
        frame = table.frame.reindex(columns=[*table.frame, *missing], fill_value="")
        texts = {name: texts_of(frame[name]) for name in columns.text}
        text = joined_texts(texts, formats_of(frame, columns))
        table = replace(table, frame=frame, text=text)
    lacking = (*missing, *(name for name in others if name not in names))
    return ComparedRows(table, count, lacking, bool(present))


def _drawn(tables: Iterable[Table], size: int) -> tuple[Table, int]:
    """Return all rows, or a random sample of `MOST_ROWS`, and the number of all rows.

    Each row gets a random number, and those with the lowest numbers are kept (reservoir sampling by keys).
    """
    rng, count, position = np.random.default_rng(SEED), 0, 0
    kept: list[Table] = []
    keys = np.empty(0)
    with progress("reading", max(1, size)) as advance:
        for table in tables:
            count += len(table)
            advance(table.position - position, f"{count:,} rows")
            position = table.position
            kept.append(table)
            keys = np.concatenate([keys, rng.random(len(table))])
            if len(keys) > 4 * MOST_ROWS:
                kept, keys = _lowest(kept, keys)
    if len(keys) > MOST_ROWS:
        kept, keys = _lowest(kept, keys)
    return concat_tables(kept), count


def _lowest(tables: list[Table], keys: np.ndarray) -> tuple[list[Table], np.ndarray]:
    chosen = np.sort(np.argpartition(keys, MOST_ROWS)[:MOST_ROWS])
    return [concat_tables(tables).take(chosen)], keys[chosen]


def describe_rows(rows: ComparedRows) -> list[str]:
    """Return sentences about rows that were left out, and about columns that are missing."""
    sentences = []
    if rows.count > len(rows.table):
        sentences.append(f"A random sample of {len(rows.table):,} of the {rows.count:,} rows is compared.")
    if rows.missing:
        names = ", ".join(repr(name) for name in rows.missing)
        sentences.append(f"The table lacks {names}, which the model reads.")
    return sentences


MOST_NEW_VALUES, MOST_NEW_WORDS = 1_000, 4_000
"""Values of a field, and words, that the training table did not often have, and that counts still name."""

_MOST_NAMES = 10_000
"""Names of a field or words in a file; more than the sketch's and the new ones."""

_Bins = Annotated[list[Count], Field(max_length=BINS + 1)]
_Names = Annotated[dict[Value, Count], Field(max_length=_MOST_NAMES)]

_ADDED = (
    *("rows", "text_length", "predicted", "word_pairs", "unknown_words"),
    *("tokens", "unknown_tokens", "outside"),
)
"""The counts of two tables that add up number by number."""


class FieldCounts(Strict):
    """Rows with a value of a field.

    Attributes:
        filled: rows with any value.
        values: rows of each value; {} if the sketch names no value of the field.
    """

    filled: Count
    values: _Names = Field(default_factory=dict)


class Half(Strict):
    """Sums over the vectors of about one half of the rows, in the space in which training rows have mean 0.

    Attributes:
        rows: their number.
        sums: of each of the D numbers.
        products: of each pair of them, row by row from the diagonal, D(D + 1)/2.
    """

    rows: Count
    sums: list[float] = Field(max_length=HASHES + MOST_SCORES)
    products: list[float]

    @model_validator(mode="after")
    def _is_consistent(self) -> Half:
        size = len(self.sums)
        if len(self.products) != size * (size + 1) // 2:
            raise ValueError("the numbers of sums and products do not fit")
        return self

    @classmethod
    def of(cls, vectors: np.ndarray) -> Half:
        """Return the sums over vectors, (N, D)."""
        size = vectors.shape[1]
        products = (vectors.T @ vectors)[np.triu_indices(size)]
        return cls(rows=len(vectors), sums=vectors.sum(0).tolist(), products=products.tolist())

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means, (D,), and second moments, (D, D); raises ZeroDivisionError without rows."""
        size = len(self.sums)
        above = np.zeros((size, size))
        above[np.triu_indices(size)] = np.array(self.products) / self.rows
        return np.array(self.sums) / self.rows, above + np.triu(above, 1).T

    def plus(self, other: Half) -> Half:
        """Return the sums over the vectors of both."""
        return Half(
            rows=self.rows + other.rows,
            sums=np.add(self.sums, other.sums).tolist(),
            products=np.add(self.products, other.products).tolist(),
        )


class Counts(Strict):
    """Counts of N rows in the bins of a sketch.

    Attributes:
        rows: N.
        text_length: rows in each bin; [] if the rows have no text.
        features: rows in each bin, by feature; {} if the rows were not priced.
        predicted: rows in each bin of predicted prices; [] if they were not priced, or the sketch has no prices.
        fields: by name, those that the rows have.
        words: rows of each word.
        word_pairs: pairs of a row and a word that it has.
        unknown_words: pairs whose word the sketch does not name.
        tokens: of all rows.
        unknown_tokens: those that the tokenizer does not know.
        outside: rows with a feature beyond the range of the training rows.
        halves: the vectors of two halves of the rows; [] if they were not priced.
    """

    rows: Count
    text_length: _Bins
    features: dict[Name, _Bins] = Field(max_length=MOST_FEATURES)
    predicted: _Bins
    fields: dict[Name, FieldCounts] = Field(max_length=MOST_LABELS + MOST_OTHER_COLUMNS + 3)
    words: _Names
    word_pairs: Count
    unknown_words: Count
    tokens: Count
    unknown_tokens: Count
    outside: Count
    halves: list[Half] = Field(max_length=2)

    @model_validator(mode="after")
    def _is_consistent(self) -> Counts:
        check_counts(self.rows, self.words, ((each.filled, each.values) for each in self.fields.values()))
        return self

    def fits(self, sketch: Sketch) -> bool:
        """Return whether priced rows were counted in the bins of this sketch."""
        bins = {name: len(each.rows) for name, each in sketch.features.items()}
        prices = 0 if sketch.prices is None else len(sketch.prices.predicted.rows)
        return (
            {name: len(rows) for name, rows in self.features.items()} == bins
            and (len(self.text_length), len(self.predicted)) == (len(sketch.text_length.rows), prices)
            and self.fields.keys() <= sketch.fields.keys()
            and [len(half.sums) for half in self.halves] == 2 * [len(sketch.vector.mean)]
        )

    def plus(self, other: Counts, sketch: Sketch) -> Counts:
        """Return the counts of both, which fit the sketch.

        Names that the sketch lacks are summarised by `most_frequent`, and merged as by Agarwal et al. 2012, Mergeable
        Summaries: the count of a name is too low by at most 1/(K + 1) of all counts, where K is `MOST_NEW_VALUES` or
        `MOST_NEW_WORDS`.
        """
        fields, none = {}, FieldCounts(filled=0)
        for name in dict.fromkeys([*self.fields, *other.fields]):
            one, two = self.fields.get(name, none), other.fields.get(name, none)
            values = _names_sum(one.values, two.values, sketch.fields[name].values, MOST_NEW_VALUES)
            fields[name] = FieldCounts(filled=one.filled + two.filled, values=values)
        added: dict[str, object] = {
            name: np.add(getattr(self, name), getattr(other, name)).tolist() for name in _ADDED
        }
        features = {name: np.add(rows, other.features[name]).tolist() for name, rows in self.features.items()}
        words = _names_sum(self.words, other.words, sketch.words, MOST_NEW_WORDS)
        halves = [one.plus(two) for one, two in zip(self.halves, other.halves, strict=True)]
        return self.model_copy(
            update=added | {"features": features, "fields": fields, "words": words, "halves": halves}
        )


def _names_sum(
    one: Mapping[str, int], two: Mapping[str, int], known: Collection[str], most: int
) -> dict[str, int]:
    """Return the sums by name, summarised by `most_frequent`."""
    total = Counter(one)
    total.update(two)
    return most_frequent(total, known, most)


def most_frequent(counts: Mapping[str, int], known: Collection[str], most: int) -> dict[str, int]:
    """Return the rows of all known names and of a limited number of others, as summarised by Misra and Gries.

    If there are more others, the count of each is too low by the same number, at most 1/(K + 1) of all counts.

    Args:
        counts: rows by name.
        known: names whose counts stay exact.
        most: K, the number of other names.
    """
    new = {name: rows for name, rows in counts.items() if name not in known}
    if len(new) <= most:
        return dict(counts)
    least = heapq.nlargest(most + 1, new.values())[-1]
    kept = {name: rows - least for name, rows in new.items() if rows > least}
    return {name: rows for name, rows in counts.items() if name in known} | kept


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
    labels = [name for name in sketch.fields if name not in (*TEXT_FIELDS, *sketch.others)]
    fields = fields_of(rows.table, sketch.others, labels)
    if BRAND in sketch.fields and sketch.fields[BRAND].values:
        fields[BRAND] = brands_of(rows.table.text, sketch.label, sketch.fields[BRAND].values)
    if not rows.readable:
        fields = {name: values for name, values in fields.items() if name in sketch.others}
    kept = sketch.fields.keys() - set(rows.missing)
    return {name: values for name, values in fields.items() if name in kept}


def count(sketch: Sketch, seen: Seen, preprocessor: Preprocessor, first: np.ndarray) -> Counts:
    """Return the counts of rows; those of rare names that the sketch lacks may be too low, as of `most_frequent`.

    Args:
        sketch: of the training table.
        seen: what was read from the N rows.
        preprocessor: of the model's first member.
        first: the rows of the first of two halves, bool (N,).
    """
    table, documents, priced = seen.rows.table, seen.documents, seen.priced
    features: dict[str, list[int]] = {}
    outside, unknown = np.zeros(len(table), bool), None
    predicted: list[int] = []
    if priced is not None:
        for name, then in sketch.features.items():
            values = priced.features[:, preprocessor.features.names.index(name)]
            features[name] = then.count(values).tolist()
            outside |= then.outside(values)
        unknown = is_unknown(priced.tokens, preprocessor.tokenizer)
        if sketch.prices is not None:
            predicted = sketch.prices.predicted.count(three_digits(priced.predicted)).tolist()
    fields = {}
    for name, cells in seen.fields.items():
        rows, known = Counter(cells), sketch.fields[name].values
        filled = len(cells) - rows.pop("", 0)
        named = most_frequent(rows, known, MOST_NEW_VALUES) if known else {}
        fields[name] = FieldCounts(filled=filled, values=named)
    lengths = table.text.str.len().to_numpy(np.int64)
    words = dict(zip(documents.vocabulary, documents.rows.tolist(), strict=True))
    vectors = seen.vectors
    return Counts(
        rows=len(table),
        text_length=sketch.text_length.count(lengths).tolist() if seen.rows.readable else [],
        features=features,
        predicted=predicted,
        fields=fields,
        words=most_frequent(words, sketch.words, MOST_NEW_WORDS),
        word_pairs=len(documents.word),
        unknown_words=int(documents.outside(sketch.words).sum()),
        tokens=0 if unknown is None else len(unknown),
        unknown_tokens=0 if unknown is None else int(unknown.sum()),
        outside=int(outside.sum()),
        halves=[] if vectors is None else [Half.of(vectors[which]) for which in (first, ~first)],
    )
