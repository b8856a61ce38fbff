"""Workflows beyond a single run: cross-validation, ensembles, and pretraining of encoders."""
