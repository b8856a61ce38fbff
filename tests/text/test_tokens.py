import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import pricekit.text.tokens as tokens_module
from pricekit.features.preprocess import Inputs
from pricekit.text.tokens import (
    CHARS_PER_TOKEN,
    Tokens,
    WordCache,
    batches_by_length,
    encode,
    pad_id_of,
    pad_rows,
    splits_at_spaces,
)

WORDS = ["[PAD]", "[UNK]", "red", "green", "tea"]


@pytest.fixture(scope="module")
def tokenizer():
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def test_encode_and_pad_by_hand(tokenizer):
    tokens = encode(tokenizer, ["red tea", "", "green tea red tea"], max_length=3, pad_id=0)
    assert tokens.lengths.tolist() == [2, 1, 3]  # an empty text keeps one live token
    input_ids, mask = pad_rows(tokens, np.array([2, 0]), pad_id=0)
    assert input_ids.tolist() == [[3, 4, 2], [2, 4, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert input_ids.dtype == mask.dtype == np.int64


def test_texts_are_cut_before_they_are_tokenised(tokenizer):
    long = "red " * 10_000 + "tea"
    assert encode(tokenizer, [long], 4, 0).ids.tolist() == [2, 2, 2, 2]
    assert encode(tokenizer, [" " * CHARS_PER_TOKEN * 4 + "tea"], 4, 0).ids.tolist() == [0]


def test_the_pad_id_is_that_of_the_tokenizer(tokenizer):
    other = Tokenizer.from_str(tokenizer.to_str())
    other.enable_padding(pad_id=1, pad_token="[UNK]")
    assert (pad_id_of(tokenizer), pad_id_of(other)) == (0, 1)
    assert encode(other, ["red", "red tea"], 8, 1).lengths.tolist() == [1, 2]  # its padding is off


SPLITTERS = (
    pre_tokenizers.Whitespace(),
    pre_tokenizers.WhitespaceSplit(),
    pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("removed")]),
)
ODD = st.text(alphabet="re d[PA]\t\n\x1c\x85\xa0\u2003\u200bΣİ.,", max_size=30)


@pytest.fixture
def word_by_word(monkeypatch):
    """Tokenise a few texts like many: word by word."""
    monkeypatch.setattr(tokens_module, "FEW_TEXTS", 0)


@pytest.mark.parametrize("few", [0, 99])
@given(st.lists(st.text(max_size=30) | ODD), st.integers(1, 9))
@example(["red\x1c.\x1c.red tea"], 9)
def test_few_and_many_texts_have_the_ids_of_the_whole_text(few, texts, max_length):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens_module, "FEW_TEXTS", few)
        check_ids(texts, max_length)


def check_ids(texts, max_length):
    for made in map(words_of, SPLITTERS):
        assert splits_at_spaces(made)
        made.enable_truncation(max_length)
        expected = [made.encode(text[: CHARS_PER_TOKEN * max_length]).ids or [0] for text in texts]
        made.no_truncation()
        cache = WordCache()
        for _ in range(2):  # the second time all are cached
            tokens = encode(made, texts, max_length, 0, cache)
            assert [tokens.ids[a:b].tolist() for a, b in pairwise(tokens.offsets)] == expected


