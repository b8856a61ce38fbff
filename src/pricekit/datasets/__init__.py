"""Synthetic product catalogues, with pictures if they are wanted, for demos, benchmarks and tests."""

from pricekit.datasets.catalog import make_catalog

__all__ = ["make_catalog"]
