"""The user's cache folder, and local places that stand for remote outputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pricekit.storage.address import Location
from pricekit.support.files import temporary_folder

VARIABLE = "PRICEKIT_CACHE"


def cache_folder() -> Path:
    """Return the folder of pricekit's caches: `PRICEKIT_CACHE`, or by default the one that is usual on this platform.

    It may not exist yet.
    """
    from platformdirs import user_cache_path

    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("pricekit")


@contextmanager
def working_path(out: Location) -> Iterator[Path]:
    """Yield the local path whose neighbours are the lock and the checkpoint of an output.

    For a local output it is the output itself. For a remote one it is a path in the cache that depends on the address
    only, so an interrupted command can be continued on the same machine. For a stream it is in a temporary folder.

    Example:
        >>> with working_path(Path("prices.csv")) as path:
        ...     path
        PosixPath('prices.csv')
    """
    if isinstance(out, Path):
        yield out
        return
    if out.is_stream:
        with temporary_folder() as temporary:
            yield temporary / f"stdout{out.suffix}"
        return
    folder = cache_folder() / "outputs" / hashlib.sha256(out.text.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder / out.name
    finally:
        with suppress(OSError):  # it contains what an interrupted command keeps
            folder.rmdir()
