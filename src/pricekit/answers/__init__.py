"""What a model of any kind answers: prices of a table, its errors, importance, drift, and ranks of several models."""
