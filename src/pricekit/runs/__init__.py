"""The run folder: read and split a table, train into the folder, open it again."""
