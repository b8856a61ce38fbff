"""Products with known prices: the index that finds the most similar ones, and how a bundle stores them.

Similarity is that of the feature `neighbours`: the cosine of TF-IDF vectors of words and word pairs, from an inverted
index, see `pricekit.features.neighbours`. It does not depend on the model. A model's own encoding would find
the products that the model believes to cost the same, and so confirm its errors; docs/lab/speed.md has the numbers.

A bundle stores the rows in `comparables.parquet` and the index in `comparables.json`. If a feature of the bundle has
the same index, comparables.json has the way to it instead.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.errors import BundleError, DataError
from pricekit.features.brand_category import common_label, labelled, leading_words
from pricekit.features.catalog import Labels, compute, size_labels
from pricekit.features.neighbours import MOST_ROWS, Index, index_texts, open_index
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.table import Table
from pricekit.text.labelled_lines import as_list, as_strings, batches, evenly, join_texts, split_lines
from pricekit.text.quantity import MEASURES
from pricekit.wording import shorten

_COLUMNS = ("unit_type", "total_quantity")
_MOST = 0.5
"""A word belongs to the brand if at least this share of the rows that begin alike continue with it."""
_SHORTEST = 4
"""Shorter beginnings, such as "the" and "la", take the next word along, if another row has it, too."""


@dataclass(frozen=True)
class Facts:
    """What N products are.

    Attributes:
        name: the item names, (N,).
        brand: in lower case, "" if none was found, (N,).
        unit: "g", "ml", "pieces", "mm" or "", (N,).
        size: in that unit, 0 if none was found, float64 (N,).
    """

    name: list[str]
    brand: list[str]
    unit: list[str]
    size: np.ndarray


def learn_labels(texts: pd.Series) -> dict[str, Any]:
    """Return which labels of texts, (N,), begin most of them and state sizes, for `facts_of`."""
    strings = as_strings(texts)
    label = common_label(strings)
    return {"label": label, "sizes": size_labels(strings, label)}


def facts_of(texts: pd.Series, labels: Mapping[str, Any], brands: Collection[str] | None = None) -> Facts:
    """Find the facts of texts.

    Args:
        texts: strings, (N,).
        labels: the result of `learn_labels` for the products.
        brands: the known brands, with which an item name may begin; None learns them from the texts.
    """
    names: list[str] = []
    stated: list[str] = []
    begun: list[tuple[str, str, str]] = []
    for part in batches(as_strings(texts)):
        lines = split_lines(join_texts(part))
        title = lines.titles(labels["label"])
        one, two, three = (words.to_pylist() for words in leading_words(pc.utf8_lower(title)))
        names += title.to_pylist()
        stated += labelled(lines, "brand").to_pylist()
        begun += zip(one, two, three, strict=True)
    from_names = begin_brands(begun) if brands is None else [_known(words, brands) for words in begun]
    brand = [label or other for label, other in zip(stated, from_names, strict=True)]
    block = compute(texts, _COLUMNS, dict(labels))
    unit = [MEASURES[int(kind)] for kind in block[:, 0]]
    return Facts(names, brand, unit, block[:, 1].astype(np.float64))


def begin_brands(begun: list[tuple[str, str, str]]) -> list[str]:
    """Return the brand with which each item name begins: its first word, and the next ones while they belong to it.

    A word belongs to the brand if most of the rows that begin alike continue with it. So "la victoria sauce" among
    others of La Victoria has the brand "la victoria", and "trident white gum" among other gum of Trident "trident".

    Args:
        begun: the first one, two and three words of each name, "" if there are fewer, (N,).
    """
    rows: dict[str, int] = {}
    for words in begun:
        for beginning in words:
            rows[beginning] = rows.get(beginning, 0) + 1
    brands = []
    for words in begun:
        brand = words[0]
        for longer in words[1:]:
            least = 2 if len(brand) < _SHORTEST else max(2, _MOST * rows[brand])
            if rows[longer] < least or not longer[-1:].isalnum():
                break
            brand = longer
        brands.append(brand)
    return brands


def _known(words: tuple[str, str, str], brands: Collection[str]) -> str:
    """Return the longest beginning that is a known brand, else the first word."""
    return next((beginning for beginning in reversed(words) if beginning and beginning in brands), words[0])


INDEX, ROWS = "comparables.json", "comparables.parquet"
MOST_CHARACTERS = 1_000
"""Characters of a product's text and id that are kept to be shown; the index has the words of the whole text."""
MOST_TERMS = 500_000
"""As of the feature `neighbours`, so that both may have the same index."""
MOST_TEXT_BYTES = 4 << 30
"""Bytes of all texts of the products; repeated texts count each time."""
_SCHEMA = pa.schema(
    [
        *((name, pa.large_string()) for name in ("id", "text", "name", "brand", "unit")),
        ("size", pa.float64()),
        ("price", pa.float64()),
    ]
)
_HIGHEST = 1e300
_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError),
    *(pa.ArrowException, OSError),
)
"""What reading damaged products raises; they are in memory, so an OSError is not that of a disk."""


