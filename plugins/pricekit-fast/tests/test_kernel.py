"""The compiled functions have the results of Python, and refuse arguments that contradict each other."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pricekit_fast import kernel
from pricekit_fast.kernel import FastKernel

from pricekit.features.preprocess import SHORT_LINE_CHARACTERS, short_lines_first
from pricekit.features.trees import CrossTerms, WordTerms
from pricekit.plugin import KERNEL, PluginError
from pricekit.testing import check_kernel
from pricekit.text.kernel import using
from pricekit.text.labelled_lines import FEW_TEXTS, bytes_of, join_texts
from pricekit.text.normal import normal_texts
from pricekit.text.tokens import WordCache, encode, encode_compiled, train_bpe
from pricekit.text.words import Words

ODD = "aA9é .!?,\n\t\r\x00\x1c\x85\xa0\u3000\u1680\u2028ßİΣ𝒜½"
TEXTS = st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from(ODD)), max_size=8)
SMALL = st.integers(-3, 20)
TOKENIZER = train_bpe(
    ["green tea ßİΣ aA9é 12"] * 9, 300, ["[PAD]", "[UNK]"], unknown="[UNK]", punctuation=False
)


@pytest.mark.parametrize("check", check_kernel(FastKernel), ids=str)
def test_the_kernel_passes_the_conformance_checks(check):
    check()


def read(texts, categories):
    """Return all that words of texts yield."""
    words = Words(join_texts(pa.array(texts, pa.large_string())))
    table = np.append(np.arange(1 << 20) * 0x1234567, 0)
    small = np.append(table[: 1 << 18], 0)
    sums = WordTerms(words).sums(small), CrossTerms(words, categories).sums(table)
    statistics = words.mean_length(), words.richness(), words.sentences(), words.commas()
    return [words.count, words.hashes, *words.first_lines(3), *statistics, *sums]


@settings(max_examples=300)
@given(TEXTS)
def test_words_of_any_unicode_are_those_of_python(texts):
    categories = np.arange(2 * len(texts)).reshape(-1, 2) % 3
    with using(None):
        expected = read(texts, categories)
    with using(FastKernel()):
        actual = read(texts, categories)
    for one, other in zip(actual, expected, strict=True):
        assert np.array_equal(one, other)


@settings(max_examples=300)
@given(TEXTS, st.integers(1, 20), st.booleans())
def test_tokens_and_normal_forms_of_any_unicode_are_those_of_python(texts, length, facts_first):
    texts = [
        f"{text}{number}" for number, text in enumerate([*texts, *["green tea\nValue: 1"] * (FEW_TEXTS + 1)])
    ]
    strings = pa.array(texts, pa.large_string())
    moved = [short_lines_first(text) if facts_first else text for text in texts]
    with using(None):
        expected, normal = encode(TOKENIZER, moved, length, 0), normal_texts(strings)
    short = SHORT_LINE_CHARACTERS if facts_first else -1
    with using(FastKernel()):
        actual = encode_compiled(TOKENIZER, strings, length, 0, WordCache(), short)
        assert normal_texts(strings).equals(normal)
    assert np.array_equal(actual.ids, expected.ids)
    assert np.array_equal(actual.offsets, expected.offsets)


SPACES = re.compile(
    "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
)  # Unicode, White_Space
LINES = st.text(st.sampled_from("ab \n\n\r\x85\xa0\u1680\u2003\u200b\u2028\u205f\u3000é\x1cßΣ𝒜"), max_size=40)


def moved(text, short):
    """Return a text with its short lines behind the first one."""
    first, *lines = text.split("\n")
    return "\n".join([first, *sorted(lines, key=lambda line: len(line) > short)])


@settings(max_examples=500)
@given(st.lists(LINES, max_size=5), st.integers(0, 30), st.integers(-1, 5), st.integers(0, 12))
def test_the_first_characters_of_texts_are_read_short_lines_first(texts, characters, short, most):
    known = {}

    def tokenize(words):
        numbers = [known.setdefault(word, len(known)) for word in words]
        assert numbers == list(range(len(known) - len(words), len(known)))  # each word is asked for once
        return np.array(numbers, np.int32), np.arange(len(words) + 1)

    cut = [(text if short < 0 else moved(text, short))[:characters] for text in texts]
    expected = [[word for word in SPACES.split(text) if word][:most] for text in cut]
    offset, data = bytes_of(pa.array(texts, pa.large_string()))
    ids, lengths = FastKernel().word_ids(1000, 1000)(data, offset, most, characters, short, tokenize)
    assert lengths.tolist() == [len(words) for words in expected]
    names = list(known)
    assert [names[number] for number in ids] == [word for words in expected for word in words]


def test_hashes_of_long_words_are_those_of_python():
    texts = [f"{'x' * length}{end}" for length in range(80) for end in "Yz"]
    with using(None):
        expected = Words(join_texts(pa.array(texts, pa.large_string()))).hashes
    with using(FastKernel()):
        assert np.array_equal(Words(join_texts(pa.array(texts, pa.large_string()))).hashes, expected)


def test_words_that_were_seen_are_forgotten_when_they_are_too_many():
    asked = []

    def tokenize(words):
        asked.append(sorted(words))
        return np.arange(len(words), dtype=np.int32), np.arange(len(words) + 1)

    ids = FastKernel().word_ids(3, 100)

    def read(text):
        data = np.frombuffer(text.encode(), np.uint8)
        return ids(data, np.array([0, len(data)]), 9, 999, -1, tokenize)[1].tolist()

    assert [read(text) for text in ("a b", "b a", "c d", "a", "a" * 101, "a")] == [
        [2],
        [2],
        [2],
        [1],
        [1],
        [1],
    ]
    assert asked == [["a", "b"], ["c", "d"], ["a"], ["a" * 101], ["a"]]


def test_words_without_ids_are_forgotten():
    ids, data = FastKernel().word_ids(100, 100), np.frombuffer(b"a b", np.uint8)

    def failing(words):
        raise KeyError(*words[:1])

    for _ in range(2):
        with pytest.raises(KeyError):
            ids(data, np.array([0, 3]), 9, 99, -1, failing)
    with pytest.raises(ValueError, match="2 words"):
        ids(data, np.array([0, 3]), 9, 99, -1, lambda words: (np.zeros(1), np.zeros(2)))
    found, lengths = ids(
        data, np.array([0, 3]), 9, 99, -1, lambda words: (np.array([5, 6, 7]), np.array([0, 1, 3]))
    )
    assert (found.tolist(), lengths.tolist()) == ([5, 6, 7], [3])


@settings(max_examples=200)
@given(st.binary(max_size=60), st.lists(SMALL, min_size=1, max_size=6), st.integers(0, 12))
def test_arbitrary_bytes_and_offsets_are_read_or_refused(data, offset, words):
    """The sizes of outputs are those that the functions are told; the sanitizers watch them in test_fuzz.py."""
    data, offset = np.frombuffer(data, np.uint8), np.array(offset)
    rows = len(offset) - 1
    each = [np.zeros(rows, np.int64) for _ in range(5)]
    fits = offset[0] >= 0 and offset[-1] <= len(data) and (np.diff(offset) >= 0).all()
    try:
        count = kernel.call("pricekit_count_words", data, len(data), offset, rows)
        edges, hashes = np.zeros(2 * words, np.int64), np.zeros(words, np.uint64)
        found = kernel.call("pricekit_words", data, len(data), offset, rows, words, edges, hashes, *each)
        assert found == count <= words
    except ValueError:
        assert not fits or count > words


@pytest.mark.parametrize(
    "arguments",
    [
        (1, [1], [0.0], [1], [0]),  # a column beyond the last
        (1, [-2], [0.0], [1], [0]),
        (1, [0, -1, -1], [0.0, 1.0, 1.0], [1, 0, 0], [0]),  # a right child that is the left one
        (1, [0, -1, -1], [0.0, 1.0, 1.0], [3, 0, 0], [0]),
        (1, [0, -1, -1], [0.0, np.nan, 1.0], [2, 0, 0], [0]),
        (1, [0, -1, -1], [0.0, 1.0, 1.0], [2, 0, 0], [5]),
        (1, [0, -1, -1], [0.0, 1.0, 1.0], [2, 0, 0], [1]),
        (1, [0, -1], [0.0], [2, 0, 0], [1]),
    ],
)
def test_damaged_trees_are_refused(arguments, raises):
    columns, feature, value, right, roots = arguments
    with raises(ValueError):
        FastKernel().trees(
            columns, np.array(feature), np.array(value, np.float32), np.array(right), np.array(roots)
        )


@pytest.mark.parametrize(
    ("row", "word"), [([0, 2], [0, 0]), ([1, 0], [0, 0]), ([-1], [0]), ([0], [1]), ([0], [-1]), ([0], [0, 0])]
)
def test_occurrences_outside_of_the_rows_are_refused(row, word, raises):
    trees = FastKernel().trees(
        2, np.array([0, -1, -1]), np.array([0, 3, 4], np.float32), np.array([2, 0, 0]), np.array([0])
    )
    dense = np.zeros((2, 1), np.float32)
    assert trees(dense, np.array([0, 1]), np.array([0, 0])).tolist() == [3, 3]
    with raises(ValueError):
        trees(dense, np.array(row), np.array(word))


def test_it_is_written_for_this_version():
    assert FastKernel().version == KERNEL


def test_a_library_that_is_missing_damaged_or_of_another_version_is_an_error(tmp_path, monkeypatch, raises):
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "kernel.py"))
    uncached = kernel.library.__wrapped__
    with raises(PluginError):
        uncached()
    (tmp_path / "_kernel.so").write_bytes(b"no library")
    with raises(PluginError):
        uncached()
    monkeypatch.setattr(kernel, "ABI", 7)
    shutil.copy(Path(kernel.library()._name), tmp_path / "_kernel.so")
    with raises(PluginError):
        uncached()


def test_the_library_needs_no_python():
    assert isinstance(kernel.library(), ctypes.CDLL)
    if sys.platform == "linux" and shutil.which("nm"):
        symbols = subprocess.run(
            ["nm", "-D", "--undefined-only", kernel.library()._name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert " Py" not in symbols
