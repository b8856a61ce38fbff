"""Loads for `pricekit serve`: benchmarks/serving_load.py runs them, and the tests of pricekit-serve in short forms."""
