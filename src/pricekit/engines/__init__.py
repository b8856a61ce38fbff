"""Engines: what executes a bundle's graph."""
