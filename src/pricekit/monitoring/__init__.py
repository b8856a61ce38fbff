"""Drift: how the rows of a table differ from those that a model was trained on, by a sketch instead of rows.

| module | purpose |
|---|---|
| sketch.py | what a model keeps of its training table: sketch.json |
| make.py | a sketch from training rows |
| words.py | the distinct words of texts |
| fields.py | labelled lines, columns, brands and units of rows |
| shares.py | how much the shares of two tables differ, and what chance does |
| domain.py | rows as vectors: the domain classifier, and the rows least like the training rows |
| rows.py | the rows of a table that are compared, whatever it lacks |
| counts/ | rows as counts in the bins of a sketch, which can be added up |
| differences.py | such counts against the sketch |
| compare.py | a table, or a file of counts, against a sketch |
| limits.py | what counts as an alarm, and limits that users set |
| result.py | what users see |
"""
