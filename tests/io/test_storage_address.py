from pathlib import Path

import pytest

from pricekit.errors import ConfigError
from pricekit.io.storage import Address, is_remote, location_of


@pytest.mark.parametrize(
    "text", ["s3://b/x.parquet", "gs://b/d/x.csv", "abfs://c@a.host/x", "hdfs://h:80/x", "memory://x"]
)
def test_a_text_with_a_scheme_is_an_address(text):
    assert location_of(text, "table") == Address(text)
    assert is_remote(location_of(text, "table"))


@pytest.mark.parametrize(
    "given", ["x.csv", "a-b/x.csv", "./-", "c:/x.csv", "-x.csv", Path("s3://b/x.csv"), Path("-")]
)
def test_paths_are_local(given):
    assert location_of(given, "table") == Path(given)
    assert not is_remote(location_of(given, "table"))


@pytest.mark.parametrize(("text", "suffix"), [("-", ".csv"), ("-.jsonl", ".jsonl"), ("-.tsv", ".tsv")])
def test_a_dash_is_a_stream(text, suffix):
    location = location_of(text, "table")
    assert isinstance(location, Address)
    assert location.is_stream
    assert location.suffix == suffix
    assert not is_remote(location)


def test_the_parts_of_an_address():
    address = Address("s3://bucket/night/new.csv.gz")
    assert (address.scheme, address.name, address.suffix) == ("s3", "new.csv.gz", ".gz")
    assert str(Address("s3://bucket/night/") / "a.csv") == "s3://bucket/night/a.csv"
    assert address.relative_to(Address("s3://bucket")).as_posix() == "night/new.csv.gz"


def test_a_slash_at_the_end_is_no_part_of_the_name():
    assert location_of("s3://bucket/night/", "table") == Address("s3://bucket/night")


@pytest.mark.parametrize("text", ["ftp://host/x.csv", "postgres://host/shop?table=products", "s4://b/x.csv"])
def test_an_unknown_scheme_is_refused(text, raises):
    with raises(ConfigError, "table"):
        location_of(text, "table")


@pytest.mark.parametrize(
    "text",
    ["shop://me:geheim@host/new", "shop://host/new?access_token=geheim", "shop://me:ge%68eim@host/new"],
)
def test_credentials_in_the_address_of_a_table_are_refused_and_not_shown(text, raises):
    with raises(ConfigError, "out") as refused:
        location_of(text, "out")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("text", ["s3://", "s3:///", "s3://b/\0", "s3://b/.."])
def test_an_address_of_nothing_is_refused(text, raises):
    with raises(ConfigError, "table"):
        location_of(text, "table")


@pytest.mark.parametrize("given", [None, 3, ""])
def test_what_is_no_path_is_refused(given, raises):
    with raises(ConfigError, "table"):
        location_of(given, "table")
