"""Tables of Delta Lake and Apache Iceberg for pricekit: `delta:///` and `iceberg://`."""

import pricekit
from pricekit.plugin import Register


@pricekit.plugin.hookimpl
def pricekit_register_sources(register: Register) -> None:
    """Register the formats."""
    register("delta", "pricekit_lake.delta:Delta", "tables of Delta Lake")
    register("iceberg", "pricekit_lake.iceberg:Iceberg", "tables of Apache Iceberg")
