"""What users learn about prices: explanations, comparables and drift.

| module | purpose |
|---|---|
| parts.py | a row as a tree of lines, phrases and words; rows without some of them |
| explanations.py | the contributions of the parts to the log price |
| products.py | products with known prices: their facts, their index, and how a bundle stores them |
| comparables.py | the products that are most similar to rows, and rows whose prices are far from theirs |
| sketch.py | what a model keeps of its training table, to compare other tables with: sketch.json |
| training_sketch.py | a sketch from training rows |
| fields.py | words, labelled lines, columns, brands and units of rows |
| domain.py | rows as vectors: the domain classifier, and the rows least like the training rows |
| counts.py | the rows of a table that are compared, as counts in the bins of a sketch |
| priced_rows.py | counts of rows that a model has priced: the file that `predict` and `serve` extend |
| shares.py | how much the shares of two tables differ, and how much they differ by chance |
| drift.py | counts against the sketch |
| alarms.py | which differences are alarms, and limits that users set |
"""

EVALUATIONS = 120
"""Default number of prices to explain that of a row."""
PRODUCTS = 5
"""Default number of similar products for a row."""
