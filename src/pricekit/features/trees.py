"""Feature `trees`: the log price that boosted trees predict from numbers, categories and words."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field

from pricekit.config import Search, Section
from pricekit.core.contracts import Feature, State
from pricekit.errors import DataError, PluginError
from pricekit.features.catalog import Optimized22
from pricekit.features.cells import (
    DATE_VALUES,
    MOST_CATEGORIES,
    PLACES,
    Categories,
    Column,
    StoredColumns,
    Values,
    columns_of,
    to_json,
    values_of,
)
from pricekit.features.fit import folds_of
from pricekit.features.forest import MOST_LOG_PRICE, MOST_NODES, Forest, from_lightgbm, joined
from pricekit.features.neighbours import Neighbours
from pricekit.features.vectors import OF_TREES, Projection, opened, read_column
from pricekit.io.locks import renewed_in_child
from pricekit.io.packing import Strict, pack, unpack
from pricekit.table import Table
from pricekit.table.table import column_name
from pricekit.text.kernel import kernel
from pricekit.text.labelled_lines import Block, Floats, Ints, LastOpened, evenly, offsets_of
from pricekit.text.units import KINDS
from pricekit.text.words import (
    MOST_WORDS,
    ODD,
    Hashes,
    Words,
    WordTable,
    common_words,
    find_words,
    mixed,
    words_of,
)

WORD_BITS, CROSS_BITS = 18, 20
"""Words and pairs of words share 2^18 buckets; crosses of categories and words, of which there are more, 2^20."""

MOST_ROWS = 1 << 16
"""Maximum number of rows, spread over the table, that the linear model is fitted to."""

CROSSED_ROWS = 3000
"""With fewer training rows, crosses make the trees worse: most of them occur too rarely."""

MOST_CROSSED, MOST_TITLE_WORDS = 6, 32
"""Columns whose categories are crossed with words, and words of the first line of a text."""

PENALTY = 0.7
TOLERANCE = 1e-3
"""Of the solver (Paige and Saunders 1982, LSQR); a smaller one changes no price by a percent."""

_SQUARE, _MOST_SQUARE = 1 << 8, 1 << 17
"""Squared idf are stored as multiples of 1 / 2^8, below this many."""
_MOST_WEIGHT = 1 << 15
"""Weights are less than this many units."""
_HALF = 32
"""A table holds weight · 2^32 + square, so one sum yields both. A text has fewer than 2^15 terms, so no sum of squares
reaches 2^32."""


@dataclass(frozen=True)
class Terms:
    """The terms of N texts, by hash.

    Attributes:
        bucket: the bucket of each term, int64 (T,); beyond the last bucket for none.
        start, end: the terms of each text, int64 (N,); those between two texts belong to none.
    """

    bucket: Ints
    start: Ints
    end: Ints

    def sums(self, table: Ints) -> Ints:
        """Return the sum over the terms of each text, int64 (N,).

        Args:
            table: the number of each bucket, and 0 for none, int64 (buckets + 1,).
        """
        total = np.zeros(len(self.bucket) + 1, np.int64)
        np.cumsum(table[self.bucket], out=total[1:])
        return total[self.end] - total[self.start]


@renewed_in_child
@dataclass(frozen=True)
class WordTerms:
    """The words and the pairs of neighbouring words of texts, in 2^`bits` buckets."""

    words: Words
    bits = WORD_BITS

    @cached_property
    def terms(self) -> Terms:
        """The terms; between those of two texts is the pair of the last word of one and the first of the other."""
        hashes, count = self.words.hashes, self.words.count
        code = np.empty(2 * len(hashes), np.uint64)
        code[::2] = hashes
        code[1:-1:2] = (hashes[:-1] * ODD ^ hashes[1:]) * ODD
        code[-1:] = 0
        last = np.cumsum(count)
        start = 2 * (last - count)
        return Terms(_bucket(code, self.bits), start, np.maximum(2 * last - 1, start))

    def sums(self, table: Ints) -> Ints:
        """Return `Terms.sums`."""
        if (compiled := kernel()) is not None:
            return compiled.sum_words(table, self.words.hashes, self.words.count)
        return self.terms.sums(table)


@renewed_in_child
@dataclass(frozen=True)
class CrossTerms:
    """The crosses of C categories of texts with the words of their first lines, in 2^`bits` buckets.

    Attributes:
        words: of N texts.
        categories: the code of each, int64 (N, C); 0 for none.
    """

    words: Words
    categories: Ints
    bits = CROSS_BITS

    @cached_property
    def terms(self) -> Terms:
        """The terms."""
        word, count = self.words.first_lines(MOST_TITLE_WORDS)
        row = np.repeat(np.arange(len(count)), count)
        columns = self.categories.shape[1]
        place = np.arange(1, columns + 1) << 32
        key = mixed((self.categories + place).astype(np.uint64))
        bucket = _bucket(mixed(key[row] ^ self.words.hashes[word][:, None]), self.bits)
        bucket[self.categories[row] == 0] = 1 << self.bits
        end = columns * np.cumsum(count)
        return Terms(bucket.ravel(), end - columns * count, end)

    def sums(self, table: Ints) -> Ints:
        """Return `Terms.sums`."""
        if (compiled := kernel()) is not None:
            _, first = self.words.first_lines(MOST_TITLE_WORDS)
            return compiled.sum_crosses(table, self.words.hashes, self.words.count, first, self.categories)
        return self.terms.sums(table)


TextTerms = WordTerms | CrossTerms


def _bucket(code: Hashes, bits: int) -> Ints:
    return (code >> np.uint64(64 - bits)).astype(np.int64)


@renewed_in_child
@dataclass(frozen=True)
class Linear:
    """The log price that a linear model predicts from the terms of a text, an input of the trees.

    The model is ridge regression (Hoerl and Kennard 1970) of the log price, less its mean, on TF-IDF. A tree splits by
    few words; the linear model adds up small effects of all of them. Terms share buckets by hash (Weinberger et al.
    2009), so a bundle contains no texts. Bucket b, which occurs in df of N training rows, has

        idf = 1 + log((1 + N) / (1 + df)), and 0 if df < 2,

    and a text with c_b occurrences has the inputs c_b · idf_b / sqrt(Σ c_b · idf_b²).

    A model is stored in whole numbers, whose sums are exact. So a text has the same log price alone and in a batch.

    The log price is offset + unit · Σ weight / sqrt(Σ square), over the terms of a text.

    Attributes:
        bits: there are 2^bits buckets.
        bucket: those with a weight, ascending, int64 (B,).
        weight: int64 (B,).
        square: multiples of 1 / 2^8, int64 (B,).
        offset: log price of a text without known terms.
        unit: log price.
    """

    bits: int
    bucket: Ints
    weight: Ints
    square: Ints
    offset: float
    unit: float

    @classmethod
    def fit(cls, counts: Any, log_price: Floats, weight: Floats | None = None) -> Linear:
        """Fit a model to N texts.

        Args:
            counts: of their terms, as of `count_terms`.
            log_price: float64 (N,).
            weight: how much each row counts, float64 (N,); None: equally.
        """
        from scipy.sparse.linalg import lsqr

        bits = counts.shape[1].bit_length() - 1
        rows = evenly(len(log_price), MOST_ROWS)
        inputs, log_price = counts[rows], log_price[rows]
        root = np.ones(len(rows)) if weight is None else np.sqrt(weight[rows] / weight[rows].mean())
        frequency = np.bincount(inputs.indices, minlength=inputs.shape[1])
        bucket = np.flatnonzero(frequency > 1)
        offset = float(np.average(log_price, weights=np.square(root))) if len(rows) else 0.0
        if not len(bucket):
            nothing = np.zeros(0, np.int64)
            return cls(bits, nothing, nothing, nothing, offset, 1.0)
        idf = np.where(frequency > 1, 1 + np.log((1 + len(rows)) / (1 + frequency)), 0)
        square = np.rint(_SQUARE * np.square(idf))
        length = np.sqrt(np.maximum(inputs @ square, 1) / _SQUARE)
        inputs.data *= idf[inputs.indices] * np.repeat(root / length, np.diff(inputs.indptr))
        solution = lsqr(inputs, root * (log_price - offset), PENALTY**0.5, TOLERANCE, TOLERANCE)[0]
        effect = (idf * solution)[bucket]
        unit = float(max(np.abs(effect).max(), 1e-30) / (_MOST_WEIGHT - 1))
        whole = np.rint(effect / unit).astype(np.int64)
        return cls(bits, bucket, whole, square[bucket].astype(np.int64), offset, unit)

    def predict(self, parts: Iterable[TextTerms]) -> Floats:
        """Return the log price of each of N texts, float64 (N,), from their terms in parts."""
        return np.concatenate([self._predict(part) for part in parts])

    def _predict(self, terms: TextTerms) -> Floats:
        both = terms.sums(self._table)
        square = np.maximum(both & ((1 << _HALF) - 1), 1)
        price: Floats = self.offset + self.unit * (both >> _HALF) / np.sqrt(square / _SQUARE)
        return price

    @cached_property
    def _table(self) -> Ints:
        """Weight · 2^32 + square of every bucket, 0 for unknown ones and for none."""
        table = np.zeros((1 << self.bits) + 1, np.int64)
        table[self.bucket] = (self.weight << _HALF) + self.square
        return table

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "bucket": pack(np.diff(self.bucket, prepend=0).astype(np.int32)),
            "weight": pack(self.weight.astype(np.int16)),
            "square": pack(self.square.astype(np.int32)),
            "offset": self.offset,
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], bits: int) -> Linear:
        """Return what `to_json` described, with 2^bits buckets; raises ValueError if it is damaged."""
        step, weight, square = (
            unpack(state[name], kind, most=1 << bits).astype(np.int64)
            for name, kind in (("bucket", np.int32), ("weight", np.int16), ("square", np.int32))
        )
        bucket, offset, unit = np.cumsum(step), float(state["offset"]), float(state["unit"])
        if not len(step) == len(weight) == len(square):
            raise ValueError("expected a weight and a square for each bucket")
        if len(bucket) and (step.min() < 0 or (step[1:] == 0).any() or bucket[-1] >= 1 << bits):
            raise ValueError(f"expected rising buckets below {1 << bits:,}")
        small = (np.abs(weight) < _MOST_WEIGHT) & (square >= 0) & (square < _MOST_SQUARE)
        if not small.all() or not (abs(offset) <= MOST_LOG_PRICE and abs(unit) <= MOST_LOG_PRICE):
            raise ValueError("expected log prices, weights and squares within their limits")
        return cls(bits, bucket, weight, square, offset, unit)


def count_terms(parts: Iterable[TextTerms]) -> Any:
    """Return how often each of N texts has each bucket, a `scipy.sparse.csr_matrix` (N, buckets)."""
    from scipy.sparse import csr_matrix

    buckets, lengths = [], [np.zeros(1, np.int64)]
    for part in parts:
        terms = part.terms
        inside = terms.bucket < 1 << part.bits
        inside[terms.end[terms.end < np.append(terms.start[1:], len(inside))]] = False
        before = np.append(0, np.cumsum(inside))
        buckets.append(terms.bucket[inside])
        lengths.append(before[terms.end] - before[terms.start])
    bucket, start = np.concatenate(buckets), np.cumsum(np.concatenate(lengths))
    counts = csr_matrix((np.ones(len(bucket)), bucket, start), shape=(len(start) - 1, 1 << part.bits))
    counts.sum_duplicates()
    return counts


def linear_out_of_fold(
    parts: Sequence[TextTerms], log_price: Floats, fold: Ints, weight: Floats | None = None
) -> Floats:
    """Return the log price of each row from a model of the rows of the other folds, float64 (N,)."""
    counts, prediction = count_terms(parts), np.empty(len(fold))
    for number in np.unique(fold):
        others = np.flatnonzero(fold != number)
        counted = None if weight is None else weight[others]
        price = Linear.fit(counts[others], log_price[others], counted).predict(parts)
        prediction[fold == number] = price[fold == number]
    return prediction


CATALOG = Optimized22()

MISSING = -1e30
"""Stands for a missing number: below all others, so that one split separates it."""

PRIOR_ROWS = 10.0
"""A category's mean log price is drawn to that of all rows as if these many rows had it."""


