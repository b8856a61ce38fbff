import pyarrow as pa
import pytest

from pricekit.features import brand_category
from pricekit.features.brand_category import common_label, count_names, head_word, leading_words


def strings(*values: str) -> pa.LargeStringArray:
    return pa.array(values, pa.large_string())


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("acme green sauce, mild", ["acme", "acme green", "acme green sauce"]),
        ("acme, green sauce", ["acme", "", ""]),
        ('* "acme green', ["acme", "acme green", ""]),
        ("häagen  dazs", ["häagen", "häagen dazs", ""]),
        ("...", ["", "", ""]),
        ("", ["", "", ""]),
    ],
)
def test_leading_words(title: str, words: list[str]) -> None:
    assert [column[0].as_py() for column in leading_words(strings(title))] == words


@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("acme green sauce, 12 ounce", "sauce"),
        ("acme chocolate cookies (pack of 6)", "cookie"),
        ("garlic powder – 10.5 oz", "powder"),
        ("summer dress", "dress"),
        ("acme green tea 20 count", "tea"),
        ("tote bag for women", "bag"),
        ("pack of 2 t shirts", "shirt"),
        ("crème brûlée, 2 ct", "brûlée"),
        ("12 34", ""),
        ("", ""),
    ],
)
def test_head_word(title: str, head: str) -> None:
    assert head_word(strings(title)).to_pylist() == [head]


def test_counts_drop_single_names_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    column = strings("a", "b", "b", "c", "c", "", "", "")
    assert count_names([column]) == {"b": 2, "c": 2}
    assert count_names([column, strings("c")]) == {"c": 3, "b": 2}
    monkeypatch.setattr(brand_category, "MAX_NAMES", 1)
    assert count_names([column]) == {"b": 2}
    assert count_names([strings("c", "c", "b", "b")]) == {"b": 2}


def test_common_label() -> None:
    assert common_label(strings("produto: a", "produto: b", "c")) == "produto"
    assert common_label(strings("produto: a", "b", "c")) == ""
    assert common_label(strings("a", "b")) == ""
    assert common_label(strings()) == ""
