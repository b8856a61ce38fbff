import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pytest

from pricekit.text import labelled_lines
from pricekit.text.labelled_lines import (
    TEXT_CHARACTERS,
    TITLE_CHARACTERS,
    Lines,
    as_strings,
    join_texts,
    shared,
    split_lines,
)


def split(*texts: str) -> Lines:
    return split_lines(join_texts(pa.array(texts, pa.large_string())))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Item Name: Green Sauce\nValue: 1", "Green Sauce"),
        ("item_name:Green Sauce", "Green Sauce"),
        ("ProductName: Green Sauce\nProductBrand: Acme", "Green Sauce"),
        ("brand_name: Acme\nname: Green Sauce", "Green Sauce"),
        ("title: Green: Sauce", "Green: Sauce"),
        ("Item Name: Green Sauce\r\nValue: 1\r\n", "Green Sauce"),
        ("Item Name: A\nItem Name: B", "A"),
        ("Green Sauce", "Green Sauce"),
        ("Green: Sauce", "Green: Sauce"),
        ("produto: Arroz", "produto: Arroz"),
        ("description: Green Sauce", "Green Sauce"),
        ("\n", ""),
        ("", ""),
        ("x" * 400, "x" * TITLE_CHARACTERS),
        (" " * 50 + "title: x", "title: x"),
    ],
)
def test_title(text: str, title: str) -> None:
    assert split("before", text, "after").titles("").to_pylist() == ["before", title, "after"]


def test_title_without_the_label_that_most_texts_have() -> None:
    assert split("produto: Arroz", "Feijão", "title: produto: x").titles("produto").to_pylist() == [
        "Arroz",
        "Feijão",
        "produto: x",
    ]


def test_kinds_of_lines() -> None:
    found = split(
        "Bullet Point: a\nBullet Point 2: b\nBullet Point 13: c\nbullets: d\nBRAND: Acme\nDepartment: Toys"
    )
    assert found.count("bullet").tolist() == [3]
    assert found.find("brand").to_pylist() == ["Acme"]
    assert found.find("category").to_pylist() == ["Toys"]
    assert found.find("value").to_pylist() == [""]


def test_a_label_must_be_early_in_its_line() -> None:
    assert split("x" * 60 + " brand: Acme").find("brand").to_pylist() == [""]


def test_as_strings_cuts_absurd_texts_and_fills_gaps() -> None:
    found = as_strings(["é" * (TEXT_CHARACTERS + 5), None, "x"]).to_pylist()
    assert [len(text) for text in found] == [TEXT_CHARACTERS, 0, 1]


def test_parts_hold_every_text_once() -> None:
    texts = join_texts(pa.array(["abc", "", "d" * 30, "", "é"], pa.large_string()))
    for size in (1, 4, 16, 1000):
        parts = texts.parts(size)
        assert sum(len(part) for part in parts) == len(texts)
        assert b"".join(part.data.tobytes() for part in parts) == texts.data.tobytes()


def test_kinds_have_codes() -> None:
    assert set(labelled_lines.KIND_CODES.values()) == set(range(1, len(labelled_lines.KINDS) + 1))


def test_a_result_is_computed_once_for_one_series_and_key():
    calls = []

    def count(key, texts):
        return shared(texts, key, lambda: calls.append(key) or len(calls))

    one, other = (pd.Series(["a", "b"], dtype="str") for _ in range(2))
    assert [count(("x", {"a": 1}), one), count(("x", {"a": 1}), one), count(("x", {"a": 2}), one)] == [
        1,
        1,
        2,
    ]
    assert [count("x", other), count(("x", {"a": 1}), one)] == [
        3,
        4,
    ]  # only those of the latest series are kept
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(count, ("x", {"a": 1}), one).result() == 5


def test_shared_results_die_with_their_series():
    class Result:
        pass

    texts = pd.Series(["a"], dtype="str")
    result = weakref.ref(shared(texts, "key", Result))
    assert result() is not None
    del texts
    gc.collect()
    assert result() is None


def test_a_copy_has_the_results_of_its_original_until_it_is_changed():
    texts = pd.Series(["a", "b"], dtype="str")
    copy = pd.Series(texts.array.copy())
    assert shared(texts, "key", texts.tolist) == ["a", "b"]
    assert shared(copy, "key", lambda: 0) == ["a", "b"]
    copy[:] = "c"
    assert shared(copy, "key", lambda: 1) == 1
    assert shared(texts, "key", lambda: 2) == 2


def test_large_series_are_not_kept(monkeypatch):
    monkeypatch.setattr(labelled_lines, "SHARED_BYTES", 1)
    texts = pd.Series(["a", "b"], dtype="str")
    assert shared(texts, "key", lambda: 1) + shared(texts, "key", lambda: 2) == 3
