"""Table to model inputs: one object does it in training, evaluation and prediction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from pricekit.features.fitted import FittedFeatures
from pricekit.table import Columns, Table
from pricekit.tokens import Tokens, encode, pad

Batch = dict[str, np.ndarray]
"""`input_ids`, `attention_mask`: int64 (B, L); `features`: float32 (B, K)."""


@dataclass(frozen=True)
class Inputs:
    """The model inputs of N rows, not yet padded."""

    tokens: Tokens
    features: np.ndarray
    pad_id: int

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        """Return the padded inputs of some rows, in their order."""
        input_ids, attention_mask = pad(self.tokens, rows, self.pad_id)
        return {"input_ids": input_ids, "attention_mask": attention_mask, "features": self.features[rows]}


@dataclass(frozen=True)
class Preprocessor:
    """Everything between a table and the model: columns, tokenizer, fitted features."""

    columns: Columns
    tokenizer: Tokenizer
    max_length: int
    pad_id: int
    features: FittedFeatures

    def __call__(self, table: Table) -> Inputs:
        """Return the inputs of all rows."""
        tokens = encode(self.tokenizer, table.text.tolist(), self.max_length, self.pad_id)
        return Inputs(tokens, self.features.transform(table), self.pad_id)

    def files(self) -> dict[str, str]:
        """Return the two files that `load_preprocessor` reads, as texts by name."""
        record = {
            "columns": {"text": self.columns.text, "price": self.columns.price, "id": self.columns.id},
            "max_length": self.max_length,
            "pad_id": self.pad_id,
            "features": self.features.to_json(),
        }
        return {
            "tokenizer.json": self.tokenizer.to_str(),
            "preprocess.json": json.dumps(record, ensure_ascii=False, indent=1) + "\n",
        }


def load_preprocessor(folder: Path) -> Preprocessor:
    """Open a preprocessor from a run's or a bundle's folder; raises PluginError."""
    record = json.loads((folder / "preprocess.json").read_text("utf-8"))
    columns = record["columns"]
    return Preprocessor(
        Columns(tuple(columns["text"]), columns["price"], columns["id"]),
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        record["max_length"],
        record["pad_id"],
        FittedFeatures.from_json(record["features"]),
    )
