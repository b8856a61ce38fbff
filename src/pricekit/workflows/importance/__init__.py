"""Importance over a table: how much worse a model gets without a feature or a line, and the effects of words.

| module | purpose |
|---|---|
| rows.py | the rows that are judged, each with the model that prices it |
| permute.py | permutation importance of features, lines and columns |
| words.py | the effects of words, from explanations of some rows |
| measure.py | all of it |
| result.py | what users see |
"""
