"""The texts that runs were trained on."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from pricekit.errors import TrainingError
from pricekit.runs.seen import NOTHING, read_seen, write_seen

TEXTS = st.lists(st.sampled_from("abcdefgh"), max_size=8)


def series(texts):
    return pd.Series(texts, dtype="str")


def column(texts, start):
    return {"price": start + np.arange(len(texts), dtype=np.float32)}


@given(TEXTS, TEXTS)
def test_it_knows_each_text_once_with_its_newest_values(first, second):
    earlier = NOTHING.with_rows(series(first), column(first, 0)).as_earlier()
    seen = earlier.with_rows(series(second), column(second, 100))
    expected = {text: 0.0 + first.index(text) for text in reversed(first)}
    expected |= {text: 100.0 + second.index(text) for text in second}
    assert len(seen.text) == len(expected)
    row = seen.rows_of(series(list("abcdefgh")))
    found = {text: float(seen.columns["price"][n]) for text, n in zip("abcdefgh", row, strict=True) if n >= 0}
    assert found == expected
    was = seen.earlier_rows(series(list("abcdefgh")))
    assert was.tolist() == [text in first for text in "abcdefgh"]


def test_it_is_the_same_after_it_is_written(tmp_path):
    seen = NOTHING.with_rows(series(["a", "b"]), column("ab", 0)).as_earlier()
    seen = seen.with_rows(series(["b", "c"]), column("bc", 5))
    write_seen(tmp_path, seen)
    found = read_seen(tmp_path)
    assert found.text.tolist() == seen.text.tolist()
    assert found.earlier.tolist() == seen.earlier.tolist()
    assert {name: values.tolist() for name, values in found.columns.items()} == {
        "price": seen.columns["price"].tolist()
    }


def test_a_missing_file_is_named(tmp_path, raises):
    with raises(TrainingError, "init"):
        read_seen(tmp_path)
