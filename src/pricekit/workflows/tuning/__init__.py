"""The search for better settings: trials on folds, their study, the choice, and its score on rows that no trial saw.

`tune.py` is the whole search, with the choice between the best trial and the configuration that the search started
from. `space.py` says what is searched, `study.py` which rows a trial sees and how all trials are stored with Optuna,
`trial.py` runs one trial, and `search.py` repeats trials until the time is over, in one process or several.
"""
