"""Measurements of speed, each next to a peer in the same run."""
