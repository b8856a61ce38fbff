"""Nearest rows by TF-IDF, by the model's own encoding, and by both: what their prices add to a model.

    python benchmarks/neighbour_encodings.py CV...

CV is a cross-validation without the feature `neighbours`. The neighbours of a held-out row are rows of the other folds,
and the encoding is that of the model of its fold, centred, with the cosine as similarity. "both" averages the two
similarities. The script prints the SMAPE of the neighbours' price alone (k = 8, weights similarity³), and of the
model's price mixed with it by the weights 0 to 0.5, on the log scale.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pricekit.features.neighbours import MOST_TERMS, index_texts, nearest, open_index
from pricekit.metrics import smape
from pricekit.runs.opened import LoadedRun, open_run
from pricekit.table import table_of_texts

NEIGHBOURS, BATCH = 8, 256
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def encodings(run: LoadedRun, texts: list[str]) -> np.ndarray:
    """Return the encoding of each text, float32 (N, H)."""
    inputs, found = run.preprocessor(table_of_texts(texts)), []
    run.model.eval()
    with torch.no_grad():
        for start in range(0, len(texts), BATCH):
            batch = inputs.batch(np.arange(start, min(start + BATCH, len(texts))))
            ids, mask = (torch.from_numpy(batch[name]) for name in ("input_ids", "attention_mask"))
            found.append(run.model.encoder(ids.long(), mask.long()).numpy())
    return np.vstack(found)


def similarities(run: LoadedRun, known: list[str], new: list[str]) -> dict[str, np.ndarray]:
    """Return the similarity of each new text and each known one, (M, N), by method."""
    vectors = encodings(run, [*known, *new])
    vectors -= vectors[: len(known)].mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    encoding = np.maximum(vectors[len(known) :] @ vectors[: len(known)].T, 0)
    words = np.zeros_like(encoding)
    index = open_index(index_texts(known, most_terms=MOST_TERMS))
    for number, (row, similarity) in enumerate(zip(*nearest(index, new, len(known)), strict=True)):
        words[number, row[row >= 0]] = similarity[row >= 0]
    return {"TF-IDF": words, "encoding": encoding, "both": (words + encoding) / 2}


def neighbour_price(similarity: np.ndarray, log_price: np.ndarray) -> np.ndarray:
    """Return the log price of the nearest rows, (M,)."""
    rows = np.argpartition(-similarity, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    weight = np.take_along_axis(similarity, rows, axis=1).astype(float) ** 3
    total = weight.sum(1)
    mean = (weight * log_price[rows]).sum(1) / np.maximum(total, 1e-12)
    return np.where(total > 0, mean, log_price.mean())


def main(folder: Path) -> None:
    """Measure one cross-validation and print a line per method."""
    held_out = pd.read_parquet(folder / "held_out.parquet")
    text, fold = held_out["text"], held_out["fold"].to_numpy()
    price, log_price = held_out["price"].to_numpy(float), np.log(held_out["price"].to_numpy(float))
    found: dict[str, np.ndarray] = {}
    for number in np.unique(fold):
        others = fold != number
        run = open_run(folder / f"fold-{number}")
        for method, values in similarities(run, text[others].tolist(), text[~others].tolist()).items():
            found.setdefault(method, np.zeros(len(text)))[~others] = neighbour_price(
                values, log_price[others]
            )
    own = np.log(held_out["predicted"].to_numpy(float))
    print(f"{folder}: the model alone {smape(np.exp(own), price):.2f}")
    for method, near in found.items():
        mixed = [smape(np.exp((1 - weight) * own + weight * near), price) for weight in WEIGHTS]
        print(f"{method:>9}: alone {smape(np.exp(near), price):.2f}; mixed", *(f"{one:.2f}" for one in mixed))


if __name__ == "__main__":
    for argument in sys.argv[1:] or sys.exit(__doc__):
        main(Path(argument))