@dataclass(frozen=True, repr=False)
class Products:
    """N products with known prices.

    Attributes:
        ids: as text, (N,).
        text: the beginnings of their texts, (N,).
        price: in the currency of the table, float64 (N,).
        facts: their names, brands, units and sizes.
        labels: with which the facts of other rows are found.
        index: finds the most similar ones.
    """

    ids: list[str]
    text: list[str]
    price: np.ndarray
    facts: Facts
    labels: Mapping[str, Any]
    index: Index

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Products({len(self):,})"

    @cached_property
    def brand_number(self) -> dict[str, int]:
        """A number for each brand."""
        return {brand: number for number, brand in enumerate(dict.fromkeys(self.facts.brand))}

    @cached_property
    def brands(self) -> np.ndarray:
        """The number of each product's brand, (N,)."""
        return np.array([self.brand_number[brand] for brand in self.facts.brand], np.int64)

    @cached_property
    def units(self) -> np.ndarray:
        """The unit of each product as fixed-width text, (N,)."""
        return np.array(self.facts.unit, "U6")

    @cached_property
    def rows_by_id(self) -> dict[str, int]:
        """The place of each id."""
        return {id_: place for place, id_ in enumerate(self.ids)}


def products_of(table: Table) -> Products:
    """Return the products of a table with prices; larger tables are sampled evenly to `MOST_ROWS`.

    Raises:
        DataError: the table has no row.
    """
    return _products(table)[0]


