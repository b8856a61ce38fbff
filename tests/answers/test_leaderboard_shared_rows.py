"""Which models share held-out rows."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conftest import held_out_rows
from pricekit.answers.leaderboard import Contender, keep_sharing
from pricekit.errors import DataError

ROWS = held_out_rows(200)


def contender(tmp_path, name, rows, currency="USD"):
    path = tmp_path / name
    return Contender(path, "run", 1, rows, currency, "smape", 1.0, 1, (path,), ({},))


def rows(first, last):
    return ROWS.take(np.arange(first, last))


def names(found):
    return [one.path.name for one in found]


def test_models_that_share_all_rows_stay_without_a_message(tmp_path, logged):
    assert names(keep_sharing([contender(tmp_path, name, rows(0, 50)) for name in "abc"])) == ["a", "b", "c"]
    assert names(keep_sharing([contender(tmp_path, "a", rows(0, 50))])) == ["a"]
    assert logged() == ""


def test_a_cross_validation_holds_out_more(tmp_path, logged):
    found = keep_sharing(
        [contender(tmp_path, "cv", ROWS), *(contender(tmp_path, n, rows(0, 50)) for n in "ab")]
    )
    assert len(found) == 3
    assert "only the 50 rows that all 3 hold out count; the models hold out between 50 and 200" in logged()


def test_models_that_share_no_rows_are_left_out_with_reasons(tmp_path, logged):
    usual = [contender(tmp_path, name, rows(0, 50)) for name in "abc"]
    dear = replace(rows(0, 50), price=rows(0, 50).price * 2)
    odd = [
        contender(tmp_path, "seed", rows(50, 100)),
        contender(tmp_path, "euro", rows(0, 50), "EUR"),
        contender(tmp_path, "prices", dear),
    ]
    assert names(keep_sharing([*odd, *usual])) == ["a", "b", "c"]
    said = logged()
    assert said.count("\n") == 0
    assert "they do not hold out the rows that the other 3 share" in said
    assert f"{tmp_path / 'seed'} (another table or another seed)" in said
    assert f"{tmp_path / 'euro'} (prices in EUR instead of USD)" in said
    assert f"{tmp_path / 'prices'} (other ids or prices)" in said


def test_few_common_rows_do_not_count_as_sharing(tmp_path, logged):
    usual = [contender(tmp_path, name, rows(0, 50)) for name in "ab"]
    other = contender(tmp_path, "c", rows(45, 95))
    assert names(keep_sharing([*usual, other])) == ["a", "b"]
    said = logged()
    assert (
        f"it does not hold out the rows that the other 2 share: {other.path} (another table or another seed)"
        in said
    )
    tiny = [contender(tmp_path, "a", rows(0, 6)), contender(tmp_path, "b", rows(3, 9))]
    assert len(keep_sharing(tiny)) == 2


def test_models_that_halve_the_rows_of_the_others_are_named(tmp_path, logged):
    usual = [contender(tmp_path, name, rows(0, 50)) for name in "abc"]
    odd = [contender(tmp_path, name, rows(30, 80)) for name in "xy"]
    assert len(keep_sharing([*odd, *usual])) == 5
    assert (
        f"only the 20 rows that all 5 hold out count; without {tmp_path / 'x'}, {tmp_path / 'y'}, the others share "
        "50 rows"
    ) in logged()


def test_a_currency_may_be_unknown_or_written_as_a_sign(tmp_path):
    signs = [contender(tmp_path, n, ROWS, c) for n, c in (("a", "$"), ("b", "USD"), ("c", "$"))]
    assert len(keep_sharing(signs)) == 3
    assert len(keep_sharing([contender(tmp_path, n, ROWS, c) for n, c in (("a", None), ("b", "EUR"))])) == 2


def test_models_of_which_no_two_share_rows_are_an_error(tmp_path, raises):
    apart = [contender(tmp_path, "a", rows(0, 50)), contender(tmp_path, "b", rows(50, 100))]
    with raises(DataError, "seed"):
        keep_sharing(apart)
    currencies = [contender(tmp_path, "a", ROWS, "USD"), contender(tmp_path, "b", ROWS, "EUR")]
    with raises(DataError):
        keep_sharing(currencies)


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(10, 50)), min_size=1, max_size=6))
def test_the_kept_models_share_rows(tmp_path_factory, spans):
    folder = tmp_path_factory.getbasetemp()
    found = [contender(folder, str(n), rows(first, first + size)) for n, (first, size) in enumerate(spans)]
    try:
        kept = keep_sharing(found)
    except DataError:
        held = [set(one.held_out.rows.tolist()) for one in found]
        assert not any(a & b for n, a in enumerate(held) for b in held[:n])
        return
    assert set.intersection(*(set(one.held_out.rows.tolist()) for one in kept))
