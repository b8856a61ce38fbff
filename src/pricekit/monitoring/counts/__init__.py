"""Rows as counts in the bins of a sketch, which can be added up. They contain no row, but name words and values.

| module | purpose |
|---|---|
| model.py | the counts, and their sums |
| count.py | from rows to counts |
| watch.py | counts of a prediction, while it is running |
| priced.py | counts of rows that a model has priced: the file that `predict` and `serve` extend, and `drift` reads |
"""
