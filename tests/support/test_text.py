import pytest

from pricekit.support.text import duration


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.2, "1 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3000, "50 min"),
        (3600, "1 h"),
        (7530, "2 h 5 min"),
    ],
)
def test_durations_have_two_units_at_most(seconds, expected):
    assert duration(seconds) == expected
