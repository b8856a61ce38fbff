"""Table to model inputs; training, evaluation and prediction use the same object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, field_validator
from tokenizers import Tokenizer

from pricekit.config.settings import MAX_LENGTH
from pricekit.core.contracts import Batch
from pricekit.errors import BundleError, first_invalid_field, is_panic
from pricekit.features.assets import MOST_ASSETS
from pricekit.features.fitted import FittedFeatures
from pricekit.features.parsed import FEW
from pricekit.io.causes import raise_outside_cause
from pricekit.io.cpus import in_threads
from pricekit.io.mapped import rows_read
from pricekit.io.packing import leaves
from pricekit.table import Columns, Table
from pricekit.table.table import Formats
from pricekit.text.labelled_lines import whole_strings
from pricekit.text.tokens import Tokens, WordCache, encode, encode_compiled, pad_rows
from pricekit.wording import shorten

SHORT_LINE_CHARACTERS = 40
"""Longer lines are prose; shorter ones state a fact, such as "Value: 12"."""


PART_ROWS = 8192
"""Rows whose features one thread computes at a time; fewer would compile regular expressions more often."""

MOST_TEXT_COLUMNS, MOST_FEATURES, MOST_FEATURE_COLUMNS = 1_000, 100, 10_000
LONGEST_NAME = 1_000
"""Characters of the name of a column or feature."""
LARGEST_ID = (1 << 31) - 1
"""Token ids are int32."""


@dataclass(frozen=True)
class Inputs:
    """The model inputs of N rows, without padding; those of a large table are in a mapped file.

    Attributes:
        tokens: the tokens of the texts.
        features: the feature columns, float32 (N, K).
        pad_id: the padding id.
    """

    tokens: Tokens
    features: np.ndarray
    pad_id: int

    def __len__(self) -> int:
        return len(self.tokens)

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Find equal rows.

        Returns:
            The first row of each of the U distinct inputs, int64 (U,), and for each row the index of its input
            among those, int64 (N,).
        """
        tokens = [
            self.tokens.ids[start:end].tobytes() for start, end in pairwise(self.tokens.offsets.tolist())
        ]
        features = [row.tobytes() for row in np.ascontiguousarray(self.features)]
        place: dict[tuple[bytes, bytes], int] = {}
        each = [place.setdefault(key, len(place)) for key in zip(tokens, features, strict=True)]
        inverse = np.array(each, np.int64)
        return np.unique(inverse, return_index=True)[1], inverse

    def with_column(self, place: int | list[int], values: np.ndarray | float) -> Inputs:
        """Return the inputs with other values, (N,) or one for all rows, in a feature column; in several, (N, C)."""
        features = self.features.copy()
        features[:, place] = values
        return replace(self, features=features)

    def batch(self, rows: np.ndarray, multiple_of: int = 1, max_length: int | None = None) -> Batch:
        """Return the padded inputs of rows, int (B,), in the given order; see `pad_rows`."""
        input_ids, attention_mask = pad_rows(self.tokens, rows, self.pad_id, multiple_of, max_length)
        features = self.features[rows]
        rows_read(len(rows))
        return {"input_ids": input_ids, "attention_mask": attention_mask, "features": features}


@dataclass(frozen=True)
class Preprocessor:
    """Converts tables to model inputs.

    Attributes:
        columns: the columns that the model reads.
        tokenizer: the model's tokenizer.
        max_length: the maximum number of tokens per text.
        pad_id: the padding id.
        features: the fitted feature plugins.
        facts_first: whether texts are rearranged by `short_lines_first` before they are tokenised.
        word_cache: see `pricekit.text.tokens.encode`.
    """

    columns: Columns
    tokenizer: Tokenizer
    max_length: int
    pad_id: int
    features: FittedFeatures
    facts_first: bool = False
    word_cache: WordCache = field(default_factory=WordCache, repr=False, compare=False)

    def __call__(self, table: Table) -> Inputs:
        """Return the inputs of all rows; for many rows, other threads compute the features."""
        visible = without_price(table, self.columns)
        if len(table) <= FEW:  # a thread would cost more than it saves
            return Inputs(self._tokens(table), self.features.transform(visible), self.pad_id)
        with ThreadPoolExecutor(1) as pool:
            features = pool.submit(self._features, visible)
            return Inputs(self._tokens(table), features.result(), self.pad_id)

    def of_texts(self, table: Table) -> Inputs:
        """Return the inputs of all rows with 0 for each feature, of which none is computed."""
        features = np.zeros((len(table), len(self.features.names)), np.float32)
        return Inputs(self._tokens(table), features, self.pad_id)

    def _features(self, visible: Table) -> np.ndarray:
        """Return the feature columns; of many rows, threads compute them in parts, each with small work arrays."""
        if len(visible) <= PART_ROWS:
            return self.features.transform(visible)
        return np.vstack(list(in_threads(self.features.transform, visible.windows(PART_ROWS))))

    def _tokens(self, table: Table) -> Tokens:
        length, pad_id, cache = self.max_length, self.pad_id, self.word_cache
        if cache.compiled is not None:
            short = SHORT_LINE_CHARACTERS if self.facts_first else -1
            texts = whole_strings(table.text)
            tokens = encode_compiled(self.tokenizer, texts, length, pad_id, cache, short)
            if tokens is not None:
                return tokens
        return encode(self.tokenizer, self.texts(table), length, pad_id, cache)

    def texts(self, table: Table) -> list[str]:
        """Return the texts in the form in which they are tokenised."""
        texts: list[str] = table.text.tolist()
        return [short_lines_first(text) for text in texts] if self.facts_first else texts

    def files(self, *, portable: bool = False) -> dict[str, str]:
        """Return the contents, by name, of the two files that `load_preprocessor` reads beside `features.assets`.

        `portable` leaves out what only this machine can use, see `FittedFeatures.to_json`.
        """
        record = {
            "columns": {
                "text": self.columns.text,
                "price": self.columns.price,
                "id": self.columns.id,
                "formats": (self.columns.formats or Formats()).model_dump(),
            },
            "max_length": self.max_length,
            "pad_id": self.pad_id,
            "facts_first": self.facts_first,
            "features": self.features.to_json(portable=portable),
        }
        return {
            "tokenizer.json": self.tokenizer.to_str(),
            "preprocess.json": json.dumps(record, ensure_ascii=False, indent=1) + "\n",
        }


