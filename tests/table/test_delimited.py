"""Delimited files: every row of the file is one row of the table, whatever its cells hold."""

import csv
import io
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.errors import DataError
from pricekit.table import Columns, ReadOptions, read_table
from pricekit.table.columns import ReadWarnings
from pricekit.table.source import open_table

COLUMNS = Columns(("name",), "price", "id")
CELLS = st.text(st.sampled_from('a"\0,;\r\n \tEND'), max_size=8).map(lambda text: f"tea {text}")


def _read(path, notices=lambda _: None):
    return read_table(path, COLUMNS, notices=notices)


@pytest.mark.parametrize("cell", ["\0END\0", "a\0END\0", '"\0END\0"', "END", "\x04", "\x1a"])
def test_no_cell_ends_a_table(tmp_path, cell):
    path = tmp_path / "table.csv"
    path.write_text(f"id,name,price\n1,tea,2\n{cell}\n2,{cell},3\n3,coffee,4\n", "utf-8")
    assert _read(path).ids.tolist()[-2:] == ["2", "3"]


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=20))
def test_each_row_that_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("id", "name", "more", "price"))
        writer.writerows((i, *row, i + 1) for i, row in enumerate(rows))
    table = _read(path)
    assert table.ids.tolist() == [str(i) for i in range(len(rows))]
    assert table.known_price.tolist() == [i + 1 for i in range(len(rows))]


RAW = st.lists(
    st.sampled_from(
        [
            '"',
            '""',
            ",",
            ";",
            "\n",
            "\r\n",
            "\r",
            "\0",
            " ",
            "é",
            "🙂",
            "tea",
            "1,2",
            '"a,b"',
            '"\n"',
            '1,"2\n3"\n',
        ]
    ),
    max_size=30,
)


@given(parts=RAW, width=st.sampled_from([1, 2, 3]), rows=st.sampled_from([1, 3, 8192]))
def test_any_text_is_divided_as_the_csv_module_divides_it(tmp_path_factory, parts, width, rows):
    header = [f"c{place}" for place in range(width)]
    text = ",".join(header) + "\n" + "".join(parts)
    path = tmp_path_factory.mktemp("raw") / "table.csv"
    path.write_text(text, "utf-8", newline="")
    divided = islice(filter(None, csv.reader(io.StringIO(text, newline=""))), 1, None)
    expected = [(fields + [""] * width)[:width] for fields in divided]
    try:
        chunks = list(open_table(path, ReadOptions("utf-8", ","), print).chunks(rows, ReadWarnings()))
    except DataError:  # an open quote encloses rows
        with pytest.raises(csv.Error):
            list(csv.reader(io.StringIO(text, newline=""), strict=True))
        return
    assert [list(row.values()) for chunk in chunks for row in chunk.columns.to_pylist()] == expected
    assert all(len(chunk.columns) <= rows for chunk in chunks)


def test_parts_that_arrow_refuses_lie_between_others(tmp_path):
    path = tmp_path / "table.csv"
    plain = [f'{i},"tea, {i}\n""fine""",{i + 1}\r\n' for i in range(20_000)]
    odd = {700: '700,5" pipe,701\r\n', 9_000: "9000,a\0b,9001\r\n", 9_001: "9001,short\r\n", 15_000: "\r\n"}
    text = "id,name,price\r\n" + "".join(odd.get(i, row) for i, row in enumerate(plain))
    path.write_text(text, "utf-8", newline="")
    read_warnings = ReadWarnings()
    chunks = list(open_table(path, ReadOptions(), print).chunks(500, read_warnings))
    expected = list(filter(None, csv.reader(io.StringIO(text, newline=""))))[1:]
    assert [list(row.values()) for chunk in chunks for row in chunk.columns.to_pylist()] == [
        [*row, ""][:3] for row in expected
    ]
    ragged = [place for place, row in enumerate(expected) if len(row) < 3]
    marks = [mark for chunk in chunks for mark in chunk.ragged.tolist()]
    assert [place for place, mark in enumerate(marks) if mark] == ragged
    assert read_warnings.first_ragged_line == text[: text.index("9001,short")].count("\n") + 1


def test_rows_inside_a_quoted_cell_are_counted(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f"{i},tea {i},{i + 1}\n" for i in range(50))
    enclosed = '50,"tea\n51,coffee,52\n52,milk,53\n53,""jam",54\n'
    path.write_text("id,name,price\n" + rows + enclosed + rows, "utf-8")
    warnings = []
    assert len(_read(path, warnings.append)) == 101
    assert any("3 lines that look like rows" in warning and "line 52" in warning for warning in warnings)


@pytest.mark.parametrize("end", ['"cof', '"cof\n', '"'])
def test_a_file_that_ends_in_quotes_keeps_its_last_row_and_a_warning(tmp_path, end):
    path = tmp_path / "table.csv"
    path.write_text(f"id,price,name\n1,2,tea\n2,3,milk\n3,4,{end}", "utf-8")
    warnings = []
    assert _read(path, warnings.append).ids.tolist() == ["1", "2", "3"]
    assert any("quote" in warning for warning in warnings)