def files_of(table: Table, members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that a bundle stores of the products of a table, by name.

    Args:
        table: usable rows with their prices.
        members: the other JSON files of the bundle, which may contain the same index.

    Raises:
        DataError: the table has no row.
    """
    import pyarrow.parquet as pq  # few bundles contain products

    products, state = _products(table)
    facts = products.facts
    columns = [products.ids, products.text, facts.name, facts.brand, facts.unit, facts.size, products.price]
    sink = io.BytesIO()
    pq.write_table(
        pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), _SCHEMA), sink, compression="zstd"
    )
    same = next(_same(members, state), None)
    record = {"labels": products.labels, **({"index": state} if same is None else {"index_in": same})}
    return {ROWS: sink.getvalue(), INDEX: (json.dumps(record, ensure_ascii=False) + "\n").encode()}


def some_rows(table: Table) -> Table:
    """Return a table, sampled evenly to at most `MOST_ROWS` rows; raises DataError without rows."""
    if not len(table):
        raise DataError("the table of the comparables has no row; expected products with prices")
    if len(table) <= MOST_ROWS:
        return table
    logger.warning(f"of {len(table):,} products, {MOST_ROWS:,} are compared, chosen evenly")
    return table.take(evenly(len(table), MOST_ROWS))


def _products(table: Table) -> tuple[Products, dict[str, Any]]:
    table = some_rows(table)
    with progress("indexing products", 3) as advance:
        labels = learn_labels(table.text)
        facts = facts_of(table.text, labels)
        advance(1)
        texts = as_list(table.text)
        state = index_texts(texts, most_terms=MOST_TERMS)
        advance(1)
        index = open_index(state)
        advance(1)
    beginnings = [text[:MOST_CHARACTERS] for text in texts]
    ids = table.ids.astype("str").str[:MOST_CHARACTERS].tolist()
    return Products(ids, beginnings, table.known_price, facts, labels, index), state


def _same(members: Mapping[str, bytes], state: Mapping[str, Any]) -> Iterator[list[str | int]]:
    """Yield the way to each equal index: the file's name, and the names and places inside of it."""
    for name, content in members.items():
        for way, value in _objects(json.loads(content), [name]):
            if value == state:
                yield way


def _objects(value: Any, way: list[str | int]) -> Iterator[tuple[list[str | int], Mapping[str, Any]]]:
    if isinstance(value, dict):
        yield way, value
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _objects(inner, [*way, name])


def read_products(files: Mapping[str, bytes], bundle: Path) -> Products:
    """Return the products of a bundle.

    Args:
        files: the contents of its files by name.
        bundle: its folder, for errors.

    Raises:
        BundleError: they are damaged.
    """
    try:
        record = json.loads(files[INDEX])
        labels = Labels.model_validate(record["labels"]).model_dump()
        index = open_index(record["index"] if "index" in record else _follow(files, record["index_in"]))
        frame = _read_rows(files[ROWS], len(index))
    except _DAMAGE as error:
        raise BundleError(
            f"the comparables of the bundle {bundle} are damaged ({type(error).__name__}: {shorten(str(error), 200)}); "
            "export it again",
            path=bundle,
        ) from None
    names = ("id", "text", "name", "brand", "unit")
    ids, text, name, brand, unit = (frame[column].tolist() for column in names)
    facts = Facts(name, brand, unit, frame["size"].to_numpy())
    return Products(ids, text, frame["price"].to_numpy(), facts, labels, index)


def _follow(files: Mapping[str, bytes], way: Sequence[Any]) -> Any:
    value = json.loads(files[way[0]])
    for name in way[1:]:
        value = value[name]
    return value


def _read_rows(content: bytes, rows: int) -> pd.DataFrame:
    """Return the rows of the products; raise ValueError if they are not what `files_of` writes."""
    import pyarrow.parquet as pq

    strings = [field.name for field in _SCHEMA if pa.types.is_large_string(field.type)]
    if not pq.read_schema(io.BytesIO(content)).equals(_SCHEMA):
        raise ValueError("their columns are not those of comparables")
    file = pq.ParquetFile(io.BytesIO(content), read_dictionary=strings)  # equal texts are stored once
    if file.metadata.num_rows != rows:
        raise ValueError(f"they have {file.metadata.num_rows:,} rows for {rows:,} in the index")
    table = file.read()
    if any(column.null_count for column in table.columns):
        raise ValueError("a cell is missing")
    if (size_of := sum(_bytes_of(table[name]) for name in strings)) > MOST_TEXT_BYTES:
        raise ValueError(f"their texts have {size_of:,} bytes; expected {MOST_TEXT_BYTES:,} at most")
    texts = [chunk.dictionary for name in strings for chunk in table[name].chunks]
    if any((pc.max(pc.utf8_length(some)).as_py() or 0) > MOST_CHARACTERS for some in texts):
        raise ValueError(f"a text has more than {MOST_CHARACTERS:,} characters")
    frame = pd.DataFrame({name: table[name].to_pylist() for name in table.column_names})
    price, size = (frame[name].to_numpy(np.float64) for name in ("price", "size"))
    if not ((price > 0) & (price < _HIGHEST)).all() or not ((size >= 0) & (size < _HIGHEST)).all():
        raise ValueError("a price or a size is not a positive number")
    return frame


def _bytes_of(column: pa.ChunkedArray) -> int:
    """Return the bytes of the texts of a column that is encoded as a dictionary, repeated ones each time."""
    return sum(
        int(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0)
        for chunk in column.chunks
    )
