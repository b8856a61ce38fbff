"""Columns of odd types and values are read, or refused by an error that names them."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pricekit import check
from pricekit.errors import DataError
from pricekit.table import Columns, iter_table, read_table

NAMES = ["tea", "milk", "rice"]
LOST_ZONE = pa.array([0, None, 86_400], pa.timestamp("s", "Nowhere/Zone"))
YEAR_300_000 = pa.array([9_404_272_800_000, None, 0], pa.timestamp("s"))


def frame_with(odd):
    return pa.table({"name": NAMES, "odd": odd, "price": [2.0, 1.5, 3.0]})


@pytest.fixture(params=["frame", "file"])
def table_with(request, tmp_path):
    """Return a function that makes a table with an odd column, in memory or as a Parquet file."""

    def make(odd):
        if request.param == "frame":
            return frame_with(odd)
        pq.write_table(frame_with(odd), tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    return make


@pytest.mark.parametrize("role", ["text", "id", "none"])
def test_times_in_an_unknown_zone_are_read_in_utc(table_with, role):
    text = ("name", "odd") if role == "text" else ("name",)
    table = read_table(
        table_with(LOST_ZONE), Columns(text, "price", "odd" if role == "id" else None, role == "id")
    )
    assert str(table.frame["odd"][2]) == "1970-01-02 00:00:00+00:00"
    if role == "text":
        assert "1970-01-02 00:00:00" in table.text[2]
    assert check(table_with(LOST_ZONE)).rows == 3


def test_times_in_an_unknown_zone_inside_lists_are_read(table_with):
    odd = table_with(pa.array([[0], [], None], pa.list_(LOST_ZONE.type)))
    assert "1970-01-01 00:00:00" in read_table(odd, Columns(("odd",), "price", None)).text[0]
    assert check(odd).rows == 3


def test_a_column_that_neither_pandas_nor_text_can_hold_is_named(raises):
    odd = pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [YEAR_300_000])
    for text in ("odd", "name"):
        with raises(DataError, "table", column="odd"):
            read_table(frame_with(odd), Columns((text,), "price", None))


def test_years_that_python_cannot_hold_become_text(table_with):
    assert read_table(table_with(YEAR_300_000), Columns(("name",), "price", None)).frame["odd"].dtype == "str"
    assert check(table_with(YEAR_300_000)).rows == 3


def test_ids_keep_one_type_in_all_chunks(raises):
    chunks = iter_table(frame_with(YEAR_300_000), Columns(("name",), None, "odd", True), rows=1)
    with raises(DataError, "table", column="odd"):
        next(chunks)


def test_encoded_runs_and_intervals_are_text():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["green tea"]))
    assert read_table(frame_with(runs), Columns(("odd",), "price", None)).text.tolist() == ["green tea"] * 3
    spans = pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval())
    assert read_table(frame_with(spans), Columns(("odd",), "price", None)).text[1] == ""


def test_a_frame_whose_library_panics_is_refused(raises):
    odd = pl.DataFrame({"name": NAMES})

    class PanicException(BaseException):
        """As polars raises it."""

    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            if self.exports:
                raise PanicException("precision")
            self.exports += 1
            return odd.__arrow_c_stream__(requested_schema)

        exports = 0

    with raises(DataError, "table", column=None):
        read_table(Frame(), Columns(("name",), None, None))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_is_the_text_that_a_csv_file_has(tmp_path, unit):
    times = pd.Series(pd.to_datetime(["2020-01-31", "2021-02-01", None]), name="listed").dt.as_unit(unit)
    times.to_csv(tmp_path / "days.csv", index=False)
    (times + pd.Timedelta(hours=5)).to_csv(tmp_path / "hours.csv", index=False)
    columns = Columns(("listed",), None, None)
    for name, frame in (("days", times.to_frame()), ("hours", (times + pd.Timedelta(hours=5)).to_frame())):
        assert read_table(frame, columns).text.equals(read_table(tmp_path / f"{name}.csv", columns).text)
