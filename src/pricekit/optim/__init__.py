"""Optimizers, learning-rate schedules, weight averages, and the policies that combine them."""