def words_of(splitter):
    ids = {letter: i for i, letter in enumerate("?redtapσi.,")} | {"re": 11, "red": 12}
    made = Tokenizer(models.BPE(ids, [("r", "e"), ("re", "d")], unk_token="?"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), splitter
    made.add_special_tokens(["[PAD]"])
    return made


def test_a_tokenizer_that_looks_beyond_a_word_gets_whole_texts():
    made = words_of(pre_tokenizers.Whitespace())
    made.add_tokens(["red tea"])
    assert not splits_at_spaces(made)
    made = words_of(pre_tokenizers.Metaspace())
    assert not splits_at_spaces(made)
    made = words_of(pre_tokenizers.Whitespace())
    made.post_processor = processors.TemplateProcessing(single="[PAD] $A", special_tokens=[("[PAD]", 13)])
    assert not splits_at_spaces(made)
    assert encode(made, ["red red"], 9, 0).ids.tolist() == [13, 12, 12]


def test_cached_words_are_looked_up_and_the_cache_is_bounded(monkeypatch, word_by_word):
    made, cache = words_of(pre_tokenizers.Whitespace()), WordCache()
    cache.words, cache.tokens = (
        pa.array(["tea"], pa.large_string()),
        pa.array([[3, 3, 3]], pa.list_(pa.int32())),
    )
    assert encode(made, ["red tea"], 9, 0, cache).ids.tolist() == [12, 3, 3, 3]
    assert cache.words.to_pylist() == ["tea", "red"]
    assert cache.tokens.to_pylist() == [[3, 3, 3], [12]]
    monkeypatch.setattr(tokens_module, "_CACHED_WORDS", 1)
    assert encode(made, ["tea"], 9, 0, cache).ids.tolist() == [4, 2, 5]
    assert cache.words.to_pylist() == ["tea"]


def test_words_as_long_as_texts_are_not_cached(word_by_word):
    made, cache = words_of(pre_tokenizers.Whitespace()), WordCache()
    for _ in range(2):
        assert encode(made, ["tea" * 99 + " red"], 999, 0, cache).ids.tolist() == [4, 2, 5] * 99 + [12]
        assert cache.words.to_pylist() == ["red"]
        assert cache.tokens.to_pylist() == [[12]]


def test_the_words_of_a_few_texts_are_kept_and_the_longest_are_not(monkeypatch):
    made, cache = words_of(pre_tokenizers.Whitespace()), WordCache()
    for _ in range(2):
        assert encode(made, ["tea" * 99 + " red"], 999, 0, cache).ids.tolist() == [4, 2, 5] * 99 + [12]
        assert cache.ids == {"red": [12]}
    cache.ids["red"] = [3, 3]
    assert encode(made, ["red tea"], 9, 0, cache).ids.tolist() == [3, 3, 4, 2, 5]
    monkeypatch.setattr(tokens_module, "_CACHED_WORDS", 1)
    assert encode(made, ["red"], 9, 0, cache).ids.tolist() == [12]


def test_few_words_are_not_looked_up_in_a_very_large_cache(word_by_word):
    made, cache = words_of(pre_tokenizers.Whitespace()), WordCache()
    cache.words, cache.tokens = (
        pa.array(["tea"] * 9, pa.large_string()),
        pa.array([[3, 3, 3]] * 9, pa.list_(pa.int32())),
    )
    assert encode(made, ["tea"], 9, 0, cache).ids.tolist() == [4, 2, 5]
    assert len(cache.words) == 9
    assert encode(made, [""], 9, 0, cache).ids.tolist() == [0]
    assert len(encode(made, [], 9, 0, cache)) == 0
    assert encode(made, ["tea red"], 9, 0, cache).ids.tolist() == [3, 3, 3, 12]


def test_several_threads_do_not_change_the_tokenizer_under_each_other(tokenizer, monkeypatch):
    inside, most, by_texts = [], [], tokens_module._ids_of_texts

    def watched(*given):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.005)
        inside.pop()
        return by_texts(*given)

    monkeypatch.setattr(tokens_module, "_ids_of_texts", watched)
    monkeypatch.setattr(tokens_module, "splits_at_spaces", lambda _: False)
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda n: encode(tokenizer, ["red green " * 9], n, 0).ids.tolist(), range(2, 12))
        )
    assert [len(ids) for ids in found] == [*range(2, 12)]
    assert max(most) == 1


@given(st.lists(st.text(alphabet="red tgn", max_size=40), min_size=1, max_size=8))
def test_unpadding_returns_the_tokens(tokenizer, texts):
    tokens = encode(tokenizer, texts, 6, 0)
    rows = np.arange(len(texts))[::-1]
    input_ids, mask = pad_rows(tokens, rows, pad_id=0)
    assert mask.sum(1).min() >= 1
    for row, ids, live in zip(rows, input_ids, mask, strict=True):
        expected = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        assert ids[live == 1].tolist() == expected.tolist()
        assert (np.diff(live) <= 0).all()  # padding comes last


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 7))
def test_batches_by_length_hold_every_row_once_in_order_of_length(lengths, size):
    lengths = np.array(lengths)
    batches = list(batches_by_length(lengths, np.arange(len(lengths)), size))
    rows = np.concatenate(batches)
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size
    assert (np.diff(lengths[rows]) >= 0).all()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 100))
def test_every_batch_fills_and_respects_the_token_budget(lengths, size, budget):
    lengths = np.array(lengths)
    batches = list(batches_by_length(lengths, np.arange(len(lengths)), size, budget))
    rows = np.concatenate(batches)
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert (np.diff(lengths[rows]) >= 0).all()
    for batch, following in pairwise([*batches, batches[-1][:0]]):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget
        if len(following) and len(batch) < size:
            assert (len(batch) + 1) * lengths[following[0]] > budget


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=20), st.data())
def test_tokens_of_some_rows(rows, data):
    tokens = Tokens(
        np.array([token for row in rows for token in row], np.int32), np.cumsum([0, *map(len, rows)])
    )
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=30))
    taken = tokens.take(np.array(chosen, np.int64))
    found = [taken.ids[a:b].tolist() for a, b in pairwise(taken.offsets)]
    assert found == [rows[row] for row in chosen]


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=2), st.integers(0, 1)), max_size=20)
)
def test_equal_inputs_form_one_group(rows):
    tokens = Tokens(
        np.array([token for ids, _ in rows for token in ids], np.int32),
        np.cumsum([0, *(len(ids) for ids, _ in rows)]),
    )
    first, kind = Inputs(tokens, np.array([[f] for _, f in rows], np.float32).reshape(-1, 1), 0).distinct()
    assert [rows[i] for i in first[kind]] == rows
    assert len(first) == len({(*ids, "and", f) for ids, f in rows})
    assert first.tolist() == sorted(first)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_tokenises_can_tokenise():
    """The child has no such thread, which would release the lock."""
    holds = threading.Event()

    def tokenise():
        with tokens_module._LOCK:
            holds.set()
            time.sleep(0.2)

    thread = threading.Thread(target=tokenise)
    thread.start()
    holds.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tokens_module._LOCK.acquire(timeout=5) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
    assert tokens_module._LOCK.acquire(timeout=5)
    tokens_module._LOCK.release()
