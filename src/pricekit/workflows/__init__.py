"""Workflows over several runs: cross-validation, ensembles, pretraining."""
