"""The search for better settings: trials on folds, their study, the choice, and its score on rows that no trial saw.

`tune.py` is the whole search. `space.py` says what is searched, `rows.py` which rows a trial sees, `trial.py` runs
one trial, `study.py` stores all trials with Optuna, `search.py` repeats trials until the time is over, in one process
or several, and `choice.py` decides between the best trial and the configuration that the search started from.
"""
