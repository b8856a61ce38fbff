"""What users see of drift."""

import json

import pytest

import pricekit as pk


@pytest.fixture(scope="module")
def found(bundle):
    frame = pk.make_catalog(100, seed=9)
    frame["catalog_content"] += "\n<b>x</b>: <script>alert(1)</script>"
    return pk.load(bundle, "ort-cpu").drift(frame)


def test_json_has_everything(found):
    record = json.loads(found.to_json())
    assert record["rows"] == 100
    assert record["alarms"] == list(found.alarms)
    assert set(record) >= {"verdict", "failures", "measures", "notes", *found.frames()}
    assert len(record["outliers"]) == 10
    assert record["price_bins"][-1]["up_to"] is None or record["price_bins"][-1]["up_to"] > 0


def test_a_notebook_shows_escaped_texts(found):
    page = found._repr_html_()
    assert "<script>" not in page
    assert found.verdict in page


def test_the_repr_is_one_line(found):
    assert repr(found).startswith("Drift(100 rows, ")
    assert "\n" not in repr(found)
    assert "psi=" in repr(found)
