from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from conftest import write_judged
from pricekit.errors import DataError
from pricekit.evaluation.held_out import (
    HELD_OUT,
    MOST_VALUES,
    count_shared_rows,
    held_out_of,
    read_held_out,
)
from pricekit.io.files import RECORD
from pricekit.io.record import Record, write_record
from pricekit.predict.intervals import INTERVALS
from pricekit.table import Table


def table(count=60, **columns):
    text = pd.Series([f"text {n}" for n in range(count)], dtype="str")
    price = np.arange(1.0, count + 1)
    frame = pd.DataFrame({"title": text, "price": pd.Series(price).astype("str")})
    for name, values in columns.items():
        frame[name] = values if isinstance(values, pd.Series) else pd.Series(values, dtype="str")
    return Table(pd.Series(range(count), name="row"), text, price, frame)


def equal(a, b):
    for field in fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other)
        elif isinstance(one, pd.Series):
            assert one.tolist() == other.tolist()
            assert one.dtype == other.dtype
        else:
            np.testing.assert_array_equal(one, other)
            assert one is None or one.dtype == other.dtype
    return True


def test_weights_are_read_back_beside_a_column_of_that_name(tmp_path, rows, raises):
    written = rows(20, sample_weight_=["a", "b"] * 10)
    write_judged(tmp_path, replace(written, weight=np.arange(20.0)))
    found = read_held_out(tmp_path)
    assert found.weight.tolist() == list(range(20))
    assert list(found.groups) == ["sample_weight_"]
    assert found.take(np.array([3, 1])).weight.tolist() == [3, 1]
    damaged = replace(written, weight=np.full(20, -1.0))
    write_judged(tmp_path, damaged)
    with raises(DataError):
        read_held_out(tmp_path)


def test_written_rows_are_read_back(tmp_path, rows):
    written = rows(50, folds=3, kind=["tea", "soap"] * 25, shade=["", "[red]"] * 25)
    write_judged(tmp_path, written)
    assert equal(read_held_out(tmp_path), written)
    assert sorted(path.name for path in tmp_path.iterdir()) == [HELD_OUT, INTERVALS, RECORD]
    frame = pd.read_parquet(tmp_path / HELD_OUT)
    assert list(frame) == ["row", "id", "fold", "text", "price", "predicted", "spread", "kind", "shade"]
    assert frame.dtypes.astype(str).tolist() == [
        "int64",
        "str",
        "int64",
        "str",
        "float64",
        "float64",
        "float64",
        "str",
        "str",
    ]


def test_rows_without_any_group_are_kept(tmp_path, rows):
    write_judged(tmp_path, rows(20))
    assert len(read_held_out(tmp_path)) == 20


def test_a_table_keeps_the_columns_that_group_its_rows():
    found = held_out_of(
        table(
            kind=["tea", "soap"] * 30,
            brand=[f"b{n % MOST_VALUES}" for n in range(60)],
            many=[f"m{n % (MOST_VALUES + 1)}" for n in range(60)],
            constant=["x"] * 60,
            stock=pd.Series([1, 2] * 30),
            fold=["a", "b"] * 30,
        ),
        np.ones(60),
        4,
    )
    assert list(found.groups) == ["kind", "brand", "fold_"]
    assert found.fold.tolist() == [4] * 60
    assert found.ids.tolist() == [str(n) for n in range(60)]


def test_the_text_and_the_price_are_no_groups():
    few = pd.Series(["red", "blue"] * 10, dtype="str")
    price = np.array([5.0, 7.0, 5.0, 7.0] * 5)
    frame = pd.DataFrame(
        {"title": few, "cost": pd.Series(["$5", "$7", "$5", "$7"] * 5), "size": ["s", "s", "m", "l"] * 5}
    )
    found = held_out_of(Table(few.rename("x"), few, price, frame.astype("str")), price)
    assert list(found.groups) == ["size"]


def test_the_row_numbers_and_folds_of_a_part(raises):
    found = held_out_of(table().take(np.array([7, 3])), np.array([1, 2], np.float32), np.array([1, 0]))
    assert (found.rows.tolist(), found.fold.tolist(), found.price.tolist()) == ([7, 3], [1, 0], [8, 4])
    with raises(ValueError):
        held_out_of(table(), np.ones(59))


def test_shared_rows_are_counted(rows):
    whole = rows(30)
    assert count_shared_rows(whole, whole.take(np.array([4, 9, 9, 20]))) == 3
    assert count_shared_rows(whole, whole.take(np.array([4, 9, 9]))) == 0  # these may be equal products
    assert count_shared_rows(whole, replace(whole, price=whole.price + 1)) == 0  # equal texts, other prices


@pytest.mark.parametrize(
    "record",
    [
        None,
        Record("run", "starting"),
        Record("run", "unfinished"),
        Record("search", "finished"),
        Record("bundle", "finished"),
        "damaged",
    ],
    ids=str,
)
def test_a_folder_without_held_out_rows_is_an_error(tmp_path, record, raises):
    folder = tmp_path / "folder"
    with raises(DataError):
        read_held_out(folder)
    folder.mkdir()
    if record == "damaged":
        (folder / RECORD).write_text("{")
    elif record is not None:
        write_record(folder, record)
    with raises(DataError):
        read_held_out(folder)


def test_missing_held_out_rows_are_named(tmp_path, rows, raises):
    write_judged(tmp_path, rows(20))
    (tmp_path / HELD_OUT).unlink()
    with raises(DataError):
        read_held_out(tmp_path)


def test_a_file_instead_of_a_folder(tmp_path, raises):
    (tmp_path / "x.csv").write_text("x")
    with raises(DataError):
        read_held_out(tmp_path / "x.csv")


def _with(**columns):
    return lambda path, frame: frame.assign(**columns).to_parquet(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path, frame: path.write_bytes(path.read_bytes()[:-40]),
        lambda path, frame: frame.drop(columns="fold").to_parquet(path),
        lambda path, frame: frame.head(0).to_parquet(path),
        _with(predicted=np.inf),
        _with(price=0.0),
        _with(price="dear"),
        _with(row=3),
    ],
    ids=["cut off", "no fold", "no rows", "infinite", "price 0", "no number", "row twice"],
)
def test_a_damaged_file_is_named(tmp_path, rows, spoil, raises):
    write_judged(tmp_path, rows(20))
    spoil(tmp_path / HELD_OUT, pd.read_parquet(tmp_path / HELD_OUT))
    with raises(DataError):
        read_held_out(tmp_path)
