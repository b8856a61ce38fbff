"""Feature `trees`: the log price that boosted trees predict from numbers, categories and words."""
