"""Tables of a source, here of the memory of this process: read once, written once, tried again."""

from contextlib import contextmanager

import pyarrow as pa
import pytest

import pricekit as pk
from pricekit import plugin
from pricekit.errors import ConfigError, DataError
from pricekit.io import sources
from pricekit.io.storage import Address, location_of
from pricekit.testing import check_source

TABLES: dict[str, dict] = {}
READS: list[tuple] = []


class Shop(plugin.Source):
    """Tables in memory, whose connection fails `failures` times."""

    failures = 0

    @contextmanager
    def read(self, address, columns=None, limit=None):
        READS.append((columns, limit))
        if address not in TABLES:
            raise DataError(f"{address} does not exist")
        if limit != 0:
            self._fail()
        rows = pa.Table.from_pylist(list(TABLES[address].values()))
        yield (rows if columns is None else rows.select(list(columns))).slice(0, limit).to_reader()

    def check(self, output):
        if output.address in TABLES and output.schema.names[0] not in next(
            iter(TABLES[output.address].values())
        ):
            raise DataError("another id")

    @contextmanager
    def write(self, output):
        yield Writer(output)

    def scratch(self, folder):
        return f"shop://{folder.name}"

    @classmethod
    def _fail(cls):
        if cls.failures:
            cls.failures -= 1
            raise ConnectionError("the line is cut")


class Writer:
    def __init__(self, output):
        self.output = output

    def write(self, rows):
        kept = TABLES.setdefault(self.output.address, {})
        new = {row[self.output.schema.names[0]]: row for row in rows.to_pylist()}
        if self.output.on_conflict == "error" and any(
            kept.get(row_id, row) != row for row_id, row in new.items()
        ):
            raise DataError("another price")
        kept.update(new)
        Shop._fail()  # after it has written, as a connection may


@pytest.fixture(autouse=True)
def shop(monkeypatch):
    def source(scheme, parameter):
        if scheme != "shop":
            raise ConfigError(f"the scheme {scheme} is unknown", parameters=(parameter,))
        return Shop()

    monkeypatch.setattr(sources, "_lookup", source)
    monkeypatch.setattr(sources, "PAUSE_SECONDS", 0.0)
    TABLES.clear()
    READS.clear()
    Shop.failures = 0


@pytest.fixture
def products():
    rows = pk.make_catalog(50, seed=1).to_dict("records")
    TABLES["shop://new?table=products"] = {row["sample_id"]: row for row in rows}
    return "shop://new?table=products"


@pytest.mark.parametrize("check", check_source(Shop)[:-1], ids=str)
def test_a_correct_source_passes_its_checks(check):
    check()


class Doubles(Shop):
    @contextmanager
    def write(self, output):
        class Twice(Writer):
            def write(self, rows):
                kept = TABLES.setdefault(self.output.address, {})
                kept.update({len(kept) + number: row for number, row in enumerate(rows.to_pylist())})

        yield Twice(output)


class CreatesOnRead(Shop):
    @contextmanager
    def read(self, address, columns=None, limit=None):
        TABLES.setdefault(address, {"x": {"sku": "x", "price": 1.0, "release": True}})
        with super().read(address, columns, limit) as stream:
            yield stream


class ChecksNothing(Shop):
    def check(self, output):
        """Accept all."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Doubles, "a batch that is repeated is written once"),
        (Doubles, "a conflict writes nothing"),
        (CreatesOnRead, "a table that is missing is an error"),
        (ChecksNothing, "a table with other columns is an error"),
    ],
)
def test_a_faulty_source_fails_the_check(kind, name, raises):
    (check,) = [check for check in check_source(kind) if check.name == name]
    with raises(AssertionError):
        check()


def test_a_table_is_a_location(products):
    location = location_of(products, "table")
    assert isinstance(location, Address)
    assert (location.is_table, location.name, location.suffix) == (True, "products", "")


def test_a_training_reads_a_table_once(products, tmp_path):
    settings = {"backbone.vocab_size": 300, "backbone.width": 8, "training.refit": False}
    pk.train(products, out=tmp_path / "run", epochs=1, features="fast15", settings=settings)
    assert [limit for _, limit in READS] == [0, None]


def test_a_check_reads_a_table_once(products):
    report = pk.check(products)
    assert (report.rows, report.format, report.id) == (50, "shop", "sample_id")
    assert [limit for _, limit in READS] == [0, None]


def test_a_lost_connection_is_tried_again(products):
    Shop.failures = 3
    assert len(pk.read_table(products)) == 50
    assert [limit for _, limit in READS] == [0, None, None, None, None]


def test_a_connection_that_stays_away_is_an_error(products, raises):
    Shop.failures = 1000
    with raises(DataError):
        pk.read_table(products)
    assert len(READS) == 1 + sources.ATTEMPTS


def test_only_the_columns_of_a_model_are_read(products, tmp_path):
    from pricekit.table import Columns, iter_table

    columns = Columns(("catalog_content",), None, "sample_id", others=())
    assert sum(map(len, iter_table(products, columns))) == 50
    assert READS[-1] == (["sample_id", "catalog_content"], None)


def test_a_query_in_a_file_needs_a_database_without_a_table(products, tmp_path, raises):
    (tmp_path / "new.sql").write_text("SELECT 1;")
    for table in (products, tmp_path / "new.csv", pk.make_catalog(3)):
        with raises(ConfigError, "sql"):
            pk.read_table(table, sql=tmp_path / "new.sql")
    TABLES["shop://new?query=SELECT%201"] = TABLES[products]
    assert len(pk.read_table("shop://new", sql=tmp_path / "new.sql")) == 50


def test_a_model_is_no_table(products, raises):
    with raises(ConfigError):
        pk.load(products).predict(pk.make_catalog(3))


def test_only_predictions_are_written_into_a_table(products, raises):
    from pricekit.table import write_frame

    with raises(DataError, "out"):
        write_frame(location_of(products, "out"), pk.make_catalog(3))