class _StoredInputs(Strict):
    """What `Inputs.to_json` returns, except for the parts that open themselves."""

    columns: StoredColumns
    ranks: list[list[Annotated[int, Field(ge=0, le=MOST_CATEGORIES + 1)]]]
    words: list[str] = Field(max_length=MOST_WORDS)


@renewed_in_child
@dataclass(frozen=True)
class Inputs:
    """What turns texts into the inputs of trees.

    Attributes:
        columns: what each label yields.
        catalog: the state of `optimized22`.
        ranks: for each category input, the ranks of its codes by mean log price.
        linear: a linear model of words and word pairs, one input.
        crosses: a linear model of crosses of categories and words of the first line, one input; None without them.
        neighbours: the state of the feature `neighbours`, three inputs; None without them.
        vectors: for each column of vectors, by name, what yields a log price and components, an input each.
        words: the words that are counted.
    """

    columns: list[Column]
    catalog: dict[str, Any]
    ranks: list[list[int]]
    linear: Linear
    crosses: Linear | None
    neighbours: dict[str, Any] | None
    vectors: dict[str, Projection]
    words: list[str]

    @classmethod
    def fit(
        cls,
        table: Table,
        price: Floats,
        words: int,
        least_rows: int,
        *,
        neighbours: bool = False,
        vectors: Sequence[str] = (),
    ) -> Inputs:
        """Learn from N training rows with prices, float64 (N,)."""
        columns, log_price, words_of_texts = columns_of(table.text), np.log(price), words_of(table.text)
        values, known = values_of(table.text, columns), Categories(columns)
        codes = known.codes(values.cells)
        categories = _crossed(codes, known)
        inputs, counts = inputs_of(values, columns, known, codes)
        crossed = len(table) >= CROSSED_ROWS and categories.shape[1]
        crosses = count_terms(_crosses(words_of_texts, categories)) if crossed else None
        return cls(
            columns=columns,
            catalog=CATALOG.fit(table),
            ranks=[
                _ranks(inputs[:, place].astype(np.int64), log_price, count, table.weight)
                for place, count in enumerate(counts)
                if count
            ],
            linear=Linear.fit(count_terms(map(WordTerms, words_of_texts)), log_price, table.weight),
            crosses=None if crosses is None else Linear.fit(crosses, log_price, table.weight),
            neighbours=_neighbours().fit(table, price) if neighbours else None,
            vectors={
                name: Projection.fit(read_column(table, name), OF_TREES, log_price, table.weight)
                for name in vectors
            },
            words=common_words(words_of_texts, words, least_rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "columns": to_json(self.columns),
            "learned": {
                "linear": self.linear.to_json(),
                "crosses": None if self.crosses is None else self.crosses.to_json(),
                "neighbours": self.neighbours,
                "vectors": [each.to_json() for each in self.vectors.values()],
            },
            "catalog": self.catalog,
            "ranks": self.ranks,
            "words": self.words,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], vectors: Sequence[str] = ()) -> Inputs:
        """Return what `to_json` described; raises ValueError or another exception if it is damaged.

        Args:
            state: what `to_json` returned.
            vectors: the columns of vectors.
        """
        stored, learned = _StoredInputs.model_validate(state), state["learned"]
        crosses = learned["crosses"]
        CATALOG.check_state(state["catalog"])
        inputs = cls(
            columns=stored.columns,
            catalog=state["catalog"],
            ranks=stored.ranks,
            linear=Linear.from_json(learned["linear"], WORD_BITS),
            crosses=None if crosses is None else Linear.from_json(crosses, CROSS_BITS),
            neighbours=learned["neighbours"],
            vectors=dict(zip(vectors, opened(learned["vectors"], vectors, 1 + OF_TREES), strict=True)),
            words=stored.words,
        )
        if inputs.neighbours is not None:
            inputs._neighbours.check_state(inputs.neighbours)
        _ = inputs._table  # checks the words
        if [len(ranks) for ranks in inputs.ranks] != [count for _, count in inputs._layout if count]:
            raise ValueError("the ranks do not fit the categories of the columns")
        return inputs

    @property
    def width(self) -> int:
        """The number D of dense inputs."""
        neighbours = 0 if self.neighbours is None else len(Neighbours.names)
        vectors = (1 + OF_TREES) * len(self.vectors)
        return 1 + (self.crosses is not None) + neighbours + vectors + len(self._layout) + len(CATALOG.names)

    @cached_property
    def _layout(self) -> list[tuple[int, int]]:
        return list(layout_of(self.columns, self._known))

    @cached_property
    def _places(self) -> tuple[Ints, Ints, Ints, Block]:
        """Where inputs are among the values, which of them are categories, the first rank of each, and all ranks."""
        place, count = np.array(self._layout, np.int64).reshape(-1, 2).T
        category = np.flatnonzero(count)
        ranks = np.array([rank for each in self.ranks for rank in each], np.float32)
        return place, category, offsets_of(count[category])[:-1], ranks

    def dense(self, table: Table, price: Floats | None = None) -> Block:
        """Return learned inputs, numbers, ranks of categories and catalogue features, float32 (N, D), finite.

        With the prices of training rows, each row's inputs are learned from the rows of other folds.
        """
        values = values_of(table.text, self.columns)
        codes = self._known.codes(values.cells)
        learned = self._learned(table, codes) if price is None else self._out_of_fold(table, price, codes)
        place, category, first, ranks = self._places
        block = values_by_place(values, codes)[:, place]
        block[:, category] = ranks[first + block[:, category].astype(np.int64)]
        block = np.clip(np.nan_to_num(block, nan=MISSING), MISSING, -MISSING)
        catalog = self._catalog.transform(table, self.catalog)
        return np.column_stack([*learned, block, catalog]).astype(np.float32)

    def _learned(self, table: Table, codes: Ints) -> list[Block]:
        """Return the inputs that are learned from prices, and the components of vectors, float32 (N,) or (N, C) each.

        Args:
            table: N texts.
            codes: of their categories, as of `Categories.codes`.
        """
        learned = [linear.predict(terms).astype(np.float32) for linear, terms in self._linears(table, codes)]
        learned += [_projected(each, vectors) for each, vectors in self._vectors(table)]
        if self.neighbours is not None:
            learned.append(self._neighbours.transform(table, self.neighbours))
        return learned

    def _out_of_fold(self, table: Table, price: Floats, codes: Ints) -> list[Block]:
        """Return these inputs for the training rows, each learned from the rows of other folds."""
        fold, log_price = folds_of(table), np.log(price)
        learned = [
            linear_out_of_fold(terms, log_price, fold, table.weight).astype(np.float32)
            for _, terms in self._linears(table, codes)
        ]
        for each, vectors in self._vectors(table):
            block = _projected(each, vectors)
            block[:, 0] = each.out_of_fold(vectors, log_price, fold, table.weight)
            learned.append(block)
        if self.neighbours is None:
            return learned
        near = np.empty((len(table), len(Neighbours.names)), np.float32)
        for number in np.unique(fold):
            rows, others = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
            plugin = _neighbours()
            near[rows] = plugin.transform(table.take(rows), plugin.fit(table.take(others), price[others]))
        return [*learned, near]

    def _linears(self, table: Table, codes: Ints) -> Iterator[tuple[Linear, Sequence[TextTerms]]]:
        """Yield the linear models, each with the terms of the texts that it reads."""
        words = words_of(table.text)
        yield self.linear, list(map(WordTerms, words))
        if self.crosses is not None:
            yield self.crosses, _crosses(words, _crossed(codes, self._known))

    def _vectors(self, table: Table) -> Iterator[tuple[Projection, Block]]:
        """Yield the projections, each with the vectors of its column."""
        for name, projection in self.vectors.items():
            yield projection, read_column(table, name, projection)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return _neighbours()

    @cached_property
    def _catalog(self) -> Optimized22:
        return Optimized22()

    @cached_property
    def _known(self) -> Categories:
        return Categories(self.columns)

    def word_counts(self, table: Table) -> tuple[Ints, Ints]:
        """Return the row and the word of each occurrence of a known word, int64 (K,) each."""
        return find_words(words_of(table.text), self._table)

    @cached_property
    def _table(self) -> WordTable:
        return WordTable(self.words)


