"""Comparables: the products with known prices that are most similar to a row.

| module | purpose |
|---|---|
| products.py | products with prices: their facts, their index, and how a bundle stores them |
| similar.py | the nearest products of many rows, what users see of them, and rows whose prices are far from theirs |
"""
