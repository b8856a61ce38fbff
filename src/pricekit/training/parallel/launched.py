"""Processes that train together: what their launcher says in the environment, before torch is imported."""

from __future__ import annotations

import os
import sys


def launched_rank() -> int:
    """Return the number of this process among those that train together; 0 if it is alone."""
    return int(os.environ.get("RANK", "0")) if launched_count() > 1 else 0


def launched_count() -> int:
    """Return how many processes train together, as torchrun, `accelerate launch` and Ray say it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def trains_together() -> bool:
    """Return whether this is one of several processes that train together."""
    distributed = sys.modules.get(
        "torch.distributed"
    )  # a program may have created a group without a launcher
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_world_size() > 1)
    return launched_count() > 1
