"""Built-in features: numeric columns computed from the text, without torch and the price."""
