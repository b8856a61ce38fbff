"""Engines, which execute a bundle's graph."""
