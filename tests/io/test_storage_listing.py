import os
from pathlib import Path

import pytest

from pricekit.errors import DataError
from pricekit.io.storage import (
    Address,
    exists,
    files_below,
    fingerprint,
    fingerprints_below,
    for_all,
    is_folder,
    matching,
    size_of,
    split_pattern,
)

NAMES = ("a.parquet", "b/c.parquet", "b/d.csv", "b/e/f.csv")


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path, memory):
    """The same files, locally and remotely."""
    for name in NAMES:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
        memory.pipe(f"/in/{name}", name.encode())
    return tmp_path / "in" if request.param == "local" else Address("memory://in")


def below(folder, files):
    return [file.relative_to(folder).as_posix() for file in files]


def test_all_files_of_a_folder(folder):
    assert below(folder, files_below(folder)) == list(NAMES)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", ["a.parquet"]),
        ("*/*.csv", ["b/d.csv"]),
        ("**/*.csv", ["b/d.csv", "b/e/f.csv"]),
        ("b/[cd].*", ["b/c.parquet", "b/d.csv"]),
        ("b/?", []),
        ("*", ["a.parquet"]),
    ],
)
def test_the_files_of_a_pattern(folder, pattern, expected):
    assert below(folder, matching(folder / pattern)) == expected


def test_what_exists(folder):
    assert exists(folder)
    assert is_folder(folder)
    assert exists(folder / "a.parquet")
    assert not is_folder(folder / "a.parquet")
    assert not exists(folder / "missing")
    assert not is_folder(folder / "missing")
    assert size_of(folder / "a.parquet") == 9
    assert size_of(folder / "missing") == 0


def test_a_fingerprint_changes_when_a_file_is_replaced(folder, memory):
    file = folder / "a.parquet"
    before = fingerprint(file)
    assert before == fingerprint(file)
    if isinstance(file, Path):
        file.write_text("other !!!")
        os.utime(file, (1, 1))
    else:
        memory.pipe("/in/a.parquet", b"other !!!")
    assert fingerprint(file) != before
    assert fingerprint(folder / "missing") == []


def test_one_listing_shows_each_change_below_a_folder(memory, failing, raises):
    folder = Address("memory://in")
    assert fingerprints_below(folder) == {}
    memory.pipe({"/in/a.csv": b"a", "/in/b/c.csv": b"c"})
    before = fingerprints_below(folder)
    assert before == fingerprints_below(folder)
    assert {name: size for name, (size, _) in before.items()} == {"a.csv": 1, "b/c.csv": 1}
    memory.pipe("/in/b/c.csv", b"d")
    after = fingerprints_below(folder)
    assert [name for name in before if before[name] != after[name]] == ["b/c.csv"]
    assert before.keys() == after.keys()
    failing("find", range(1, 99), PermissionError("no"))
    with raises(DataError):
        fingerprints_below(folder)


def test_facts_of_many_files_are_in_order(folder):
    files = files_below(folder)
    assert for_all(size_of, files) == [len(name) for name in NAMES]


def test_a_stream_exists_and_has_no_facts():
    assert exists(Address("-"))
    assert not is_folder(Address("-"))
    assert fingerprint(Address("-")) == ["-"]


def test_a_pattern_is_split_where_it_begins_to_vary():
    fixed, varying = split_pattern(Address("s3://b/in/*/x.csv"))
    assert (fixed, varying.as_posix()) == (Address("s3://b/in"), "*/x.csv")
    assert split_pattern(Path("in/*.csv")) == (Path("in"), Path("*.csv"))
