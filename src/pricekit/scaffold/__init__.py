"""Write a complete plugin package from templates; behind `pricekit plugins new`."""
