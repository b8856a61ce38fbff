"""The conformance checks, one module per plugin kind."""
