"""Tables that the speed benchmarks share."""

from pricekit.cli.terminal import show_table


def show_facts(facts: dict[str, float | str]) -> None:
    """Print facts as a table."""
    rows = [[name, value if isinstance(value, str) else f"{value:,.2f}"] for name, value in facts.items()]
    show_table("", ["fact", "value"], rows, stderr=False)
