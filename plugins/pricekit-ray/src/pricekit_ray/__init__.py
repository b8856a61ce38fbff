"""Ray for pricekit: price Ray Data datasets, and the files of a folder, with the workers of a cluster.

cluster.py   the connection to a cluster; the CPUs of a worker; whether a worker can work
runner.py    the runner `ray` of `pricekit predict`
actor.py     Predict, for `map_batches`
dataset.py   predict, for a whole dataset
"""

from pricekit_ray.actor import Predict
from pricekit_ray.dataset import predict

__all__ = ["Predict", "predict"]
