"""The checks of a kernel: its results are those of Python on invented texts, terms and trees."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from pricekit.features.forest import LEAF, Forest
from pricekit.features.preprocess import SHORT_LINE_CHARACTERS, short_lines_first
from pricekit.features.trees import CrossTerms, TextTerms, WordTerms
from pricekit.testing.data import ordinary_texts
from pricekit.testing.runner import Checks, Make, fail, require_import_without_torch, require_methods
from pricekit.text.kernel import KERNEL, Kernel, using
from pricekit.text.labelled_lines import FEW_TEXTS, Ints, Strings, Texts, as_strings, bytes_of, join_texts
from pricekit.text.normal import normal_texts
from pricekit.text.tokens import WordCache, encode, encode_compiled, pad_rows, train_bpe
from pricekit.text.words import Words, WordTable
from pricekit.wording import shorten

ROUNDS = 20
"""Tables of invented rows on which each function is compared."""

_PIECES = [
    "tea",
    "Tea",
    "TEA",
    "green",
    "é½",
    "12",
    "5kg",
    "!",
    ".",
    "? ",
    ",",
    "\n",
    "\n",
    "\nValue: 12\n",
    "\u200b",
    "\xa0",
    "e\u0301",
    "\r",
    "a" * 70,
    "\x00",
    "\u3000",
]

_MANY = FEW_TEXTS + 9
"""Texts that are read together, not one by one."""

FUNCTIONS = (
    "words",
    "distinct",
    "sum_words",
    "sum_crosses",
    "odd_texts",
    "word_ids",
    "pad",
    "finder",
    "trees",
)


def checks() -> Checks:
    """Return the checks; see `pricekit.testing.check_kernel`."""
    return {
        "has all functions and the version": _members,
        "words of texts": partial(_equal, _words),
        "sums over terms": partial(_equal, _sums),
        "normal forms of texts": partial(_equal, _normal),
        "token ids": partial(_equal, _tokens),
        "known words": partial(_equal, _known),
        "trees": partial(_equal, _trees),
        "module imports no torch": lambda make: require_import_without_torch(make()),
    }


def _members(make: Make) -> None:
    kernel = make()
    require_methods(kernel, *FUNCTIONS)
    if kernel.version != KERNEL:
        fail(
            f"version is {kernel.version!r}",
            f"{KERNEL}",
            "compare each function with this version of pricekit",
        )


def _equal(compute: Callable[[np.random.Generator], list[Any]], make: Make) -> None:
    """Fail unless a computation has the same results with and without the kernel."""
    kernel: Kernel = make()
    for number in range(ROUNDS):
        with using(None):
            expected = compute(np.random.default_rng(number))
        with using(kernel):
            actual = compute(np.random.default_rng(number))
        for place, (one, other) in enumerate(zip(actual, expected, strict=True)):
            if not np.array_equal(one, other):
                fail(
                    f"result {place + 1} of {compute.__name__.strip('_')} is {shorten(repr(one), 200)}",
                    shorten(repr(other), 200),
                    "compute what Python does, to the bit",
                )


def invented_texts(random: np.random.Generator) -> Texts:
    """Return some texts of common words, odd characters and characters of all planes."""
    return join_texts(_strings(random, int(random.integers(0, _MANY))))


def _strings(random: np.random.Generator, rows: int) -> Strings:
    texts = []
    for _ in range(rows):
        codes = random.integers(0, 0x110000, random.integers(0, 9))
        odd = [chr(code) for code in codes if not 0xD800 <= code < 0xE000]
        pieces = [*random.choice(_PIECES, random.integers(0, 40)), *odd]
        random.shuffle(pieces)
        texts.append(random.choice(["", " "]).join(pieces))
    return as_strings(pd.Series(texts, dtype=object))


def _words(random: np.random.Generator) -> list[Any]:
    words = Words(invented_texts(random))
    lines = words.first_lines(5)
    statistics = words.mean_length(), words.richness(), words.sentences(), words.commas()
    return [words.count, words.hashes, words.row(), *lines, *statistics]


def _sums(random: np.random.Generator) -> list[Any]:
    words = Words(invented_texts(random))
    categories = random.integers(0, 3, (len(words.count), random.integers(0, 4)))
    terms: list[TextTerms] = [WordTerms(words), CrossTerms(words, categories)]
    return [each.sums(_table(random, each.bits)) for each in terms]


def _table(random: np.random.Generator, bits: int) -> Ints:
    table = random.integers(-(1 << 40), 1 << 40, (1 << bits) + 1)
    table[-1] = 0
    return table


def _normal(random: np.random.Generator) -> list[Any]:
    return [*bytes_of(normal_texts(_strings(random, _MANY)))]


@cache
def _tokenizer(*, letters_only: bool) -> Tokenizer:
    return train_bpe(ordinary_texts(), 300, ["[PAD]", "[UNK]"], unknown="[UNK]", punctuation=not letters_only)


def _tokens(random: np.random.Generator) -> list[Any]:
    tokenizer, cache = _tokenizer(letters_only=random.random() < 0.5), WordCache()
    results: list[Any] = []
    for _ in range(3):
        texts, length = _strings(random, _MANY), int(random.integers(1, 40))
        short = int(random.choice([-1, SHORT_LINE_CHARACTERS]))
        tokens = encode_compiled(tokenizer, texts, length, 0, cache, short)
        if tokens is None:
            moved = [text if short < 0 else short_lines_first(text) for text in texts.to_pylist()]
            tokens = encode(tokenizer, moved, length, 0, cache)
        rows = random.permutation(len(texts))[: random.integers(1, 20)]
        results += [tokens.ids, tokens.offsets, *pad_rows(tokens, rows, 3, int(random.integers(1, 9)), 40)]
    return results


def _known(random: np.random.Generator) -> list[Any]:
    words = Words(invented_texts(random))
    table = WordTable([f"tea{number}" for number in range(random.integers(0, 400))] + ["tea", "green"])
    return [*table.find(words)]


def _trees(random: np.random.Generator) -> list[Any]:
    columns = int(random.integers(1, 9))
    feature, value = [
        np.array(part) for part in zip(*_grown(random, columns, int(random.integers(1, 7))), strict=True)
    ]
    forest = Forest(columns, feature, value.astype(np.float32), 0.5, 0.25)
    dense = int(random.integers(0, columns + 1))
    rows = np.round(random.normal(size=(int(random.integers(0, 20)), dense)), 1).astype(np.float32)
    occurrences = int(random.integers(0, 30)) if dense < columns and len(rows) else 0
    row = np.sort(random.integers(0, max(1, len(rows)), occurrences))
    return [forest.predict(rows, (row, random.integers(0, max(1, columns - dense), occurrences)))]


def _grown(random: np.random.Generator, columns: int, trees: int) -> list[tuple[int, float]]:
    """Return the nodes of random trees in preorder, with more leaves than bits of a number in some."""
    nodes: list[tuple[int, float]] = []
    for _ in range(trees):
        open_nodes, splits = 1, int(random.choice([1, 5, 200]))
        while open_nodes:
            if splits:
                nodes.append((int(random.integers(0, columns)), float(np.round(random.normal(), 1))))
                splits, open_nodes = splits - 1, open_nodes + 1
                if random.random() < 0.5:
                    nodes.append((LEAF, float(random.integers(-1000, 1000))))
                    open_nodes -= 1
            else:
                nodes.append((LEAF, float(random.integers(-1000, 1000))))
                open_nodes -= 1
    return nodes
