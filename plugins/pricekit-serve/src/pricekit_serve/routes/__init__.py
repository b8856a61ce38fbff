"""What answers at each address: pricekit's own interface, the Open Inference Protocol, its description, and a page."""