def _neighbours() -> Neighbours:
    return Neighbours(Neighbours.Options())


def _projected(projection: Projection, vectors: Block) -> Block:
    """Return the log price and the components of vectors, float32 (N, C); components of a missing one are `MISSING`."""
    block = projection(vectors)
    block[np.isnan(vectors[:, 0]), 1:] = MISSING
    return block


def _crossed(codes: Ints, known: Categories) -> Ints:
    """Return the codes of the categories that are crossed with words, int64 (N, C); 0 for empty and rare cells.

    They are whole cells of the first columns that have categories, behind the one whose words they are crossed with.
    """
    chosen = [place for place in range(2, len(known.counts), 2) if known.counts[place]][:MOST_CROSSED]
    most = np.array(known.counts, np.int64)[chosen]
    return np.where(codes[:, chosen] > most, 0, codes[:, chosen])


def _crosses(words: Sequence[Words], categories: Ints) -> list[CrossTerms]:
    """Return the crosses of the words of N texts in parts with the codes of their categories, int64 (N, C)."""
    ends = np.cumsum([len(part.count) for part in words])
    return [CrossTerms(part, each) for part, each in zip(words, np.split(categories, ends[:-1]), strict=True)]


def _ranks(codes: Ints, log_price: Floats, count: int, weight: Floats | None = None) -> list[int]:
    """Return the rank of each code by its smoothed mean log price (Micci-Barreca 2001); rows count by their weights."""
    counted = np.ones(len(codes)) if weight is None else weight / weight.mean()
    rows = np.bincount(codes, counted, minlength=count)
    total = np.bincount(codes, counted * log_price, minlength=count)
    mean = (total + PRIOR_ROWS * np.average(log_price, weights=counted)) / (rows + PRIOR_ROWS)
    ranks: list[int] = np.argsort(np.argsort(mean, kind="stable"), kind="stable").tolist()
    return ranks


