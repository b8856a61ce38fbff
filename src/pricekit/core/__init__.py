"""The plugin interfaces: hookspecs, contracts, registry, guarded loader."""
