"""What a source reads and writes: values and types, addresses, credentials, errors."""

import sqlite3
from datetime import date
from decimal import Decimal
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pricekit_sql.source import Duckdb, Postgresql, Sqlite

import pricekit as pk
from pricekit.plugin import ConfigError, DataError, Output
from pricekit.testing import check_source

SCHEMA = pa.schema({"sku": pa.string(), "price": pa.float64()})


@pytest.mark.parametrize("check", check_source(Sqlite), ids=str)
def test_sqlite(check):
    check()


@pytest.mark.parametrize("check", check_source(Duckdb), ids=str)
def test_duckdb(check):
    check()


@pytest.mark.parametrize("number", range(len(check_source(Postgresql))))
def test_postgresql(number, server, table):
    class Tested(Postgresql):
        def scratch(self, folder):
            return server.address(table)

    check_source(Tested)[number]()


def read(source, address, *arguments):
    with source.read(address, *arguments) as stream:
        return stream.read_all()


def test_types_of_postgresql_are_kept(server, table):
    server.execute(
        f"""CREATE TABLE {table} AS SELECT 7 id, 1.234::numeric(10,3) price, 12345678901234567890.5::numeric large,
        3.50::money paid, 'z'::char(3) padded, true sold, DATE '2026-01-02' since, 'NaN'::numeric nothing,
        'c50d1a6f-3b7e-4f0e-9a5e-0d3f5f4b2a11'::uuid key, '{{"a": 1}}'::jsonb facts, ARRAY[1.5, 2]::real[] vector,
        interval '1 day' lasts, null::text missing"""
    )
    rows = read(Postgresql(), server.address(table))
    assert rows.to_pylist() == [
        {
            "id": 7,
            "price": Decimal("1.234"),
            "large": Decimal("12345678901234567890.500000000"),
            "paid": Decimal("3.500000000"),
            "padded": "z",
            "sold": True,
            "since": date(2026, 1, 2),
            "nothing": None,
            "key": "c50d1a6f-3b7e-4f0e-9a5e-0d3f5f4b2a11",
            "facts": '{"a": 1}',
            "vector": [1.5, 2.0],
            "lasts": "1 day",
            "missing": None,
        }
    ]
    assert rows.schema.field("price").type == pa.decimal128(10, 3)


def test_a_decimal_of_three_places_is_no_thousand(server, table):
    server.execute(
        f"CREATE TABLE {table} AS SELECT 'Tea ' || i title, 1.234::numeric price FROM generate_series(1, 9) i"
    )
    assert pk.read_table(server.address(table)).price.tolist() == [1.234] * 9


@given(
    st.lists(
        st.one_of(
            st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=9)
        ),
        min_size=1,
        max_size=9,
    )
)
@settings(max_examples=40, deadline=None)
def test_values_of_sqlite_share_the_type_that_holds_all(tmp_path_factory, values):
    texts = [value.replace("\0", "") if isinstance(value, str) else value for value in values]
    file = tmp_path_factory.mktemp("database") / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE products (value)")
        connection.executemany("INSERT INTO products VALUES (?)", [(value,) for value in texts])
    read_values = read(Sqlite(), f"sqlite:///{file}?table=products")["value"].to_pylist()
    kinds = {type(value) for value in texts if value is not None}
    if kinds <= {int, float}:
        assert read_values == [value if kinds == {int} or value is None else float(value) for value in texts]
    else:
        assert [value is None for value in read_values] == [value is None for value in texts]
        assert [value for value in read_values if isinstance(value, str)] == [
            v for v in read_values if v is not None
        ]
        assert [r for r, v in zip(read_values, texts, strict=True) if isinstance(v, str)] == [
            value for value in texts if isinstance(value, str)
        ]


def test_a_query_with_a_comment_is_read(tmp_path):
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE products AS SELECT i id, 'tea ' || i title FROM range(9) t(i)")
    query = "WITH few AS (SELECT * FROM products WHERE id < 3) SELECT title FROM few ORDER BY id -- the first ones"
    rows = read(Duckdb(), f"duckdb:///{file}?query={quote(query)}")
    assert rows.to_pydict() == {"title": ["tea 0", "tea 1", "tea 2"]}


def test_two_columns_of_one_name_are_refused(server):
    address = server.address("t").replace("table=t", "query=SELECT%201%20AS%20a,%202%20AS%20a")
    with pytest.raises(DataError, match="two columns have the name 'a'"):
        pk.read_table(address)


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_a_check_of_an_output_creates_no_file(scheme, tmp_path):
    source = {"sqlite": Sqlite, "duckdb": Duckdb}[scheme]()
    source.check(Output(f"{scheme}:///{tmp_path}/new?table=prices", SCHEMA))
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="there is no file"):
        source.check(Output(f"{scheme}:///{tmp_path}/nowhere/new?table=prices", SCHEMA))


@pytest.mark.parametrize(
    "words", [["check"], ["train"], ["predict", "bundle"], ["drift", "bundle"], ["pretrain"]]
)
@pytest.mark.parametrize("flags", [[], ["--verbose"], ["--log-format", "json"]])
def test_no_command_prints_a_password_in_an_address(words, flags, pricekit):
    address = "postgresql://shop:geheim@db.example/shop?table=products"
    code, out, errors = pricekit(*words, address, *flags, "--out", address)
    assert code != 0
    assert "geheim" not in out + errors


