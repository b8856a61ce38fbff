"""Texts as people write them: lines, words, numbers, units and amounts; equal and nearly equal texts; tokens."""
