"""Third-party features that are wrong are refused, or do no harm: in training, export and prediction."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pricekit as pk
from conftest import TINY
from pricekit.errors import DataError, PluginError, PricekitError
from pricekit.features.fit import fit_features
from pricekit.features.fitted import FittedFeatures
from pricekit.features.fitted_feature import CALLS_PER_SIZE, ROWS_ALONE, Guard
from pricekit.features.preprocess import without_price
from pricekit.features.repeated import check_in_new_process
from pricekit.io.cpus import in_threads
from pricekit.io.new_process import in_new_process
from pricekit.table import Columns, read_table, table_of_texts
from tests.features import mistakes

COLUMNS = Columns(price="price", id="sample_id")
HARMLESS = {
    *("right", "column-if-there"),
    *("changes-texts-of-large", "changes-the-frame-of-large", "changes-ids"),  # they change copies
    *("needs-a-row", "overflows", "raises", "not-finite"),  # for other rows than these
    *("reads-prices", "fits-to-prices"),  # they never see one
    *("uses-prices", "use-price", "column", "reads-file"),  # they do nothing with what they misspell
    *("reuses-its-memory", "keeps-the-table"),  # one thread at a time computes, and the columns are copied
    *("random-fit", "order-of-a-set", "keys-of-numbers"),  # what is stored counts, whatever it is
}
NAMES = [
    entry for entry in vars(mistakes).values() if isinstance(entry, type) and entry is not mistakes.Length
]


KINDS = [kind for kind in vars(mistakes).values() if isinstance(kind, type) and kind is not mistakes.Length]


def name_of(kind):
    return re.sub("(?<!^)([A-Z])", r"-\1", kind.__name__).lower()


@pytest.fixture(scope="module", autouse=True)
def _plugins(_own_plugins):
    pk.use_plugins(Path(__file__).with_name("mistakes.py"))


def frame_of(rows, seed=0):
    frame = pk.make_catalog(rows, seed=seed)
    return frame.assign(weight=[str(number % 90 / 4) for number in range(rows)])


@pytest.fixture(scope="module")
def training():
    return read_table(frame_of(300), COLUMNS)


@pytest.fixture(scope="module")
def new():
    return without_price(read_table(frame_of(3_000, seed=1), COLUMNS), COLUMNS)


def fitted(name, table):
    visible = replace(without_price(table, COLUMNS), price=table.price)
    return fit_features([name], {}, visible, hidden="price")[0]


def reopened(features):
    return FittedFeatures.from_json(features.to_json(), features.assets())


@pytest.mark.parametrize("kind", KINDS)
def test_no_mistake_prices_wrongly_in_silence(kind, training, new):
    """Each is refused after the fit, at export or in prediction, or the values are those of each row alone."""
    name, refusal = name_of(kind), None
    try:
        features = fitted(name, training)
        check_in_new_process([(features, training)])
        restored = reopened(features)
        assert restored.log_price is None
        values = np.vstack(list(in_threads(restored.transform, new.windows(1_500), 2)))
    except PricekitError as error:
        refusal = str(error)
    assert (refusal is None) == (name in HARMLESS), refusal
    if refusal is not None:
        assert f"'{name}'" in refusal
        return
    some = np.arange(0, len(new), 60)
    expected = np.vstack([reopened(features).transform(new.take(some[i : i + 1])) for i in range(len(some))])
    assert np.array_equal(values[some], expected)
    assert new.ids.tolist()[:2] == [0, 1]
    assert new.text.nunique() > 2_000


def test_an_error_names_the_row(training, new):
    texts = new.text.copy()
    texts[2_345] = "Value: NaN, inf"
    odd = replace(new, text=texts, ids=new.ids.map("p{}".format))
    for name, facts in [("not-finite", {"column": "length", "row": 2_345}), ("raises", {"name": "raises"})]:
        features = reopened(fitted(name, training))
        with pytest.raises(PluginError) as caught:
            features.transform(odd)
        assert {key: caught.value.facts[key] for key in facts} == facts
        assert "'p2345' ('Value: NaN, inf')" in str(caught.value)


def test_a_call_of_which_no_row_fails_alone_is_described(training, new, monkeypatch):
    features = reopened(fitted("right", training))

    def transform(table, state):
        return 1 / (len(table) < 100)

    monkeypatch.setattr(features.parts[0].plugin, "transform", transform)
    with pytest.raises(PluginError, match="a call of 3,000 rows, though smaller calls work: ZeroDivision"):
        features.transform(new)


def test_the_price_cannot_be_declared(training, tmp_path, raises):
    with raises(PluginError, "features", column="weight"):
        fit_features(["right"], {}, replace(training, price=None), hidden="weight")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = TINY | {"features": ["optimized22", "right"], "training": TINY["training"] | {"epochs": 1}}
    return pk.train(frame_of(200), out=tmp_path_factory.mktemp("runs") / "run", settings=settings)


@pytest.fixture(scope="module")
def model(run):
    out = run.path.parent / "bundle"
    run.export(out)
    return pk.load(out, "ort-cpu")


def test_rows_without_a_declared_column_are_refused(run, model, raises):
    frame = frame_of(5, seed=2)
    lacking = frame.drop(columns="weight")
    calls = [
        lambda rows: run.predict(rows),
        lambda rows: model.predict(rows),
        lambda rows: model.explain(rows),
    ]
    for call in calls:
        for rows in (lacking, lacking["catalog_content"].tolist()):
            with raises(DataError, "features", column="weight", feature="right"):
                call(rows)
        call(frame)
    assert model.predict(frame.assign(weight="1000")).tolist() != model.predict(frame).tolist()
    assert model.self_test().rows > 5
    with raises(DataError, "features", column="weight", candidates=["sample_id", "catalog_content"]):
        pk.train(frame_of(60).drop(columns="weight"), features="right")


def test_the_command_line_prices_a_csv_with_the_column_and_refuses_one_without(
    model, tmp_path, pricekit, raises
):
    frame = frame_of(20, seed=2)
    frame.to_csv(tmp_path / "new.csv", index=False)
    frame.drop(columns="weight").to_csv(tmp_path / "lacking.csv", index=False)
    code, _, _ = pricekit("predict", model.path, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert code == 0
    assert pd.read_csv(tmp_path / "out.csv")["price"].tolist() == pytest.approx(
        model.predict(frame).tolist(), rel=1e-4
    )
    code, _, err = pricekit("predict", model.path, tmp_path / "lacking.csv", "--out", tmp_path / "no.csv")
    assert code == 1
    assert "reads the column 'weight', which the table does not have" in " ".join(err.split())
    assert not (tmp_path / "no.csv").exists()


def test_one_process_serves_all_folds(tmp_path, monkeypatch):
    calls = []

    def counted(*arguments, **where):
        calls.append(arguments)
        return in_new_process(*arguments, **where)

    monkeypatch.setattr("pricekit.features.repeated.in_new_process", counted)
    monkeypatch.setattr("pricekit.features.repeated._agreed", set())
    settings = TINY | {"features": ["right", "column-if-there"], "training": TINY["training"] | {"epochs": 1}}
    settings |= {"columns": {"text": ["catalog_content"], "price": "price"}}
    settings["features"] = ["right"]
    pk.cross_validate(frame_of(120), folds=2, out=tmp_path / "cv", settings=settings)
    assert len(calls) == 1


def test_a_slow_feature_is_named_once(monkeypatch, logged):
    monkeypatch.setattr("pricekit.features.fitted_feature._slow", set())
    guard = Guard("right")
    guard.add(1.0)
    assert logged() == ""
    for each in (guard, guard, Guard("right")):
        each.add(1e6)
    assert logged().count("the feature 'right' takes most of the time") == 1


def test_rows_that_are_checked_are_others_each_time_and_few():
    guard, block = Guard("right"), np.arange(200, dtype=np.float32).reshape(100, 2)
    dates = ["2024-05-01"] * 99 + ["31/12/2023"]
    rows = replace(table_of_texts(["tea"] * 100, "text"), frame=pd.DataFrame({"launched": dates}))
    check = partial(guard.calls_to_check, own=lambda: rows)
    (*first, one, some), *calls = [check(block) for _ in range(CALLS_PER_SIZE)]
    assert all(len(each) == 1 for each in first)
    assert 16 <= len(first) <= ROWS_ALONE
    assert 99 in np.concatenate(first)  # its date has another form
    calls.append([one, some])
    alone = {int(one[0]) for one, _ in calls}
    assert len(alone) > 1
    assert all(99 in some and 0 in some and len(some) <= 8 for _, some in calls)
    guard.checking, guard.seconds = 1.0, 10.0
    assert check(block) == []
    assert len(check(np.repeat(block, 9, axis=0))) == 2  # another size
    guard.seconds = 100.0
    assert len(check(block)) == 2
