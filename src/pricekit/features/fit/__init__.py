"""Fitting features to the training rows: which rows, out of fold, cached, within a time."""
