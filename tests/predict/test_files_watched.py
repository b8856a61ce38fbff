"""A sketch of what was priced: the same rows as in the output, each once."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from pricekit.errors import BundleError, ConfigError, DataError
from pricekit.insight import priced_rows
from pricekit.insight.priced_rows import read_priced_rows
from pricekit.io.locks import owned
from pricekit.model import opened_model
from pricekit.predict import files
from pricekit.predict.predictor import Predictor


@pytest.fixture(scope="module")
def model(bundle):
    return Predictor.load(bundle, "ort-cpu")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    monkeypatch.setattr(files, "WINDOW", 64)


@pytest.fixture
def sketch(tmp_path):
    return tmp_path / "priced.json"


def _same(one, two):
    """Return whether two sketches have the same counts, and nearly the same sums."""
    alike = one.model_copy(update={"counts": two.counts, "predictions": two.predictions}) == two
    plain = [each.counts.model_copy(update={"halves": []}) for each in (one, two)]
    sums = [[half.sums for half in each.counts.halves] for each in (one, two)]
    return alike and plain[0] == plain[1] and all(a == pytest.approx(b) for a, b in zip(*sums, strict=True))


def test_a_sketch_says_what_a_table_says(model, catalog, tmp_path, sketch):
    opened_model(model).predict_file(catalog, tmp_path / "prices.csv", watch=sketch)
    found, table = opened_model(model).drift(sketch), opened_model(model).drift(pd.read_csv(catalog))
    assert (found.rows, found.trained_on) == (table.rows, table.trained_on) == (400, 340)
    for name in ("features", "values", "words", "missing", "price_bins"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(table, name))
    for name in {*found.measures} - {"auc", "smape"}:
        assert found.measures[name].value == table.measures[name].value, name
    assert found.measures["auc"].value == pytest.approx(table.measures["auc"].value, abs=0.05)
    assert (len(found.outliers), found.measures["smape"].value) == (0, None)
    assert found.notes == (
        "The sketch contains no true prices and no rows, so SMAPE is not computed, and no rows are shown.",
    )


def test_a_sketch_raises_the_alarms_of_a_table(model, catalog, tmp_path, sketch):
    changed = pd.read_csv(catalog)
    changed["catalog_content"] = changed["catalog_content"].str.replace(
        "Unit: .*", "Unit: bushel", regex=True
    )
    changed.to_csv(tmp_path / "new.csv", index=False)
    opened_model(model).predict_file(tmp_path / "new.csv", tmp_path / "prices.csv", watch=sketch)
    said = opened_model(model).drift(read_priced_rows(sketch)).alarms
    assert any("Unit: new since the training: 'bushel' (100.0% now)" in each for each in said)


def test_a_second_prediction_extends_the_sketch(model, catalog, tmp_path, sketch):
    for times in (1, 2):
        opened_model(model).predict_file(catalog, tmp_path / "prices.csv", watch=sketch)
        assert read_priced_rows(sketch).rows == 400 * times
    assert sorted(path.name for path in tmp_path.iterdir()) == ["priced.json", "prices.csv"]


def test_processes_count_the_same(model, catalog, tmp_path, sketch):
    other = tmp_path / "other.json"
    opened_model(model).predict_file(catalog, tmp_path / "prices.csv", watch=sketch, processes=1)
    opened_model(model).predict_file(catalog, tmp_path / "prices.csv", watch=other, processes=2)
    assert _same(read_priced_rows(sketch), read_priced_rows(other))


def test_of_many_rows_some_are_counted(model, catalog, tmp_path, sketch, monkeypatch):
    monkeypatch.setattr(priced_rows, "MOST_OF_WINDOW", 10)
    opened_model(model).predict_file(catalog, tmp_path / "prices.csv", watch=sketch)
    found = read_priced_rows(sketch)
    assert (found.rows, found.counts.rows) == (400, 70)
    assert (
        "A random sample of 70 of the 400 priced rows is compared." in opened_model(model).drift(found).notes
    )


class _Failing:
    """Prices rows until so many batches are priced."""

    def __init__(self, model, batches):
        self._price, self._batches, self.priced = model.members[0].engine.price_batch, batches, 0

    def __call__(self, batch):
        if self.priced == self._batches:
            raise KeyboardInterrupt
        self.priced += 1
        return self._price(batch)


def _interrupted(model, batches):
    return _with(model, _Failing(model, batches))


def _with(model, price_batch):
    member = model.members[0]
    engine = replace(member.engine, price_batch=price_batch, streams=1)
    return replace(model, members=(replace(member, engine=engine),))


def _batches_of(model, catalog, out):
    """Return how many batches the whole table has."""
    counting = _Failing(model, -1)
    opened_model(_with(model, counting)).predict_file(catalog, out, processes=1)
    return counting.priced


@pytest.mark.parametrize("harm", ["", "lost", "damaged"])
def test_a_resumed_prediction_counts_each_row_once(model, catalog, tmp_path, sketch, harm, logged):
    out, whole = tmp_path / "prices.csv", tmp_path / "whole.json"
    total = _batches_of(model, catalog, tmp_path / "counted.csv")
    for batches in (total // 2, total // 4):
        with pytest.raises(KeyboardInterrupt):
            opened_model(_interrupted(model, batches)).predict_file(
                catalog, out, watch=sketch, resume=True, processes=1
            )
    assert not sketch.exists()
    (kept,) = sorted((tmp_path / ".prices.csv.parts").glob("counts-*.json"))[-1:]
    if harm == "lost":
        kept.unlink()
    elif harm == "damaged":
        kept.write_text("{}")
    opened_model(model).predict_file(catalog, out, watch=sketch, resume=True)
    assert ("it used a different sketch of priced rows" in logged()) == bool(harm)
    opened_model(model).predict_file(catalog, tmp_path / "whole.csv", watch=whole)
    assert _same(read_priced_rows(sketch), read_priced_rows(whole))
    assert not (tmp_path / ".prices.csv.parts").exists()


KILLED = """
import os, sys
import pricekit as pk
from pricekit.insight.priced_rows import Watch
from pricekit.predict import files
from pricekit.predict.files import PredictionCheckpoint

