"""Prices from a bundle: its format, the engines that run it, and prediction in memory and over files."""