def layout_of(columns: Sequence[Column], known: Categories) -> Iterator[tuple[int, int]]:
    """Yield the place of each of the D inputs among the `values_by_place`, and its categories, 0 for a number.

    Args:
        columns: of the texts.
        known: their categories.
    """
    labels = len(columns)
    unit, amount, pack, kind, length, code, date = (
        each * labels for each in itertools.accumulate((PLACES, PLACES, 1, 1, 1, 1, 2))
    )
    for label, column in enumerate(columns):
        for nth in range(PLACES * label, PLACES * label + min(column.places, PLACES)):
            yield nth, 0
            yield unit + nth, len(KINDS)
        if column.measured:
            yield from ((amount + label, 0), (pack + label, 0), (kind + label, len(KINDS)))
        if column.dates:
            yield from ((date + len(DATE_VALUES) * label + nth, 0) for nth in range(len(DATE_VALUES)))
        for position in (2 * label, 2 * label + 1):  # whole cells, and first words
            if count := known.counts[position]:
                yield code + position, count + 2
        if column.long:
            yield length + label, 0


def values_by_place(values: Values, codes: Ints) -> Floats:
    """Return everything that cells yield, one after the other, float64 (N, places).

    Args:
        values: of N texts.
        codes: of their categories, as of `Categories.codes`.
    """
    cells, total = values.cells, values.total
    rows, labels = cells.start.shape
    parts = [
        values.number.reshape(rows, PLACES * labels),
        values.unit.reshape(rows, PLACES * labels),
        *(each.reshape(rows, labels) for each in (total.amount, total.pack, total.kind)),
        cells.end - cells.start,
        codes,
    ]
    if values.dates:
        dates = np.full((rows, labels, len(DATE_VALUES)), np.nan)
        for label, read in values.dates.items():
            dates[:, label] = read
        parts.append(dates.reshape(rows, labels * len(DATE_VALUES)))
    return np.concatenate(parts, axis=1)


