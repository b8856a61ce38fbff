"""Spark for pricekit: prices of a DataFrame, and of folders on a cluster.

frame.py     prices of a DataFrame
rows.py      prices Arrow batches, in a worker
parcel.py    a job on its way to the workers, and the check that they can do it
runner.py    prices the files of a folder
session.py   the Spark session of a runner
quiet.py     silences what Spark says without a need
"""

from pricekit_spark.frame import predict

__all__ = ["predict"]
