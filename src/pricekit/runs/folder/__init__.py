"""The folder of a run: its files, what state it is in, overwriting it, and opening it."""
