"""Tables against the sketch of a training table: silence and alarms."""

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import BundleError, DataError
from pricekit.insight import counts, training_sketch
from pricekit.insight.counts import rows_of
from pricekit.insight.drift import compare
from pricekit.insight.sketch import require_sketch
from pricekit.predict.members import table_of
from pricekit.predict.predictor import Predictor
from pricekit.runs.load import load_model


@pytest.fixture(scope="module")
def model(bundle):
    return pk.load(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def predictor(model):
    return load_model(model.path, "ort-cpu")


@pytest.fixture(scope="module")
def same():
    """Rows of the same source as the training table."""
    return pk.make_catalog(1000, seed=9)


def _texts(frame, pattern, replacement):
    changed = frame["catalog_content"].str.replace(pattern, replacement, regex=True)
    return frame.assign(catalog_content=changed)


def test_rows_of_the_same_source_raise_no_alarm(model, same):
    found = model.drift(same)
    assert found.alarms == ()
    assert found.verdict == "No drift: the table resembles the training table."
    assert (found.rows, found.trained_on) == (1000, 340)
    assert found.measures["psi"].value < 0.1
    assert found.measures["auc"].value < 0.6
    assert abs(found.measures["smape"].value) < 10
    assert not found.values["change"].any()


def test_a_source_that_is_split_in_two_raises_no_alarm(tmp_path):
    whole = pk.make_catalog(800, seed=21)
    run = pk.train(whole[::2], out=tmp_path / "run", features="fast15", epochs=1)
    found = run.drift(whole[1::2])
    assert found.alarms == ()
    assert found.trained_on == 400  # those of the second pass


def test_cars_against_groceries_raise_alarms(model):
    rng = np.random.default_rng(0)
    makes, kinds = ["Volta", "Karren", "Hummel"], ["estate", "coupe", "van"]
    cars = [
        f"Model: {rng.choice(makes)} {rng.choice(kinds)} {rng.integers(1, 9)}\nMileage: {rng.integers(9, 200)} km"
        for _ in range(300)
    ]
    found = model.drift(cars)
    said = "\n".join(found.alarms)
    assert found.measures["auc"].value > 0.95
    assert "A classifier tells the rows from training rows with an AUC of " in said
    assert "More rows lack 'Item Name' (0.0% then, 100.0% now)" in said
    assert "unit in the text: new since the training: 'km' (100.0% now)." in said
    assert "words that training rows hardly had" in said
    assert set(found.words["word"]) >= {"item", "mileage"}
    assert any(name in found.outliers["new_words"][0] for name in ("volta", "karren", "hummel"))


def test_a_brand_that_is_gone_is_named(model, same):
    found = model.drift(same[~same["catalog_content"].str.contains("Oravelle Lane")])
    gone = found.values[found.values["change"] == "gone"]
    assert gone[["field", "value"]].values.tolist() == [["brand in the text", "oravelle lane"]]
    assert any("brand in the text: gone since the training: 'oravelle lane'" in each for each in found.alarms)


def test_a_unit_that_changes_is_named(model, same):
    found = model.drift(_texts(same, r"(?i)(?<![a-z])oz\b", "g"))
    said = "\n".join(found.alarms)
    assert "Unit: gone since the training: " in said
    assert "'oz' (" in said
    changed = found.values.set_index(["field", "value"])["now"]
    assert changed["unit in the text", "oz"] == 0
    assert changed["unit in the text", "g"] > 0.15


def test_a_new_value_is_named(model, same):
    found = model.drift(_texts(same, r"Unit: .*", "Unit: bushel"))
    assert any("Unit: new since the training: 'bushel' (100.0% now)" in each for each in found.alarms)


def test_worse_prices_raise_an_alarm(model, same):
    found = model.drift(same.assign(price=same["price"] * 5))
    (alarm,) = found.alarms
    assert alarm.startswith("SMAPE has grown from ")
    assert found.measures["smape"].value > 20
    without = model.drift(same.drop(columns="price"))
    assert without.measures["smape"].value is None
    assert without.notes == ("SMAPE is not computed: fewer than ten rows have a known price.",)


def test_large_tables_raise_no_alarm_for_small_differences(model, monkeypatch):
    for module in (training_sketch, counts):
        monkeypatch.setattr(module, "MOST_ROWS", 6000)
    large = pk.make_catalog(6000, seed=10)
    some = large["catalog_content"].str.contains("Quillmoor") & (np.arange(6000) % 3 == 0)
    assert model.drift(large[~some]).alarms == ()


def test_few_rows_raise_no_alarm_but_for_missing_columns(model):
    ten = ["Mileage: 90,000 km"] * 10
    found = model.drift(ten, fail_over={"psi": 0.1})
    assert (found.alarms, found.failures) == ((), ())
    assert found.verdict == "There are too few rows for an alarm."
    assert (
        found.notes[0]
        == "Only 10 rows of the table are compared, too few for an alarm: expected at least 100."
    )
    missing = model.drift(pd.DataFrame({"other": ["x"] * 10}), fail_over=["missing_columns=0", "auc=0.9"])
    assert missing.alarms == ("Columns are missing: catalog_content.",)
    assert missing.failures == ("missing_columns is 1 (catalog_content); the limit is 0.",)


def test_without_its_columns_a_table_is_reported_and_the_rest_is_skipped(model, same):
    found = model.drift(same.drop(columns="catalog_content"), fail_over="psi=0.2")
    assert found.alarms == ("Columns are missing: catalog_content.",)
    assert found.failures == ("psi cannot be computed, because columns are missing: catalog_content.",)
    assert found.notes == (
        "The table lacks 'catalog_content', which the model reads.",
        "So features, predicted prices and the domain classifier are skipped.",
    )
    assert found.measures["auc"].value is None
    assert found.to_dict()["measures"]["psi"]["value"] is None


def test_a_row_alone_can_be_compared(model, raises):
    assert model.drift(["Item Name: Tea"]).rows == 1
    with raises(DataError, "table"):
        model.drift([])


def test_limits_are_exceeded_by_what_is_over_them(model, same):
    found = model.drift(_texts(same, "Unit: .*", "Unit: bushel"), fail_over={"psi": 0.2, "auc": 1.0})
    (failure,) = found.failures
    assert failure.startswith("psi is ")
    assert "(Unit); the limit is 0.2." in failure


def test_a_model_without_a_sketch_says_so(predictor, raises):
    with raises(BundleError):
        require_sketch(Predictor(predictor.members).sketch)


def test_a_sketch_of_another_model_is_refused(model, predictor, raises):
    sketch = predictor.sketch
    odd = sketch.model_copy(update={"features": {"nowhere": sketch.text_length}})
    with raises(BundleError):
        compare(
            odd, rows_of(table_of(["Item Name: Tea"], model.columns)), predictor.preprocessor, pytest.fail, {}
        )
