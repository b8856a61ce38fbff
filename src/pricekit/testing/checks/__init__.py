"""The conformance checks of each plugin kind."""
