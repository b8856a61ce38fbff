"""The roles of columns: which ones are text, price and id, and why the others are left out."""
