"""Tables of PostgreSQL, SQLite and DuckDB for pricekit: `postgresql://`, `sqlite:///` and `duckdb:///`."""

import pricekit
from pricekit.plugin import Register


@pricekit.plugin.hookimpl
def pricekit_register_sources(register: Register) -> None:
    """Register the databases."""
    register("postgresql", "pricekit_sql.source:Postgresql", "tables and queries of PostgreSQL")
    register("sqlite", "pricekit_sql.source:Sqlite", "tables and queries of a file of SQLite")
    register("duckdb", "pricekit_sql.source:Duckdb", "tables and queries of a file of DuckDB")
