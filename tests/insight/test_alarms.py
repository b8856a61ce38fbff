"""Limits that users set."""

import pytest

from pricekit.errors import ConfigError
from pricekit.insight.alarms import ALARMS, MEASURES, Measure, limits_of


def test_limits_are_texts_or_a_mapping():
    assert limits_of(None) == {}
    assert limits_of("psi=0.2") == limits_of(["psi=0.2"]) == limits_of({"psi": 0.2}) == {"psi": 0.2}
    assert set(ALARMS) <= set(MEASURES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("pis=0.2", "the measure 'pis', which does not exist. Did you mean 'psi'?"),
        ("psi", "fail_over has 'psi'; expected a measure and its limit"),
        ("psi=high", "the limit of psi is 'high'; expected a number"),
        ({"psi": -1}, "the limit of psi is -1; expected a number of at least 0"),
        ({"psi": float("nan")}, "the limit of psi is nan"),
        ({"psi": None}, "the limit of psi is None"),
    ],
)
def test_a_wrong_limit_is_one_sentence(given, said):
    with pytest.raises(ConfigError) as caught:
        limits_of(given)
    assert said in str(caught.value)
    assert caught.value.parameters == ("fail_over",)


def test_what_chance_gives_exceeds_no_limit():
    assert Measure("smape", 12.0, chance=9.0).exceeds(10)
    assert not Measure("smape", 12.0, chance=14.0).exceeds(10)
    assert not Measure("smape", None).exceeds(0)


def test_a_sentence_names_what_is_over_its_limit():
    assert Measure("psi", 0.31, "value").sentence(0.2) == "psi is 0.31 (value); the limit is 0.2."
    grown = Measure("smape", 12.0, then=50.0, now=62.0).sentence(10)
    assert grown == "smape is 12, from 50 to 62; the limit is 10."
