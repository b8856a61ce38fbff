"""Export: from a run to an ONNX graph, its verification, and a bundle."""