def inputs_of(
    values: Values, columns: Sequence[Column], known: Categories, codes: Ints
) -> tuple[Floats, list[int]]:
    """Return the values of the inputs, float64 (N, D), and the number of categories of each, 0 for a number.

    Args:
        values: of N texts.
        columns: of the texts.
        known: the categories of the columns.
        codes: of the categories of the texts, as of `Categories.codes`.
    """
    places, counts = np.array(list(layout_of(columns, known)), np.int64).reshape(-1, 2).T
    return values_by_place(values, codes)[:, places], counts.tolist()


HUBER = 0.5
"""Errors of the log price above this count linearly (Huber 1964), smaller ones by their square."""

THREADS = 1
"""More threads are slower for small tables, and far slower on a busy machine."""

MORE = 3
"""`update` adds one tree for this number of trees of a fit."""


def _open(state: State, vectors: Sequence[str]) -> tuple[Inputs, Forest]:
    """Return the inputs and the trees of a state; raises ValueError or another exception if it is damaged."""
    inputs, forest = Inputs.from_json(state["inputs"], vectors), Forest.from_json(state["forest"])
    dense = state["dense"]
    if not all(type(column) is int and 0 <= column < inputs.width for column in dense):
        raise ValueError(f"expected numbers of the {inputs.width} inputs")
    if forest.columns != max(1, read := len(dense) + len(inputs.words)):
        raise ValueError(f"the trees have {forest.columns:,} columns for {read:,} inputs")
    return inputs, forest