def finish(self, prediction, own=Watch.finish):
    own(self, prediction)
    if sys.argv[5] == "before windows are deleted":
        os._exit(9)

def clear(self, own=PredictionCheckpoint.clear):
    for window in self.windows[1:]:  # as if it was killed in between
        window.unlink()
    if self.windows:
        os._exit(9)
    own(self)

files.WINDOW = 64
Watch.finish, PredictionCheckpoint.clear = finish, clear
bundle, table, out, sketch = sys.argv[1:5]
pk.load(bundle, "ort-cpu").predict_file(table, out, watch=sketch, processes=1)
"""


@pytest.mark.parametrize("moment", ["before windows are deleted", "while windows are deleted"])
def test_a_prediction_killed_at_its_end_counts_each_row_once(model, catalog, tmp_path, sketch, moment):
    out = tmp_path / "prices.csv"
    words = [model.origin.path, catalog, out, sketch, moment]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 9, done.stderr
    assert (read_priced_rows(sketch).rows, out.exists()) == (400, True)
    opened_model(model).predict_file(catalog, out, watch=sketch, resume=True)
    assert read_priced_rows(sketch).rows == 400
    opened_model(model).predict_file(
        catalog, out, watch=sketch, resume=True
    )  # another prediction: the last one is complete
    assert read_priced_rows(sketch).rows == 800


def test_an_error_of_the_sketch_says_that_the_prices_are_complete(
    model, catalog, tmp_path, sketch, monkeypatch, raises
):
    out = tmp_path / "prices.csv"
    monkeypatch.setattr(priced_rows, "WAIT_SECONDS", 0.0)
    with owned(sketch, "sketch", DataError), raises(DataError, "resume"):
        opened_model(model).predict_file(catalog, out, watch=sketch)
    assert len(pd.read_csv(out)) == 400
    opened_model(model).predict_file(catalog, out, watch=sketch, resume=True)
    assert read_priced_rows(sketch).rows == 400


def test_windows_without_counts_are_priced_again(model, catalog, tmp_path, sketch, logged):
    out = tmp_path / "prices.csv"
    with pytest.raises(KeyboardInterrupt):
        opened_model(
            _interrupted(model, _batches_of(model, catalog, tmp_path / "counted.csv") // 2)
        ).predict_file(catalog, out, processes=1)
    opened_model(model).predict_file(catalog, out, watch=sketch, resume=True)
    assert "it used a different sketch of priced rows" in logged()
    assert read_priced_rows(sketch).rows == 400


def test_nothing_is_priced_for_a_file_that_cannot_be_extended(model, catalog, tmp_path, sketch, raises):
    out = tmp_path / "prices.csv"
    table = shutil.copy(catalog, tmp_path / "table.csv")
    with raises(DataError):
        opened_model(model).predict_file(catalog, out, watch=table)
    with raises(ConfigError, "watch", "out"):
        opened_model(model).predict_file(catalog, out, watch=out)
    with raises(ConfigError, "watch"):
        opened_model(model).predict_file(catalog, out, watch="s3://shop/priced.json")
    for place in (f"{table}/sketch.json", f"{table}/new/sketch.json"):
        with raises(DataError, "watch"):
            opened_model(model).predict_file(catalog, out, watch=place)
    with raises(DataError, "watch"):
        opened_model(model).predict_file(catalog, out, watch=tmp_path / "new" / f"{300 * 'x'}.json")
    with raises(BundleError):
        opened_model(replace(model, sketch=None)).predict_file(catalog, out, watch=sketch)
    with raises(ConfigError, "watch", "out"):
        opened_model(model).predict_file(tmp_path / "*.csv", f"{tmp_path}/prices/", watch=sketch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]


def test_the_commands_write_and_read_a_sketch(pricekit, bundle, catalog, tmp_path, sketch):
    out = tmp_path / "prices.csv"
    words = ["predict", bundle, catalog, "--out", out, "--watch", sketch, "--engine", "ort-cpu"]
    assert pricekit(*words)[0] == 0
    code, shown, _ = pricekit("drift", bundle, sketch, "--json", "--engine", "ort-cpu")
    assert (code, json.loads(shown)["rows"]) == (0, 400)
    assert pricekit("drift", bundle, sketch, "--fail-over", "psi=0", "--engine", "ort-cpu")[0] in (0, 6)
    code, _, said = pricekit("drift", bundle, sketch, "--text", "title")
    assert code == 2
    assert "is a sketch of priced rows; leave it out" in said
    assert pricekit("predict", bundle, catalog, "--out", out, "--watch", catalog)[0] == 1
