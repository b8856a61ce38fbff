import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from pricekit.nets.network import BOUND, NumericEncoding


@pytest.fixture
def encoding():
    made = NumericEncoding(1, bins=2)
    made.fit(torch.tensor([[0.0], [2.0], [10.0]]))  # edges 0, 2, 10
    return made


@pytest.mark.parametrize(
    ("value", "parts"), [(-5, [0, 0]), (1, [0.5, 0]), (2, [1, 0]), (6, [1, 0.5]), (99, [1, 1])]
)
def test_parts_by_hand(encoding, value, parts):
    found = encoding(torch.tensor([[float(value)]]))[0, 1:] + 0.5
    assert found.tolist() == pytest.approx(parts)


def test_the_standardised_part_by_hand():
    encoding = NumericEncoding(1, bins=0)
    encoding.fit(torch.tensor([[0.0], [math.expm1(2.0)]]))
    assert encoding(torch.tensor([[math.expm1(3.0)], [-math.expm1(1.0)]]))[:, 0].tolist() == pytest.approx(
        [2.0, -2.0]
    )


def test_a_feature_with_two_values_becomes_a_step():
    encoding = NumericEncoding(1, bins=4)
    encoding.fit(torch.tensor([[0.0]] * 9 + [[1.0]]))
    low, high = encoding(torch.tensor([[0.0], [1.0]]))[:, 1:] + 0.5
    assert low.tolist() == [0, 0, 0, 0]
    assert high.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("bins", [0, 4])
def test_a_constant_feature_is_encoded_as_zero(bins):
    encoding = NumericEncoding(2, bins)
    encoding.fit(torch.tensor([[3.0, 1.0], [3.0, 2.0]]))
    found = encoding(torch.tensor([[3.0, 1.0], [99.0, 2.0]]))
    assert found[:, [0, *range(2, 2 + bins)]].tolist() == [[0.0] * (1 + bins)] * 2
    assert found[0, 1] != found[1, 1]


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.integers(0, 5),
)
@example([-3e38, 3e38], 1)
def test_any_features_give_bounded_numbers(values, bins):
    encoding = NumericEncoding(1, bins)
    features = torch.tensor(values)[:, None]
    encoding.fit(features)
    found = encoding(features)
    assert found.shape == (len(values), 1 + bins) == (len(values), encoding.out_features)
    assert found.isfinite().all()
    assert found.abs().max() <= BOUND


def test_a_bin_from_minus_3e38_to_3e38_has_a_finite_width():
    """Their difference, 6e38, is beyond float32."""
    encoding = NumericEncoding(1, bins=1)
    encoding.fit(torch.tensor([[-3e38], [3e38]]))
    assert encoding.width.isfinite().all()
    low, high = encoding(torch.tensor([[-3e38], [3e38]]))[:, 1].tolist()
    assert (low, high) == (-0.5, 0.5)


def test_no_features_at_all():
    encoding = NumericEncoding(0, bins=3)
    encoding.fit(torch.zeros(4, 0))
    assert encoding(torch.zeros(2, 0)).shape == (2, 0)