class Trees(Feature):
    """The log price that gradient-boosted trees predict (Ke et al. 2017, LightGBM), with the Huber loss.

    The inputs are the log prices of a linear model of words and word pairs and, with `CROSSED_ROWS` training rows, of
    one of categories crossed with the words of the first line (both `Linear`), the first numbers of each
    cell with their units, its amount, the age, month and weekday of a date, the cell and its first word as categories,
    the length of prose, `optimized22`, and the counts of the most common words. A category is its rank by mean log
    price. LightGBM grows the trees; ONNX Runtime predicts with them, so a bundle needs no further package.
    """

    names = ("trees_log_price",)
    uses_price = True
    log_price = "trees_log_price"

    def describe(self, state: State) -> dict[str, str]:
        """Return what the column is."""
        return {"trees_log_price": "price that the trees predict"}

    class Options(Section):
        """Options of `trees`."""

        model_config = ConfigDict(
            json_schema_extra={
                "examples": [
                    {"rounds": 600, "learning_rate": 0.035, "words": 4096},
                    {"rounds": 1000, "learning_rate": 0.02, "words": 4096},
                    {"rounds": 300, "leaves": 63, "learning_rate": 0.05, "words": 4096},
                ]
            }
        )

        rounds: Annotated[int, Search(200, 1200, log=True)] = Field(
            300, ge=1, le=10_000, description="number of trees"
        )
        leaves: Annotated[int, Search(15, 63, log=True)] = Field(
            31, ge=2, le=1 << 12, description="maximum number of leaves per tree"
        )
        learning_rate: Annotated[float, Search(0.02, 0.1, log=True)] = Field(
            0.05, gt=0, le=1, description="shrinkage of each tree"
        )
        leaf_rows: Annotated[int, Search(5, 40, log=True)] = Field(
            10, ge=1, description="minimum number of rows per leaf, and of rows that have a word"
        )
        words: Annotated[int, Search(1024, 8192, log=True)] = Field(
            2048, ge=0, le=MOST_WORDS, description="maximum number of words that are counted"
        )
        neighbours: bool = Field(
            False, description="inputs from the feature `neighbours`; the state then contains training rows"
        )
        vectors: list[str] = Field([], description="columns of vectors; default: those of columns.vectors")
        seed: int = Field(0, ge=0, le=1 << 30, description="of the rows and inputs that each tree may use")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.holds_training_rows = options.neighbours
        self.columns = tuple(map(column_name, options.vectors))
        self._open = LastOpened(partial(_open, vectors=self.columns))

    def check_state(self, state: State) -> None:
        """Open a state for `transform`; raises ValueError or another exception if it is damaged."""
        self._open(state)

    def fit(self, table: Table, price: np.ndarray) -> State:  # type: ignore[override]
        """Fit the trees to N rows with prices, float64 (N,).

        Returns:
            {"inputs": see `Inputs.to_json`, "dense": the dense inputs that are read, "forest": see `Forest.to_json`}
        """
        options = self.options
        inputs = Inputs.fit(
            table,
            price,
            options.words,
            options.leaf_rows,
            neighbours=options.neighbours,
            vectors=self.columns,
        )
        dense = inputs.dense(table, price)
        forest, used = from_lightgbm(self._grow(inputs, dense, table, price))
        read = used[used < dense.shape[1]]
        words = [inputs.words[number] for number in used[len(read) :] - dense.shape[1]]
        state = replace(inputs, words=words).to_json()
        return {"inputs": state, "dense": read.tolist(), "forest": forest.to_json()}

    def update(self, table: Table, price: np.ndarray, state: State) -> State:
        """Add smaller and fewer trees, fitted to N more rows with prices, float64 (N,); the inputs stay.

        Raises:
            DataError: the trees have become too many.
        """
        inputs, before = self._open(state)
        dense, start = inputs.dense(table), self.transform(table, state)[:, 0]
        options = self.options
        smaller = {
            "rounds": -(-options.rounds // MORE),
            "leaves": max(2, options.leaves // 2),
            "learning_rate": options.learning_rate / 2,
            "seed": options.seed + 1,
        }
        grower = Trees(options.model_copy(update=smaller))
        more, used = from_lightgbm(grower._grow(inputs, dense, table, price, start))
        width = dense.shape[1]
        read = np.union1d(state["dense"], used[used < width]).astype(np.int64)
        words = len(read) + np.arange(len(inputs.words))
        own = np.append(np.searchsorted(read, state["dense"]), words)
        added = np.where(used < width, np.searchsorted(read, used), len(read) + used - width)
        columns = max(1, len(read) + len(words))
        forest = joined([(before, own), (more, added)], columns)
        if len(forest.feature) > MOST_NODES:
            raise DataError(
                f"the trees have {len(forest.feature):,} nodes after many warm starts, and at most {MOST_NODES:,} are "
                "possible; train from the start",
                parameters=("init",),
            )
        return {"inputs": state["inputs"], "dense": read.tolist(), "forest": forest.to_json()}

    def transform(self, table: Table, state: State) -> Block:
        """Return the predicted log price, float32 (N, 1)."""
        inputs, forest = self._open(state)
        words = inputs.word_counts(table)
        return forest.predict(inputs.dense(table)[:, state["dense"]], words)[:, None]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of LightGBM, without the number of trees."""
        return {
            "objective": "huber",
            "alpha": HUBER,
            "learning_rate": self.options.learning_rate,
            "num_leaves": self.options.leaves,
            "min_data_in_leaf": self.options.leaf_rows,
            "feature_fraction": 0.4,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "use_missing": False,
            "num_threads": THREADS,
            "deterministic": True,
            "force_col_wise": True,  # otherwise LightGBM chooses the layout by timing, and sums differ
            "seed": self.options.seed,
            "verbosity": -1,
        }

    def _grow(
        self,
        inputs: Inputs,
        dense: np.ndarray,
        table: Table,
        price: np.ndarray,
        start: np.ndarray | None = None,
    ) -> str:
        """Return the trees in LightGBM's text format; `start` is a log price of each row to begin with, (N,)."""
        try:
            import lightgbm
            from scipy.sparse import csr_matrix, hstack
        except ModuleNotFoundError as error:
            raise PluginError(
                f"the feature 'trees' needs the package {error.name} for training: pip install {error.name}, or leave "
                "the feature out",
                parameters=("features",),
            ) from None
        row, word = inputs.word_counts(table)
        shape = (len(table), len(inputs.words))
        counts = csr_matrix((np.ones(len(row), np.float32), (row, word)), shape=shape)
        parameters = self.parameters()
        values = hstack([csr_matrix(dense), counts], format="csr")
        rows = lightgbm.Dataset(
            values, np.log(price), weight=table.weight, init_score=start, params=parameters
        )
        return str(lightgbm.train(parameters, rows, self.options.rounds).model_to_string())
