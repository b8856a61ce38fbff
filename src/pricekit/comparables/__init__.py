"""Comparables: the products with known prices that are most similar to a row.

| module | purpose |
|---|---|
| facts.py | brand, unit and size of a product, to compare only like with like |
| products.py | products with prices: their index, and how a bundle stores them |
| search.py | the nearest products of many rows |
| far.py | rows whose prices are far from those of similar products |
| result.py | what users see: text, HTML, JSON |
"""
