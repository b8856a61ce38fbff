"""Which of several processes this one is, without an import of torch: of its group, or as the launcher says."""

from __future__ import annotations

import os
import sys
from typing import Any


def launched_rank() -> int:
    """Return the number of this process among those that train together; 0 if it is alone."""
    if group := process_group():
        return int(group.rank())
    return int(os.environ.get("RANK", "0")) if launched_count() > 1 else 0


def launched_count() -> int:
    """Return how many processes train together; launchers such as torchrun and Ray write it into the environment."""
    if group := process_group():
        return int(group.size())
    return int(os.environ.get("WORLD_SIZE", "1"))


def quiet_torch() -> None:
    """Let torch log errors only, in processes that train together; call it before torch is imported.

    When another process is lost, torch warns with a stack of its C++ code; pricekit's own message says the same.
    """
    if launched_count() > 1:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def process_group() -> Any:
    """Return the process group of torch; None if there is none yet."""
    distributed = sys.modules.get("torch.distributed")
    return distributed.group.WORLD if distributed is not None and distributed.is_available() else None
