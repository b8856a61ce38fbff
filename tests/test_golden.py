"""The golden bundle keeps its prices: a change of code that changes them needs another format."""

import json
from pathlib import Path

import pytest

from pricekit.predict.predictor import Predictor

GOLDEN = Path(__file__).parent / "golden"


def test_the_golden_bundle_keeps_its_prices():
    """On one machine they are bitwise equal; other processors differ in the last digits."""
    known = json.loads((GOLDEN / "prices.json").read_text("utf-8"))
    model = Predictor.load(GOLDEN / "bundle", "ort-cpu")
    assert model.predict(known["texts"]) == pytest.approx(known["prices"], rel=1e-6)
    assert model.self_test().rows > 0
