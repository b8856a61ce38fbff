"""The run folder: split a table, train into the folder, resume it, open it."""
