"""The file of priced rows: extended, read, and refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pricekit as pk
from pricekit.errors import DataError
from pricekit.insight import priced_rows as module
from pricekit.insight.drift import compare_priced
from pricekit.insight.priced_rows import (
    MOST_PREDICTIONS,
    BusyError,
    PricedRows,
    add_to_file,
    add_when_free,
    check_priced_file,
    is_priced_rows,
    read_priced_rows,
    sketch_id,
)
from pricekit.io.locks import owned
from pricekit.predict.members import table_of
from pricekit.runs.load import load_model


@pytest.fixture(scope="module")
def model(bundle):
    return load_model(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def some(model):
    """The counts of 50 rows."""
    table = table_of(pk.make_catalog(50, seed=4), model.columns)
    inputs = model.prepare(table)
    return model.count(table, inputs, model.price(inputs))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new" / "priced.json"


def test_a_file_is_extended(file, model, some):
    for times in (1, 2, 3):
        add_to_file(file, some, model.sketch)
        found = read_priced_rows(file)
        assert (found.rows, found.counts.rows) == (50 * times, 50 * times)
        assert is_priced_rows(file)
    assert [path.name for path in file.parent.iterdir()] == ["priced.json"]


def test_only_one_adds_at_a_time(file, model, some, raises):
    with owned(file, "sketch", DataError), raises(BusyError, "watch"):
        add_to_file(file, some, model.sketch)

    def add(_):
        while True:
            try:
                return add_to_file(file, some, model.sketch)
            except BusyError:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(8)))
    assert read_priced_rows(file).rows == 400


def test_rows_wait_until_the_file_is_free(file, model, some, monkeypatch):
    tries = []

    def add(*arguments):
        tries.append(arguments)
        if len(tries) < 4:
            raise BusyError("another process")

    monkeypatch.setattr(module, "add_to_file", add)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    with pytest.raises(BusyError):
        add_when_free(file, some, model.sketch, until=0.0)
    assert len(tries) == 1
    add_when_free(file, some, model.sketch, until=float("inf"))
    assert tries == 4 * [(file, some, model.sketch)]


def test_the_rows_of_a_prediction_are_added_once(file, model, some):
    named = [some.model_copy(update={"predictions": [f"{number:032x}"]}) for number in range(3)]
    for each in (named[0], named[1], named[0], some, named[1], named[2]):
        add_to_file(file, each, model.sketch)
    found = read_priced_rows(file)
    assert found.rows == 4 * 50
    assert found.predictions == [f"{number:032x}" for number in range(3)]


def test_a_file_remembers_the_last_predictions(model, some):
    many = some.model_copy(update={"predictions": [f"{number:032x}" for number in range(MOST_PREDICTIONS)]})
    found = many.plus(some.model_copy(update={"predictions": [32 * "f"]}), model.sketch)
    assert found.predictions == [*many.predictions[1:], 32 * "f"]


def test_a_file_of_before_has_no_predictions(file, model, some):
    record = json.loads(some.to_text())
    del record["predictions"]
    file.parent.mkdir()
    file.write_text(json.dumps(record))
    add_to_file(file, some, model.sketch)
    assert read_priced_rows(file).rows == 100


def test_rows_of_another_model_are_refused(file, model, some, raises):
    other = model.sketch.model_copy(update={"rows": 7})
    assert sketch_id(other) != sketch_id(model.sketch)
    add_to_file(file, some, model.sketch)
    before = file.read_bytes()
    for add in (check_priced_file, lambda path, sketch: add_to_file(path, some, sketch)):
        with raises(DataError, "model"):
            add(file, other)
    assert file.read_bytes() == before


def test_bins_that_do_not_fit_are_refused(model, some, raises):
    counts = some.counts.model_copy(update={"predicted": [1]})
    with raises(DataError):
        some.model_copy(update={"counts": counts}).require(model.sketch)


@pytest.mark.parametrize("content", ["", "id,price\n1,2\n", "{}", '{"kind":"pricekit priced rows"}', "[1]"])
def test_other_files_are_never_replaced(file, model, some, content, raises):
    file.parent.mkdir()
    file.write_text(content)
    for call in (
        lambda: add_to_file(file, some, model.sketch),
        lambda: check_priced_file(file, model.sketch),
    ):
        with raises(DataError):
            call()
    assert file.read_text() == content


def test_what_cannot_be_read_is_explained(tmp_path, model, monkeypatch, raises):
    with raises(DataError):
        read_priced_rows(tmp_path)
    assert not is_priced_rows(tmp_path)
    assert not is_priced_rows(tmp_path / "nothing")
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    (tmp_path / "large").write_text(11 * "x")
    with raises(DataError):
        read_priced_rows(tmp_path / "large")


@pytest.mark.parametrize("rows", ["words", "filled", "values"])
def test_a_word_or_a_value_of_more_rows_than_there_are_is_refused(file, some, rows, raises):
    record = json.loads(some.to_text())
    field = next(each for each in record["counts"]["fields"].values() if each["values"])
    counts = {"words": record["counts"]["words"], "filled": field, "values": field["values"]}[rows]
    counts["filled" if rows == "filled" else next(iter(counts))] = 51
    file.parent.mkdir()
    file.write_text(json.dumps(record))
    with raises(DataError):
        read_priced_rows(file)


NAMES = st.lists(st.integers(0, 999), min_size=6, max_size=6)
VALUES = st.none() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=3)


@given(NAMES, VALUES)
def test_changed_values_are_errors_or_valid(some, model, names, value):
    """Whatever a file says, it is refused or compared; nothing else is raised."""
    parent = record = json.loads(some.to_text())
    for name in names:
        key = sorted(parent)[name % len(parent)]
        if not isinstance(parent[key], dict) or not parent[key]:
            break
        parent = parent[key]
    parent[key] = value
    try:
        found = PricedRows.model_validate_json(json.dumps(record))
    except ValueError:
        return
    try:
        assert isinstance(compare_priced(model.sketch, found, {}, {}).alarms, tuple)
    except DataError:
        return
