"""Drift: how the rows of a table differ from those that a model was trained on, by a sketch instead of rows.

| module | purpose |
|---|---|
| sketch.py | what a model keeps of its training table: sketch.json |
| training_sketch.py | a sketch from training rows |
| fields.py | words, labelled lines, columns, brands and units of rows |
| domain.py | rows as vectors: the domain classifier, and the rows least like the training rows |
| counts.py | the rows of a table that are compared, as counts in the bins of a sketch |
| priced_rows.py | counts of rows that a model has priced: the file that `predict` and `serve` extend |
| shares.py | how much the shares of two tables differ, and what chance does |
| differences.py | counts against the sketch, and what users see |
| alarms.py | what counts as an alarm, and limits that users set |
"""