def test_reading_changes_nothing(server, table, tmp_path):
    server.execute(f"CREATE TABLE {table} (id int)", f"INSERT INTO {table} VALUES (1)")
    server.execute(
        f"CREATE OR REPLACE FUNCTION empty() RETURNS int LANGUAGE sql AS 'DELETE FROM {table}; SELECT 1'"
    )
    address = server.address(table).replace(f"table={table}", f"query={quote('SELECT empty() AS a')}")
    with pytest.raises(DataError, match="read-only"):
        read(Postgresql(), address)
    assert server.execute(f"SELECT count(*) FROM {table}") == [(1,)]
    with pytest.raises(DataError, match="there is no file"):
        read(Sqlite(), f"sqlite:///{tmp_path}/new.db?table=products")
    assert not (tmp_path / "new.db").exists()


def test_columns_that_are_not_written_keep_their_values(server, table):
    server.execute(
        f"CREATE TABLE {table} (sku text PRIMARY KEY, title text DEFAULT 'new', price numeric(10, 2))",
        f"INSERT INTO {table} VALUES ('a', 'Green tea', 1), ('c', 'Plum jam', 2)",
    )
    with Postgresql().write(Output(server.address(table), SCHEMA)) as sink:
        sink.write(pa.table({"sku": ["a", "b"], "price": [3.14159, 2.0]}, schema=SCHEMA))
    assert server.execute(f"SELECT sku, title, price::text FROM {table} ORDER BY sku") == [
        ("a", "Green tea", "3.14"),
        ("b", "new", "2.00"),
        ("c", "Plum jam", "2.00"),
    ]


def test_a_row_with_the_same_price_is_not_written_again(server, table):
    rows = pa.table({"sku": ["a", "b"], "price": [0.1, 2.0]}, schema=SCHEMA)
    with Postgresql().write(Output(server.address(table), SCHEMA)) as sink:
        sink.write(rows)
        before = server.execute(f"SELECT sku, xmin::text FROM {table} ORDER BY sku")
        sink.write(rows)
        sink.write(rows.set_column(1, "price", pa.array([0.1, 3.0])))
    after = server.execute(f"SELECT sku, xmin::text FROM {table} ORDER BY sku")
    assert after[0] == before[0]
    assert after[1] != before[1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("price double precision", "no column 'sku'"),
        ("sku text PRIMARY KEY", "no column 'price'"),
        ("sku text, price double precision", "neither its primary key nor unique"),
        (
            "sku text, shop int, price double precision, PRIMARY KEY (sku, shop)",
            "neither its primary key nor unique",
        ),
        ("sku text PRIMARY KEY, price integer", "'price' of the table .* is of the type integer"),
        ("sku text PRIMARY KEY, price text", "'price' of the table .* is of the type text"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_first_row(server, table, columns, message):
    server.execute(f"CREATE TABLE {table} ({columns})")
    with pytest.raises(DataError, match=message):
        Postgresql().check(Output(server.address(table), SCHEMA))


@pytest.mark.parametrize("sku", ["007", "7.0", " 7", "x"])
def test_an_id_that_would_change_is_refused(server, table, sku):
    server.execute(f"CREATE TABLE {table} (sku bigint PRIMARY KEY, price real)")
    with Postgresql().write(Output(server.address(table), SCHEMA)) as sink:
        sink.write(pa.table({"sku": ["7"], "price": [1.5]}, schema=SCHEMA))
        with pytest.raises(DataError):
            sink.write(pa.table({"sku": [sku], "price": [2.5]}, schema=SCHEMA))
    assert server.execute(f"SELECT * FROM {table}") == [(7, 1.5)]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite:///shop.db", "neither a table nor a query"),
        ("sqlite:///shop.db?table=a&query=SELECT%201", "both a table and a query"),
        ("sqlite:///shop.db?table=a&table=b", "twice"),
        ("sqlite:///shop.db?tabel=a", "neither a table nor a query"),
        ("sqlite:///shop.db?table=a&mode=memory", "unknown parameter 'mode'"),
        ("sqlite://shop.db?table=a", "names no file"),
        ("postgresql://shop:geheim@host/shop?table=a", "contains a password"),
        ("postgresql://shop@host/shop?table=a&password=geheim", "contains a password"),
        ("postgresql://shop:ge%68eim@host/shop?table=a", "contains a password"),
    ],
)
def test_an_address_that_says_too_little_or_too_much_is_refused(address, message):
    with pytest.raises(ConfigError, match=message) as error:
        pk.read_table(address)
    assert "geheim" not in str(error.value)


def test_a_password_comes_from_the_environment_and_appears_nowhere(
    server, table, pricekit, tmp_path, monkeypatch
):
    server.execute(
        f"CREATE TABLE {table} AS SELECT 1 sample_id, 'Green tea' catalog_content",
        f"GRANT SELECT ON {table} TO guarded",
    )
    passwords = tmp_path / "passwords"
    passwords.write_text("*:*:*:guarded:open-sesame\n")
    passwords.chmod(0o600)
    for variable, value, expected in (
        ("PGPASSWORD", "open-sesame", 0),
        ("PGPASSFILE", str(passwords), 0),
        ("PGPASSWORD", "wrong-word", 1),
        ("PGPASSFILE", "/dev/null", 1),
    ):
        with monkeypatch.context() as patch:
            for name in ("PGPASSWORD", "PGPASSFILE"):
                patch.delenv(name, raising=False)
            patch.setenv(variable, value)
            code, out, errors = pricekit(
                "check", server.address(table, user="guarded"), "--limit", 1, "--verbose"
            )
        assert code == expected, errors
        assert "open-sesame" not in out + errors
        assert "wrong-word" not in out + errors


def test_a_server_that_is_not_there_is_one_clear_error(pricekit, tmp_path):
    code, _, errors = pricekit("check", f"postgresql://shop@/shop?host={tmp_path}&table=products")
    assert code == 4, errors
    assert "cannot be read" in errors
