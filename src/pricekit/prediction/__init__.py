"""Prediction: prices from a loaded model, for rows in memory or for table files of any size; imports no torch."""
