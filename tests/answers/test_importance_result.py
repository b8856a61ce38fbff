"""What users see of the importance."""

import json

import numpy as np
import pandas as pd
import pytest

from pricekit.answers.importance import Importance
from pricekit.metrics import METRICS


@pytest.fixture
def found():
    bad = "<script>alert(1)</script>"
    features = pd.DataFrame({"feature": ["size", "<b>"], "increase": [5.0, 0.0], "low": [3.0, 0.0]})
    lines = pd.DataFrame({"line": [bad, "a\x1b[2J"], "kind": "line", "rows": [9, 7], "increase": [2.0, -1.0]})
    words = pd.DataFrame({"word": [bad], "rows": [5], "factor": [1.2], "size": [0.2]})
    frames = [
        features.assign(high=[7.0, 0.0]),
        lines.assign(low=np.nan, high=np.nan),
        words.assign(low=1.1, high=1.3),
    ]
    return Importance(9, METRICS["smape"], 30.25, *frames)


def test_json_holds_plain_values(found):
    data = json.loads(found.to_json())
    assert (data["rows"], data["metric"], data["score"]) == (9, "smape", 30.25)
    assert data["features"][0] == {"feature": "size", "increase": 5.0, "low": 3.0, "high": 7.0}
    assert data["lines"][0]["low"] is None
    assert data["lines"][0]["rows"] == 9
    assert data["words"][0]["factor"] == 1.2
    assert "NaN" not in found.to_json()


def test_the_repr_is_one_line(found):
    assert repr(found) == (
        "Importance(9 rows, SMAPE 30.25; size +5.00, <b> +0.00, <script>alert(1)</s… +2.00, a\\x1b[2J -1.00)"
    )


def test_html_is_escaped(found):
    shown = found._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "NaN" not in shown
    assert "9 rows, SMAPE 30.25" in shown
