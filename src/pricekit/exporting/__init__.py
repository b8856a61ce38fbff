"""Export: run -> ONNX graph -> verification -> bundle."""
