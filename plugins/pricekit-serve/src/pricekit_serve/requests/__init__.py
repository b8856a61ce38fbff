"""Bodies of requests: read within limits, parsed without trust, and turned into checked rows."""
