"""The built-in backbones: bag, lstm, and transformers, pretrained or from scratch."""
