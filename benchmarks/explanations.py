"""Whether explanations name the words that matter, against shap's partition explainer with as many prices.

    python -m pip install shap
    python benchmarks/explanations.py RUN_OR_BUNDLE TABLE --rows 100

For each row, both explain the log price, and shap may ask for as many prices as pricekit asked for. Then the five
words with the largest contributions in one direction are removed, and five random ones. The result is how far the log
price moves. shap's words are those between spaces, like pricekit's. A part of several words counts as its words, each
with an equal share.
"""

import argparse
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import pricekit as pk
from pricekit.cli.terminal import show_table
from pricekit.insight import EVALUATIONS
from pricekit.insight.explanations import Explanation
from pricekit.table import read_table

WORDS = 5
REMOVED = "\u2400"
"""What shap writes in the place of a removed word."""


def main() -> None:
    """Parse the command line and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--evaluations", type=int, nargs="+", default=[EVALUATIONS])
    parser.add_argument("--no-shap", action="store_true")
    options = parser.parse_args()
    model = pk.load(options.model)
    columns = replace(model.columns, price=None)
    texts = read_table(options.table, columns, limit=options.rows).text.tolist()
    lines = []
    for evaluations in options.evaluations:
        started = time.perf_counter()
        ours = [_words(found) for found in model.explain(texts, evaluations=evaluations)]
        seconds = (time.perf_counter() - started) / len(texts)
        lines.append([f"pricekit, {evaluations}", *_moves(model, texts, ours), f"{seconds * 1000:.0f}"])
        if not options.no_shap:
            started = time.perf_counter()
            theirs = _by_shap(model, texts, evaluations)
            seconds = (time.perf_counter() - started) / len(texts)
            lines.append([f"shap, {evaluations}", *_moves(model, texts, theirs), f"{seconds * 1000:.0f}"])
    generator = np.random.default_rng(0)
    chance = [generator.random(len(_places(text))) for text in texts]
    lines.append(["five random words", *_moves(model, texts, chance), ""])
    heads = ["explainer, prices for a row", "mean change of the log price", "median", "ms for a row"]
    show_table("the five words with the largest contributions, removed", heads, lines, stderr=False)


def _places(text: str) -> list[tuple[int, int]]:
    return [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]


def _words(found: Explanation) -> np.ndarray:
    """Return the contribution of each word of a text."""
    (cell,) = found.cells.values()
    places = _places(cell)
    values = np.zeros(len(places))
    for part in found.words():
        inside = [n for n, (start, end) in enumerate(places) if start < part.end and end > part.start]
        values[inside] += part.log / max(1, len(inside))
    return values


def _by_shap(model: pk.Model, texts: list[str], evaluations: int) -> list[np.ndarray]:
    import shap

    def log_prices(some: np.ndarray) -> np.ndarray:
        return np.log(model.predict([text.replace(REMOVED, "") for text in some]).astype(np.float64))

    masker = shap.maskers.Text(r"\s+", mask_token=REMOVED, collapse_mask_token=False)
    explainer = shap.explainers.Partition(log_prices, masker)
    found = []
    for text in texts:
        values = explainer([text], max_evals=evaluations, silent=True, batch_size=evaluations)
        found.append(np.asarray(values.values[0], float).reshape(-1)[: len(_places(text))])
    return found


def _moves(model: pk.Model, texts: list[str], values: list[np.ndarray]) -> list[str]:
    """Return how far the log price moves without the words with the largest values: mean and median."""
    without = []
    for text, contributions in zip(texts, values, strict=True):
        removed = set(_top(contributions).tolist())
        kept, start = [], 0
        for number, (first, last) in enumerate(_places(text)):
            if number in removed:
                kept.append(text[start:first])
                start = last
        without.append("".join([*kept, text[start:]]))
    change = np.abs(np.log(model.predict(without)) - np.log(model.predict(texts)))
    return [f"{change.mean():.3f}", f"{np.median(change):.3f}"]


def _top(contributions: np.ndarray) -> np.ndarray:
    """Return the words that move the price most in one direction: the one with the larger sum."""
    up, down = np.argsort(-contributions)[:WORDS], np.argsort(contributions)[:WORDS]
    return up if contributions[up].sum() >= -contributions[down].sum() else down


if __name__ == "__main__":
    main()
