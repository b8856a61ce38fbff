"""Arrays as text: the round trip, and damaged or oversized texts."""

import base64
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pricekit.io.packing import pack, unpack

KINDS = (np.int32, np.int64, np.float32)


@given(st.data(), st.sampled_from(KINDS))
def test_an_array_survives_as_text(data, kind):
    finite = {"allow_nan": False, "allow_infinity": False} if kind is np.float32 else None
    values = data.draw(arrays(kind, st.integers(0, 50), elements=finite))
    found = unpack(pack(values), kind, most=50)
    assert found.dtype == kind
    assert found.tobytes() == values.tobytes()


def test_the_text_does_not_depend_on_the_byte_order_of_the_machine():
    values = np.array([1, -2, 3_000_000], np.int32)
    assert pack(values.astype(">i4")) == pack(values.astype("<i4"))


def test_small_numbers_take_few_bytes():
    assert len(pack(np.random.default_rng(0).integers(0, 16, 10_000))) < 10_000


def test_more_numbers_than_allowed_are_not_decompressed(raises):
    bomb = pack(np.zeros(10_000_000, np.int64))
    assert len(bomb) < 200_000
    tracemalloc.start()
    with raises(ValueError):
        unpack(bomb, np.int64, most=1_000)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert highest < 1_000_000
    assert len(unpack(pack(np.zeros(1_000)), np.float64, most=1_000)) == 1_000


def encoded(content):
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    "text",
    [
        None,
        [1, 2],
        "",
        "é",
        "a",
        encoded(b"no zlib"),
        pack(np.arange(100))[:40],
        encoded(zlib.compress(b"12345")),
        encoded(zlib.compress(b"12345678") + b"more"),
    ],
)
def test_damage_is_reported(text, raises):
    with raises(ValueError):
        unpack(text, np.int64, most=1_000)


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001])
def test_numbers_that_are_not_finite_are_refused_without_a_warning(bits):
    """The last one is a NaN that signals: to convert it makes numpy warn."""
    with pytest.raises(ValueError, match="not finite"):
        unpack(pack(np.array([bits], np.uint32).view(np.float32)), np.float32, most=1)
