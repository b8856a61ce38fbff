"""A feature and an engine in a file that imports torch, which is missing in prediction."""

import numpy as np
import torch

from pricekit.predict.ort import load_cpu


class Length:
    names = ("length",)

    def fit(self, table):
        return {}

    def transform(self, table, state):
        return np.asarray(torch.tensor(table.text.str.len().to_numpy()[:, None]), np.float32)


class Cpu:
    length_multiple = 1

    def load(self, graph):
        return load_cpu(graph.model)
