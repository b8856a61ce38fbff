"""Warm start: a run that continues from a finished one, on new rows."""
