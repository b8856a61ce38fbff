"""What a source reads and writes: values and types, versions, addresses, credentials, errors."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pricekit_lake.delta import Delta
from pricekit_lake.iceberg import Iceberg

import pricekit as pk
from pricekit.plugin import ConfigError, DataError, Output
from pricekit.testing import check_source

SCHEMA = pa.schema({"sku": pa.string(), "price": pa.float64()})


@pytest.mark.parametrize("check", check_source(Delta), ids=str)
def test_delta(check):
    check()


@pytest.mark.parametrize("number", range(len(check_source(Iceberg))))
def test_iceberg(number, catalogue):
    class Tested(Iceberg):
        def scratch(self, folder):
            return f"iceberg://shop/sales.t{uuid.uuid4().hex}"

    check_source(Tested)[number]()


def source_for(address):
    return Delta() if address.startswith("delta") else Iceberg()


def read(address, *arguments):
    with source_for(address).read(address, *arguments) as stream:
        return stream.read_all()


def prices_in(address):
    rows = read(address, ["sku", "price"]).to_pylist()
    prices = {row["sku"]: row["price"] for row in rows}
    assert len(prices) == len(rows)
    return prices


def output(address, job="1", on_conflict="update"):
    return Output(address, SCHEMA, on_conflict, job * 64)


def write(address, prices, job="1", on_conflict="update"):
    rows = pa.table([list(prices), list(prices.values())], schema=SCHEMA)
    with source_for(address).write(output(address, job, on_conflict)) as sink:
        sink.write(rows)


@pytest.fixture
def created(address, catalogue):
    """Create a table with rows, as another program does."""

    def create(rows: pa.Table, partition: str = "") -> str:
        if address.startswith("delta"):
            write_deltalake(address[9:], rows, partition_by=partition or None)
            return address
        table = catalogue.create_table(address[15:], rows.schema)
        if partition:
            with table.update_spec() as spec:
                spec.add_identity(partition)
        table.append(rows)
        return address

    return create


def test_types_are_kept(created):
    rows = pa.table(
        {
            "id": [7],
            "price": pa.array([Decimal("1.234")], pa.decimal128(10, 3)),
            "small": pa.array([1.5], pa.float32()),
            "since": [date(2026, 1, 2)],
            "at": pa.array([datetime(2026, 1, 2, 3, 4, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "vector": pa.array([[1.5, 2.0]], pa.list_(pa.float32())),
            "sold": [True],
            "title": ["Green tea"],
            "missing": pa.array([None], pa.string()),
        }
    )
    again = read(created(rows))
    assert again.to_pylist() == rows.to_pylist()
    kinds = {name: again.schema.field(name).type for name in ("price", "small", "since", "at", "sold")}
    assert kinds == {name: rows.schema.field(name).type for name in kinds}
    assert again.column_names == rows.column_names


def test_an_older_version_of_delta_is_read_whole(tmp_path):
    address = f"delta:///{tmp_path}/table"
    write(address, {"a": 1.0, "b": 2.0})
    write(address, {"a": 5.0, "c": 3.0}, "2")
    assert prices_in(address) == {"a": 5.0, "b": 2.0, "c": 3.0}
    assert prices_in(f"{address}?version=0") == {"a": 1.0, "b": 2.0}
    with pytest.raises(DataError, match="no version 9; the last one is 1"):
        read(f"{address}?version=9")
    with pytest.raises(ConfigError, match="names a version, but prices become a new one"):
        Delta().check(output(f"{address}?version=0"))


def test_rows_of_delta_have_the_order_of_the_files(tmp_path):
    for first in range(0, 200_000, 40_000):
        write_deltalake(tmp_path / "table", pa.table({"sku": range(first, first + 40_000)}), mode="append")
    files = [pq.read_table(file) for file in DeltaTable(tmp_path / "table").file_uris()]
    for _ in range(3):
        assert (
            read(f"delta:///{tmp_path}/table")["sku"].to_pylist()
            == pa.concat_tables(files)["sku"].to_pylist()
        )


def test_branches_tags_and_snapshots_of_iceberg_are_apart(catalogue):
    name = f"sales.t{uuid.uuid4().hex}"
    address = f"iceberg://shop/{name}"
    write(address, {"a": 1.0})
    table = catalogue.load_table(name)
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(first, "night").create_tag(first, "may").commit()
    write(f"{address}?branch=night", {"a": 2.0, "b": 3.0}, "2")
    assert prices_in(address) == {"a": 1.0}
    assert prices_in(f"{address}?branch=night") == {"a": 2.0, "b": 3.0}
    write(address, {"a": 7.0}, "3")
    for place in ("?tag=may", f"?snapshot={first}"):
        assert prices_in(address + place) == {"a": 1.0}
        with pytest.raises(ConfigError, match="prices go into a branch"):
            Iceberg().check(output(address + place))
    for place in ("?branch=nihgt", "?tag=night", "?snapshot=5", "?snapshot=" + "9" * 5000):
        with pytest.raises(DataError, match="there are: "):
            read(address + place)
        with pytest.raises((DataError, ConfigError)):
            Iceberg().check(output(address + place))
    with pytest.raises(DataError, match="and so no branch"):
        write(f"iceberg://shop/sales.t{uuid.uuid4().hex}?branch=night", {"a": 1.0})


def test_columns_that_are_not_written_keep_their_values(created, versions):
    address = created(
        pa.table(
            {
                "sku": ["a", "c", "d"],
                "own name": ["tea", "jam", "nut"],
                "price": pa.array([1, 2, None], pa.decimal128(9, 2)),
            }
        )
    )
    write(address, {"a": 3.14159, "b": 2.0, "c": 2.001})
    rows = read(address).sort_by("sku")
    assert rows.to_pydict() == {
        "sku": ["a", "b", "c", "d"],
        "own name": ["tea", None, "jam", "nut"],
        "price": [Decimal("3.14"), Decimal("2.00"), Decimal("2.00"), None],
    }
    before = versions(address)
    write(address, {"a": 3.142, "c": 1.999}, "2")  # the same in the type of the column
    assert versions(address) == before


@pytest.mark.parametrize("kind", ["sku", "shop"])
def test_partitions_are_kept(kind, created):
    address = created(
        pa.table({"sku": ["a", "b", "c"], "shop": ["x", "x", "y"], "price": [1.0, 2.0, 3.0]}), partition=kind
    )
    write(address, {"a": 5.0, "c": 6.0, "d": 7.0})
    rows = read(address).sort_by("sku")
    assert rows.to_pydict() == {
        "sku": ["a", "b", "c", "d"],
        "shop": ["x", "x", "y", None],
        "price": [5.0, 2.0, 6.0, 7.0],
    }


def test_many_files_are_compared_and_only_those_with_other_prices_are_replaced(address, catalogue):
    for first in range(0, 3000, 1000):
        write(
            address, {f"P{number:04d}": float(number) for number in range(first, first + 1000)}, str(first)[0]
        )
    files = files_of(address, catalogue)
    write(address, {f"P{number:04d}": -1.0 for number in range(1500, 1510)}, "9")
    assert len(files & files_of(address, catalogue)) == 2
    expected = {f"P{number:04d}": -1.0 if 1500 <= number < 1510 else float(number) for number in range(3000)}
    assert prices_in(address) == expected


def files_of(address, catalogue):
    if address.startswith("delta"):
        return set(DeltaTable(address[9:]).file_uris())
    return {task.file.file_path for task in catalogue.load_table(address[15:]).scan().plan_files()}


def test_a_job_is_committed_once(address, versions):
    write(address, {"a": 1.0, "b": 2.0}, "1")
    write(address, {"a": 1.0, "b": 2.0}, "2")  # equal rows
    assert versions(address) == 1
    write(address, {"a": 5.0}, "3")
    write(address, {"a": 1.0, "b": 2.0}, "1")
    assert versions(address) == 2
    assert prices_in(address) == {"a": 5.0, "b": 2.0}


def test_a_job_that_was_undone_is_committed_again(address, versions, catalogue):
    write(address, {"a": 1.0})
    write(address, {"a": 2.0}, "2")
    if address.startswith("delta"):
        DeltaTable(address[9:]).restore(0)
    else:
        table = catalogue.load_table(address[15:])
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert prices_in(address) == {"a": 1.0}
    write(address, {"a": 2.0}, "2")
    assert prices_in(address) == {"a": 2.0}


def test_nothing_is_visible_before_the_end(address, versions):
    write(address, {"a": 1.0})
    with source_for(address).write(output(address, "2")) as sink:
        for price in (2.0, 3.0):
            sink.write(pa.table([["a", "b"], [price, price]], schema=SCHEMA))
        assert prices_in(address) == {"a": 1.0}
    assert prices_in(address) == {"a": 3.0, "b": 3.0}
    assert versions(address) == 2


@pytest.mark.parametrize("name", ["position", "rowid", "number", "c1"])
def test_an_id_column_has_any_name(name, address):
    schema = pa.schema({name: pa.string(), "price": pa.float64()})
    for ids, price in (["a", "b"], 1.0), (["b", "c", "b"], 2.0):
        with source_for(address).write(Output(address, schema, job=f"{price}")) as sink:
            sink.write(pa.table([ids, [price] * len(ids)], schema=schema))
    rows = read(address, [name, "price"]).sort_by(name)
    assert rows.to_pydict() == {name: ["a", "b", "c"], "price": [1.0, 2.0, 2.0]}


def test_a_failure_commits_nothing(address, versions):
    def fail():
        with source_for(address).write(output(address)) as sink:
            sink.write(pa.table([["a"], [1.0]], schema=SCHEMA))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert versions(address) == 0


def test_a_commit_of_another_writer_is_seen(address, versions):
    write(address, {"a": 1.0})
    with source_for(address).write(output(address, "2")) as sink:
        sink.write(pa.table([["a", "b"], [2.0, 2.0]], schema=SCHEMA))
        write(address, {"b": 9.0, "c": 9.0}, "3")
    assert prices_in(address) == {"a": 2.0, "b": 2.0, "c": 9.0}
    assert versions(address) == 3


def test_writers_at_the_same_time_give_each_id_one_row(address, versions):
    """All begin when there is no table; two have the same job."""
    barrier = threading.Barrier(4)

    def run(number):
        with source_for(address).write(output(address, str(max(1, number)))) as sink:
            rows = [f"{max(1, number)}-{row}" for row in range(500)] + ["shared"]
            sink.write(pa.table([rows, [1.0] * 500 + [float(max(1, number))]], schema=SCHEMA))
            barrier.wait()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    prices = prices_in(address)
    assert len(prices) == 1501
    assert prices["shared"] in (1.0, 2.0, 3.0)
    assert versions(address) == 3


def test_an_id_in_several_rows_is_refused(created, versions):
    address = created(pa.table({"sku": ["a", "a", "b"], "price": [1.0, 2.0, 3.0]}))
    with pytest.raises(DataError, match="several rows with the id 'a'"):
        write(address, {"a": 5.0})
    write(address, {"b": 5.0})
    assert sorted(read(address)["price"].to_pylist()) == [1.0, 2.0, 5.0]


def test_a_conflict_commits_nothing(address, versions):
    write(address, {"a": 1.0})
    with pytest.raises(DataError, match="another price for the id 'a'"):
        write(address, {"a": 2.0, "b": 1.0}, "2", on_conflict="error")
    assert (prices_in(address), versions(address)) == ({"a": 1.0}, 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"price": pa.float64()}, "no column 'sku'"),
        ({"sku": pa.string()}, "no column 'price'"),
        (
            {"sku": pa.int64(), "price": pa.float64()},
            "'sku' of the table .* is of the type int64; expected a text",
        ),
        ({"sku": pa.string(), "price": pa.int64()}, "'price' of the table .* is of the type int64"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_first_row(columns, message, created):
    address = created(pa.schema(columns).empty_table())
    with pytest.raises(DataError, match=message):
        source_for(address).check(output(address))


def test_a_column_that_must_have_a_value_is_refused(created):
    schema = pa.schema([*SCHEMA, pa.field("shop", pa.string(), nullable=False)])
    address = created(schema.empty_table())
    with pytest.raises(DataError, match=r"'shop' of the table .* must have a value"):
        source_for(address).check(output(address))


def test_an_id_that_does_not_fit_is_refused(created, versions):
    address = created(pa.table({"sku": pa.array([1], pa.int32()), "price": [1.0]}))
    before = versions(address)
    schema = pa.schema({"sku": pa.int64(), "price": pa.float64()})
    sink = source_for(address).write(Output(address, schema, job="1" * 64))
    with pytest.raises(DataError, match="INT32") as error, sink as opened:
        opened.write(pa.table([[1, 1 << 40], [2.0, 2.0]], schema=schema))
    assert versions(address) == before
    assert "SELECT" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("delta://prices", "names no folder"),
        ("delta:///prices?version=last", "expected a whole number"),
        ("delta:///prices?verison=3", "unknown parameter 'verison'"),
        ("delta+ftp://host/prices", "the store 'ftp'"),
        ("iceberg://shop/prices", "names no table"),
        ("iceberg://sales.prices", "names no table"),
        ("iceberg://shop/sales.prices?branch=a&tag=b", "the parameters branch and tag"),
        ("iceberg://shop/sales.prices?version=1", "unknown parameter 'version'"),
        ("iceberg://shpo/sales.prices", "no catalogue 'shpo'"),
        ("delta+s3://key:geheim@bucket/prices", "contains a password"),
        ("delta+s3://bucket/prices?aws_secret_access_key=geheim", "contains a password"),
    ],
)
def test_an_address_that_says_too_little_or_too_much_is_refused(address, message):
    with pytest.raises(ConfigError, match=message) as error:
        pk.read_table(address)
    assert "geheim" not in str(error.value)


def test_a_table_that_is_missing_is_one_error(tmp_path, catalogue):
    for address in (
        f"delta:///{tmp_path}",
        f"delta:///{tmp_path}/x",
        "iceberg://shop/sales.x",
        "iceberg://shop/x.y",
    ):
        with pytest.raises(DataError, match="there is no table"):
            read(address)
    with pytest.raises(DataError, match="no namespace 'x'"):
        Iceberg().check(output("iceberg://shop/x.y"))
    with pytest.raises(DataError, match="there is no folder"):
        Delta().check(output(f"delta:///{tmp_path}/x/y"))


def test_a_file_that_is_missing_is_one_error(address, catalogue):
    write(address, {"a": 1.0})
    for file in files_of(address, catalogue):
        (pa.fs.LocalFileSystem()).delete_file(file.removeprefix("file://"))
    with pytest.raises(DataError):
        pk.read_table(address, text="sku")


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("delta:///own%20prices", {"a": 1.0})
    assert (tmp_path / "own prices" / "_delta_log").is_dir()
    assert prices_in("delta:///own%20prices") == {"a": 1.0}


@pytest.mark.parametrize(
    ("address", "said"), [("delta+s3://bucket/prices", ""), ("iceberg://other/sales.prices", "mysql")]
)
def test_credentials_appear_nowhere(address, said, started, monkeypatch):
    """Nobody listens there, so all libraries have reasons to complain."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open-sesame")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "eu")
    process = started("--verbose", "check", address)
    printed = process.stdout.read()
    assert process.wait() in (1, 4), printed
    assert said in printed
    assert "Traceback" not in printed
    assert "open-sesame" not in printed
