"""What surrounds every request: its id, the token, the log, the metrics, and answers to errors."""
