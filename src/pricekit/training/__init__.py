"""Training: all of pricekit that imports torch, beside the export."""
