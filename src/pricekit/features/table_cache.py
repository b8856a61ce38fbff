"""A cache on disk of what is computed from a table, in files whose names are hashes of all that the values depend on.

Files are safetensors with a checksum. An unreadable or damaged one is ignored and replaced, and a file that cannot be
written is not needed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from pricekit import __version__
from pricekit.io.files import write_atomically
from pricekit.io.log import logger
from pricekit.table.table import Table
from pricekit.table.vectors import holds_lists


def digest_of(text: str, table: Table, unless: str) -> Any:
    """Return a SHA-256 hash of the version of pricekit, of a text, and of the texts and columns of a table.

    If a column has values like lists, a warning that begins with `unless` is logged, and None is returned.
    """
    digest = hashlib.sha256(f"{__version__}\0{text}\0".encode())
    digest.update(pd.util.hash_pandas_object(table.text, index=False).to_numpy().tobytes())
    digest.update("\0".join(map(str, table.frame.columns)).encode())
    lists = [name for name in table.frame if holds_lists(table.frame[name])]
    for name in lists:
        cells = pa.array(table.frame[name])
        for chunk in cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]:
            digest.update(
                pc.fill_null(pc.list_value_length(chunk), -1).to_numpy(zero_copy_only=False).tobytes()
            )
            digest.update(chunk.flatten().to_numpy(zero_copy_only=False).tobytes())
    try:
        others = table.frame.drop(columns=lists)
        digest.update(pd.util.hash_pandas_object(others, index=False).to_numpy().tobytes())
    except TypeError as error:
        logger.warning(f"{unless}: a column cannot be hashed ({error})")
        return None
    return digest


def read_entry(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays in a file of the cache, and remember its use; {} if it is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from pricekit.io.digests import DamagedError, check_seal

    try:
        check_seal(path)
        arrays = load_file(path)
    except (OSError, SafetensorError, KeyError, DamagedError):
        return {}
    with suppress(OSError):
        os.utime(path)
    return dict(arrays)


def write_entry(path: Path, arrays: Mapping[str, np.ndarray], unless: str) -> None:
    """Write arrays into a file of the cache; log a warning that begins with `unless` if it cannot be written."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    from pricekit.io.digests import SEAL, seal

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as temporary:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, temporary, metadata=SEAL)
            seal(temporary)
    except (OSError, SafetensorError) as error:
        logger.warning(f"{unless}: {path} cannot be written ({error})")


def trim(folder: Path, most_bytes: int) -> None:
    """Delete the files of a cache that were not used for the longest time, until it is no larger than `most_bytes`."""
    files = []
    for path in folder.glob("*.safetensors"):
        with suppress(OSError):  # another process deletes it
            facts = path.stat()
            files.append((facts.st_mtime_ns, facts.st_size, path))
    size = sum(each for _, each, _ in files)
    for _, each, path in sorted(files):
        if size <= most_bytes:
            return
        path.unlink(missing_ok=True)
        size -= each
