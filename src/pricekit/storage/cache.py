"""The user's cache folder, and local places that stand for remote outputs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pricekit.storage.address import Location

VARIABLE = "PRICEKIT_CACHE"


def cache_folder() -> Path:
    """Return the folder of pricekit's caches: `PRICEKIT_CACHE`, or by default the one that is usual on this platform.

    It may not exist yet.
    """
    from platformdirs import user_cache_path

    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("pricekit")


def working_path(out: Location) -> Path:
    """Return the local path whose neighbours are the lock and the checkpoint of an output.

    For a local output it is the output itself. For a remote one it is a path in the cache that depends on the address
    only, so an interrupted command is continued on the same machine. Its folder is created.

    Example:
        >>> working_path(Path("prices.csv"))
        PosixPath('prices.csv')
    """
    if isinstance(out, Path):
        return out
    folder = cache_folder() / "outputs" / hashlib.sha256(out.text.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    return folder / out.name
