"""Table to model inputs: one object does it in training, evaluation and prediction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field
from tokenizers import Tokenizer

from pricekit.core.contracts import Batch
from pricekit.errors import BundleError, first_invalid_field
from pricekit.features.fitted import FittedFeatures
from pricekit.features.rowwise import FEW
from pricekit.table import Columns, Table
from pricekit.tokens import Tokens, WordCache, encode, pad_rows

FACT_CHARACTERS = 40
"""Longer lines are prose, not facts."""


@dataclass(frozen=True)
class Inputs:
    """The model inputs of N rows, not yet padded."""

    tokens: Tokens
    features: np.ndarray
    pad_id: int

    def __len__(self) -> int:
        return len(self.tokens)

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each kind of equal rows, (U,), and for each row which kind it is, (N,)."""
        ids, offsets = self.tokens.ids, self.tokens.offsets.tolist()
        features = [row.tobytes() for row in np.ascontiguousarray(self.features)]
        kinds: dict[tuple[bytes, bytes], int] = {}
        first: list[int] = []
        of = np.empty(len(self), np.int64)
        for row, found in enumerate(features):
            key = ids[offsets[row] : offsets[row + 1]].tobytes(), found
            of[row] = kinds.setdefault(key, len(first))
            if of[row] == len(first):
                first.append(row)
        return np.array(first, np.int64), of

    def batch(self, rows: np.ndarray, multiple_of: int = 1, max_length: int | None = None) -> Batch:
        """Return the padded inputs of some rows, in their order; see `pad_rows`."""
        input_ids, attention_mask = pad_rows(self.tokens, rows, self.pad_id, multiple_of, max_length)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "features": self.features[rows]}


@dataclass(frozen=True)
class Preprocessor:
    """Everything between a table and the model: columns, tokenizer, fitted features.

    With `facts_first` the tokens are those of texts that `short_lines_first` has rearranged. `known` are words
    that were met: see `encode`.
    """

    columns: Columns
    tokenizer: Tokenizer
    max_length: int
    pad_id: int
    features: FittedFeatures
    facts_first: bool = False
    word_cache: WordCache = field(default_factory=WordCache, repr=False, compare=False)

    def __call__(self, table: Table) -> Inputs:
        """Return the inputs of all rows; a second thread computes the features of more than a few."""
        visible = without_price(table, self.columns)
        if len(table) <= FEW:  # a thread would cost more than it saves
            return Inputs(self._tokens(table), self.features.transform(visible), self.pad_id)
        with ThreadPoolExecutor(1) as pool:
            features = pool.submit(self.features.transform, visible)
            return Inputs(self._tokens(table), features.result(), self.pad_id)

    def _tokens(self, table: Table) -> Tokens:
        return encode(self.tokenizer, self.texts(table), self.max_length, self.pad_id, self.word_cache)

    def texts(self, table: Table) -> list[str]:
        """Return the texts as they are tokenised."""
        texts: list[str] = table.text.tolist()
        return [short_lines_first(text) for text in texts] if self.facts_first else texts

    def files(self) -> dict[str, str]:
        """Return the two files that `load_preprocessor` reads, as texts by name."""
        record = {
            "columns": {"text": self.columns.text, "price": self.columns.price, "id": self.columns.id},
            "max_length": self.max_length,
            "pad_id": self.pad_id,
            "facts_first": self.facts_first,
            "features": self.features.to_json(),
        }
        return {
            "tokenizer.json": self.tokenizer.to_str(),
            "preprocess.json": json.dumps(record, ensure_ascii=False, indent=1) + "\n",
        }


def short_lines_first(text: str) -> str:
    """Return a text with its short lines directly after the first one.

    Of "Value: 12" at the end of a long text nothing is left when the text is cut at `max_length` tokens. Short are
    lines of at most `FACT_CHARACTERS`, their label included; both kinds keep their order.
    """
    first, *lines = text.split("\n")
    lines.sort(key=lambda line: len(line) > FACT_CHARACTERS)
    return "\n".join([first, *lines])


def without_price(table: Table, columns: Columns) -> Table:
    """Return the table as feature plugins see it: no price, neither as such nor among the columns."""
    seen = table.frame if columns.price not in table.frame else table.frame.drop(columns=columns.price)
    return replace(table, price=None, frame=seen)


FILES = ("tokenizer.json", "preprocess.json")


class _Named(BaseModel):
    text: tuple[str, ...] = Field(min_length=1)
    price: str | None
    id: str | None


class _Feature(BaseModel):
    name: str
    package: str
    version: str
    columns: list[str] | None = Field(None, description="older models do not say")
    options: dict[str, Any]
    state: Any


class _Record(BaseModel):
    """What preprocess.json holds."""

    columns: _Named
    max_length: int = Field(ge=1)
    pad_id: int = Field(ge=0)
    facts_first: bool = False
    features: list[_Feature]


def load_preprocessor(files: Mapping[str, bytes], where: Path) -> Preprocessor:
    """Open a preprocessor from its two files, which a run's and a bundle's folder hold.

    Args:
        files: contents by name.
        where: the folder, for messages.

    Raises:
        BundleError: a file is damaged.
        PluginError: a feature plugin is not installed.
    """
    try:
        record = _Record.model_validate(json.loads(files["preprocess.json"]))
        tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
    except Exception as error:  # the tokenizers library raises bare Exceptions
        raise BundleError(
            f"{where}: tokenizer.json or preprocess.json is damaged"
            f"{first_invalid_field(error) or f' ({type(error).__name__}: {error})'}; train or export it again"
        ) from None
    columns = Columns(record.columns.text, record.columns.price, record.columns.id)
    features = FittedFeatures.from_json([dict(part) for part in record.features])
    return Preprocessor(columns, tokenizer, record.max_length, record.pad_id, features, record.facts_first)
