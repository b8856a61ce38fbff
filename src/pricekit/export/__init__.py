"""A run as a bundle: the graph, its precision, its verification and its documents."""
