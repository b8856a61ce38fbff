"""Small helpers that know nothing of prices: CPUs, atomic writes, log, progress bars, words."""
