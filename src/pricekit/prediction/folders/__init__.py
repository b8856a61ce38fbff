"""Prediction from folder to folder: one output file for each input file, by any number of workers.

parts.py     which input file becomes which output file
record.py    what is remembered of a finished file, so that it is not priced again
job.py       prices one file; workers on any machine receive it
run.py       finds what is left to do, lets a runner do it, and lists the failures
runners.py   who works: this process, several processes, or a cluster through a plugin package
"""

from pricekit.prediction.folders.job import Job, Outcome
from pricekit.prediction.folders.parts import Part
from pricekit.prediction.folders.runners import Runner

__all__ = ["Job", "Outcome", "Part", "Runner"]
