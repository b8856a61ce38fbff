"""A catalogue of Iceberg in a file of SQLite, and addresses of new tables."""

import os
import shutil
import tempfile
import uuid

import pytest

FOLDER = tempfile.mkdtemp(prefix="pricekit-lake-")
# pyiceberg reads the environment when it is imported. Nobody listens at the address of `other`.
os.environ["PYICEBERG_CATALOG__SHOP__URI"] = f"sqlite:///{FOLDER}/catalogue.db"
os.environ["PYICEBERG_CATALOG__SHOP__WAREHOUSE"] = f"file://{FOLDER}/warehouse"
os.environ["PYICEBERG_CATALOG__OTHER__URI"] = "mysql://user:open-sesame@127.0.0.1:9/x"


@pytest.fixture(scope="session")
def catalogue():
    """The catalogue `shop` with the namespace `sales`."""
    from pyiceberg.catalog import load_catalog

    loaded = load_catalog("shop")
    loaded.create_namespace("sales")
    yield loaded
    loaded.close()
    shutil.rmtree(FOLDER)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of a test, in which interrupted predictions leave their windows."""
    monkeypatch.setenv("PRICEKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(params=["delta", "iceberg"])
def address(request, tmp_path, catalogue):
    """The address of a table that does not exist yet."""
    if request.param == "delta":
        return f"delta:///{tmp_path}/table"
    return f"iceberg://shop/sales.t{uuid.uuid4().hex}"


@pytest.fixture
def versions(catalogue):
    """Return the number of versions of a table; 0 if there is none."""

    def count(address: str) -> int:
        place = address.partition("?")[0].partition("://")[2]
        if address.startswith("delta"):
            from deltalake import DeltaTable

            path = place[1:]
            return DeltaTable(path).version() + 1 if DeltaTable.is_deltatable(path) else 0
        name = place.partition("/")[2]
        return len(catalogue.load_table(name).snapshots()) if catalogue.table_exists(name) else 0

    return count
