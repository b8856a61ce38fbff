"""The network: backbones, the head, losses with their link to a price, and inference in torch."""
