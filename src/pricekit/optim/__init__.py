"""Optimizers, learning-rate schedules, weight averages, and policies, which combine them with settings."""
