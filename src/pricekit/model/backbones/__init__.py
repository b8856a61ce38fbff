"""The built-in backbones, one a file."""
