"""`pricekit plugins new`: a complete package of a plugin, from templates."""
