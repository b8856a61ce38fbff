"""General helpers, independent of prices: CPUs, atomic writes, log, progress bars, text."""
