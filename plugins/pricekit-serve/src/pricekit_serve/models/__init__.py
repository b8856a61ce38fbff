"""Open bundles by name, the queues that price their rows, and answers."""
