"""Writing single settings."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.config.layers import leaves, parse_override, write_override

SINGLE = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


@given(
    SINGLE
    | st.lists(st.text(alphabet="aé\"'\\ ,", max_size=4))
    | st.sampled_from(["none", "NONE", "1", "true", "a=b"])
)
@example("\r\x7f")
def test_a_written_setting_is_read_back(value):
    assert parse_override(write_override("training.epochs", value)) == {"training": {"epochs": value}}


@pytest.mark.parametrize(
    ("value", "written"),
    [("bag", "x=bag"), ("1", 'x="1"'), ("none", 'x="none"'), (["a", "b"], 'x=["a", "b"]'), (1e-5, "x=1e-05")],
)
def test_settings_are_written_without_needless_quotes(value, written):
    assert write_override("x", value) == written


def test_leaves_are_the_values_of_nested_tables():
    found = dict(leaves({"a": {"b": {"c": 1}, "d": {}}, "e": None}))
    assert found == {("a", "b", "c"): 1, ("a", "d"): {}, ("e",): None}
