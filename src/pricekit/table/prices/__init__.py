"""Parse written prices: convert a column of cells such as "1.234,56 €" to numbers."""