def short_lines_first(text: str) -> str:
    """Return a text with its short lines moved directly behind the first line.

    Otherwise, truncation to `max_length` tokens loses a "Value: 12" at the end of a long text. A short line has at
    most `SHORT_LINE_CHARACTERS`, including its label. Short lines keep their order, and so do the others.

    Example:
        >>> short_lines_first("Tea\\n" + "Fine leaves. " * 9 + "\\nValue: 12").split("\\n")[1]
        'Value: 12'
    """
    first, *lines = text.split("\n")
    lines.sort(key=lambda line: len(line) > SHORT_LINE_CHARACTERS)
    return "\n".join([first, *lines])


def without_price(table: Table, columns: Columns) -> Table:
    """Return the table that feature plugins see: without the prices and without the price column."""
    frame = table.frame
    if columns.price in list(frame):
        frame = frame.drop(columns=columns.price)
    return replace(table, price=None, frame=frame)


def columns_read(preprocessors: Sequence[Preprocessor]) -> Columns:
    """Return the columns that models with the same text columns read together, with those of all their features."""
    others = dict.fromkeys(name for each in preprocessors for name in each.features.columns)
    return replace(preprocessors[0].columns, others=tuple(others))


FILES_OF_PREPROCESSOR = ("tokenizer.json", "preprocess.json")


_Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class _ColumnNames(BaseModel):
    text: tuple[_Name, ...] = Field(min_length=1, max_length=MOST_TEXT_COLUMNS)
    price: _Name | None
    id: _Name | None
    formats: Formats

    @field_validator("formats")
    @classmethod
    def _has_short_texts(cls, formats: Formats) -> Formats:
        texts = (value for value in leaves(formats.model_dump(mode="json")) if isinstance(value, str))
        if len(formats.columns) > MOST_TEXT_COLUMNS or max(map(len, texts), default=0) > LONGEST_NAME:
            raise ValueError(
                f"more columns than {MOST_TEXT_COLUMNS:,}, or a text of more than {LONGEST_NAME:,} characters"
            )
        return formats


class _Feature(BaseModel):
    name: _Name
    package: _Name
    version: _Name
    columns: list[_Name] = Field(max_length=MOST_FEATURE_COLUMNS)
    options: dict[str, Any]
    state: dict[str, Any]
    assets: dict[str, str] = Field({}, max_length=MOST_ASSETS, description="the file of each asset")


class Record(BaseModel):
    """The contents of preprocess.json."""

    columns: _ColumnNames
    max_length: int = Field(ge=1, le=MAX_LENGTH)
    pad_id: int = Field(ge=0, le=LARGEST_ID)
    facts_first: bool
    features: list[_Feature] = Field(max_length=MOST_FEATURES)


def load_preprocessor(files: Mapping[str, bytes], where: Path) -> Preprocessor:
    """Return the preprocessor that a run or a bundle stores in two files, and in assets of features.

    Args:
        files: their contents by name, see `FILES_OF_PREPROCESSOR`; there may be others.
        where: the folder, for error messages.

    Raises:
        BundleError: a file is missing or damaged.
        PluginError: a feature plugin is not installed.
    """
    try:
        record = Record.model_validate(json.loads(files["preprocess.json"]))
        tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
    except BaseException as error:  # the tokenizers library raises bare Exceptions, and panics
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise_outside_cause(error)
        reason = first_invalid_field(error) or f" ({type(error).__name__}: {shorten(str(error), 300)})"
        raise BundleError(
            f"{where}: tokenizer.json or preprocess.json is damaged{reason}; train or export it again"
        ) from None
    named = record.columns
    columns = Columns(named.text, named.price, named.id, formats=named.formats)
    features = FittedFeatures.from_json([dict(part) for part in record.features], files)
    return Preprocessor(columns, tokenizer, record.max_length, record.pad_id, features, record.facts_first)
