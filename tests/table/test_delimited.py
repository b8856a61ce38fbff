"""Delimited files: every row of the file is one row of the table, whatever its cells hold."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit.table import Columns, read_table

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


@pytest.mark.parametrize("end", ['"cof', '"cof\n', '"'])
def test_a_file_that_ends_in_quotes_keeps_its_last_row_and_a_warning(tmp_path, end):
    path = tmp_path / "table.csv"
    path.write_text(f"id,price,name\n1,2,tea\n2,3,milk\n3,4,{end}", "utf-8")
    warnings = []
    assert _read(path, warnings.append).ids.tolist() == ["1", "2", "3"]
    assert any("quote" in warning for warning in warnings)
