"""Predictions, rejected rows and other frames to files; a file appears complete or not at all."""
