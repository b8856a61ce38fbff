"""Brand and category of each product, and the number of training rows that have them.

The feature of a brand or category is log(1 + rows that have it), 0 for an unknown one. An alphabetical index, as the
original systems used, carries no information, and an unseen brand has no index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pricekit.text.labelled_lines import (
    LABEL_BYTES,
    Ints,
    Lines,
    Strings,
    batches,
    join_texts,
    numpy_of,
    split_lines,
)

MIN_COUNT = 2  # a name that occurs in one training row does not help for other rows
MAX_NAMES = 50_000  # maximum number of names in a dictionary
NAME_CHARACTERS = 60

LABEL = rf"^(?P<label>[^:]{{1,{LABEL_BYTES}}}):"
_OTHER = "\x80-\U0010ffff"  # everything outside ASCII, as a range inside a character class
_WORD = "[^ ,|(:;]+"
# The first one to three words of an item name, up to the first comma, bar, bracket or colon.
LEADING = (
    rf"^[^a-z0-9{_OTHER}]*(?P<one>[a-z0-9{_OTHER}][^ ,|(:;]*)(?: +(?P<two>{_WORD})(?: +(?P<three>{_WORD}))?)?"
)
# The last word before the first comma, bracket, dash or number: "green taco sauce, 12 ounce" gives "sauce".
_LETTER = "a-z\xc0-\u024f"  # with the accented letters of Latin scripts
HEAD = rf"(?P<name>[{_LETTER}]{{2,}})[^0-9{_LETTER}]*(?:[,(|:;–—0-9]| - | for | with | by |$)"
PLURAL = r"([a-z]{2}[a-rt-z])s$"
PACK_PHRASE = r"\b(?:pack|set|case|box) of [0-9]+ ?"


def _name(text: Strings) -> Strings:
    return pc.utf8_slice_codeunits(pc.fill_null(text, ""), 0, NAME_CHARACTERS)


def leading_words(title: Strings) -> list[Strings]:
    """Return the first one, two and three words of lower-case item names, each (N,), "" if there are fewer."""
    words = pc.extract_regex(title, LEADING)
    one, two, three = (pc.fill_null(pc.struct_field(words, name), "") for name in ("one", "two", "three"))
    blank = pa.scalar(" ", one.type)
    pair = pc.if_else(pc.equal(two, ""), "", pc.binary_join_element_wise(one, two, blank))
    triple = pc.if_else(pc.equal(three, ""), "", pc.binary_join_element_wise(one, two, three, blank))
    return [_name(one), _name(pair), _name(triple)]


def head_word(title: Strings) -> Strings:
    """Return the head word of lower-case item names, without a plural s, "" if there is none, (N,)."""
    title = pc.replace_substring_regex(title, PACK_PHRASE, "")
    word = pc.struct_field(pc.extract_regex(title, HEAD), "name")
    return pc.replace_substring_regex(_name(word), PLURAL, r"\1")


def labelled(lines: Lines, kind: str) -> Strings:
    """Return the content of the "brand" or "category" line in lower case, "" if there is none, (N,)."""
    return _name(pc.ascii_lower(lines.find(kind)))


def common_label(texts: Strings) -> str:
    """Return the label of more than half of the first lines of texts, "" if there is none.

    If no label is known ("produto: ..."), the first line counts as the item name. Its label is removed, because it
    would otherwise be the brand of every product.
    """
    first_lines = pa.concat_arrays([split_lines(join_texts(part)).first_lines() for part in batches(texts)])
    counts = pc.value_counts(pc.struct_field(pc.extract_regex(first_lines, LABEL), "label").drop_null())
    rows = {entry["values"]: entry["counts"] for entry in counts.to_pylist()}
    label = max(rows, key=rows.__getitem__, default="")
    return label if 2 * rows.get(label, 0) > len(texts) else ""


def count_names(columns: list[Strings]) -> dict[str, int]:
    """Count names over all columns; keep at most `MAX_NAMES`, each with at least `MIN_COUNT` rows.

    Equal counts are sorted by name, so that the result does not depend on the order of the rows.
    """
    counts = pc.value_counts(pa.concat_arrays(columns))
    frequent = counts.filter(
        pc.and_(pc.greater_equal(counts.field("counts"), MIN_COUNT), pc.not_equal(counts.field("values"), ""))
    )
    keys = [("counts", "descending"), ("values", "ascending")]
    top = pa.Table.from_struct_array(frequent).sort_by(keys).slice(0, MAX_NAMES).to_pydict()
    return dict(zip(top["values"], top["counts"], strict=True))


def brand_rows(lines: Lines, title: Strings, counts: Mapping[str, int]) -> Ints:
    """Return the count of the brand line, else of the longest known beginning of the item name, (N,)."""
    stated = labelled(lines, "brand")
    rows = np.zeros(len(title), np.int64)
    for rows_of_words in _lookup(leading_words(title), counts):
        rows = np.where(rows_of_words > 0, rows_of_words, rows)
    return np.where(numpy_of(pc.not_equal(stated, "")), _lookup([stated], counts)[0], rows)


def brand_names(title: Strings, names: Collection[str]) -> list[str]:
    """Return the longest of some names with which each item name begins, (N,), "" if there is none."""
    known = pa.array(list(names), pa.large_string())
    longest = pa.repeat(pa.scalar("", title.type), len(title))
    for words in leading_words(title):
        longest = pc.if_else(pc.is_in(words, known), words, longest)
    brands: list[str] = longest.to_pylist()
    return brands


def category_rows(lines: Lines, title: Strings, counts: Mapping[str, int]) -> Ints:
    """Return the count of the category line, else of the head word of the item name, (N,)."""
    stated = labelled(lines, "category")
    name = pc.if_else(pc.not_equal(stated, ""), stated, head_word(title))
    rows: Ints = _lookup([name], counts)[0]
    return rows


def any_filled(text: Strings) -> bool:
    """Return whether a string is not empty."""
    return bool(pc.any(pc.not_equal(text, "")).as_py())


def _lookup(columns: list[Strings], counts: Mapping[str, int]) -> Ints:
    """Return the count of each name, 0 for an unknown one, (columns, N)."""
    rows = np.array([*counts.values(), 0], np.int64)
    index = pc.index_in(pa.concat_arrays(columns), pa.array(list(counts), pa.large_string()))
    return np.take(rows, numpy_of(pc.fill_null(index, len(counts)))).reshape(len(columns), -1)
