"""Ranges that settings declare."""

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from pricekit.config import RunConfig, Search
from pricekit.config.settings import searched


@pytest.mark.parametrize(
    "given_",
    [
        {},
        {"low": 1},
        {"low": 2, "high": 1},
        {"low": 0, "high": 1, "log": True},
        {"low": 1, "high": 2, "times": 3},
        {"times": 1},
        {"times": float("inf")},
    ],
)
def test_an_unusable_range_is_refused(given_, raises):
    with raises(ValueError):
        Search(**given_)


@given(st.integers(1, 10_000), st.floats(1.5, 10))
def test_the_interval_around_a_whole_number_contains_it(value, times):
    for search in (Search(times=times), Search(20, 300, log=True)):
        low, high = search.ends(value)
        assert isinstance(low, int)
        assert isinstance(high, int)
        assert 0 < low <= value <= high


@given(st.floats(1e-9, 1e9), st.floats(1.5, 10))
def test_the_interval_around_a_number_contains_it(value, times):
    for search in (Search(times=times), Search(0.5, 2.0)):
        low, high = search.ends(value)
        assert low <= value <= high


def test_choices_contain_the_value_that_a_user_set():
    assert Search(choices=(0, 8)).ends(8) == (0, 8)
    assert Search(choices=(0, 8)).ends(5) == (0, 8, 5)
    assert Search(choices=("a", "b")).ends("a") == ("a", "b")


def test_a_setting_without_a_number_is_not_searched():
    assert Search(times=3).fits(0.1)
    assert not Search(times=3).fits(None)
    assert not Search(times=3).fits(0.0)
    assert not Search(1, 9).fits("auto")
    assert not Search(1, 9).fits(True)
    assert Search(0, 9).fits(0)
    assert Search(choices=(True, False)).fits(True)
    assert not Search(choices=([1],)).fits([1])


def test_the_fields_of_a_model_declare_ranges():
    class Options(BaseModel):
        rounds: Annotated[int, Search(100, 1000, log=True)] = Field(300, ge=1)
        plain: int = 3

    assert searched(Options) == {"rounds": Search(100, 1000, log=True)}
    assert searched(type(RunConfig().training))["learning_rate"].times == 2


def test_a_range_is_written_in_a_few_characters():
    assert str(Search(100, 1000, log=True)) == "100 to 1000, log"
    assert str(Search(0.5, 2)) == "0.5 to 2"
    assert str(Search(choices=(0, 8))) == "0, 8"
    assert str(Search(times=3)) == "1/3 to 3 times"
