"""The network: backbones, head, losses with their link to a price, and inference in torch."""
