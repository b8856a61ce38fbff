"""A project file may name a table at an address."""

from pricekit.config.project import read_project
from pricekit.evaluation.table_report import profile_table
from pricekit.io.storage import Address


def test_the_table_of_a_project_may_be_remote(tmp_path):
    (tmp_path / "pricekit.toml").write_text('[table]\npath = "s3://shop/new.csv"\n')
    assert read_project(tmp_path).table == Address("s3://shop/new.csv")


def test_check_writes_the_address(memory, catalog, tmp_path):
    memory.pipe("/in/new.csv", catalog.read_bytes())
    profile_table(Address("memory://in/new.csv")).write(tmp_path / "pricekit.toml")
    assert read_project(tmp_path).table == Address("memory://in/new.csv")
