"""Bundles made by earlier versions must go on giving the same prices."""

import json
from pathlib import Path

import pytest

from pricekit.prediction.predictor import Predictor

GOLDEN = Path(__file__).parent / "golden"


def test_the_golden_bundle_still_gives_its_prices():
    known = json.loads((GOLDEN / "prices.json").read_text("utf-8"))
    assert Predictor.load(GOLDEN / "bundle", "ort-cpu").predict(known["texts"]) == pytest.approx(
        known["prices"], rel=1e-4
    )
