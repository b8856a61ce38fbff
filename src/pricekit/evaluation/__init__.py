"""Model and table quality: held-out rows and their scores, comparisons, errors, duplicates, leaks, table reports."""
