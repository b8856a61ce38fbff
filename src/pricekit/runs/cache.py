"""A cache of tokens and features on disk, keyed by their inputs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pricekit import __version__
from pricekit.preprocess import Inputs, Preprocessor, without_price
from pricekit.support.digests import SEAL, DamagedError, check_seal, seal
from pricekit.support.files import write_atomically
from pricekit.support.log import logger
from pricekit.table import Table
from pricekit.tokens import Tokens


def cached_inputs(preprocessor: Preprocessor, table: Table, folder: str | None) -> Inputs:
    """Return the model inputs of a table: from the cache, or computed and then cached.

    The key is a hash of the table's content, the fitted preprocessor and the version of pricekit. So a change of a
    text, the tokenizer, the length or a feature results in another file. An unreadable or damaged file is replaced.

    Args:
        preprocessor: the fitted preprocessor.
        table: N rows.
        folder: the folder of the cache; None disables it.
    """
    if folder is None:
        return preprocessor(table)
    try:
        path = Path(folder).expanduser() / f"{_key(preprocessor, table)}.safetensors"
    except TypeError as error:
        logger.warning(
            f"tokens and features of this table are not cached: a column cannot be hashed ({error})"
        )
        return preprocessor(table)
    try:
        check_seal(path)
        found = load_file(path)
        return Inputs(Tokens(found["ids"], found["offsets"]), found["features"], preprocessor.pad_id)
    except (OSError, SafetensorError, KeyError, DamagedError):
        inputs = preprocessor(table)
    arrays = {
        "ids": inputs.tokens.ids,
        "offsets": inputs.tokens.offsets,
        "features": np.ascontiguousarray(inputs.features),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as temporary:
            save_file(arrays, temporary, metadata=SEAL)
            seal(temporary)
    except (OSError, SafetensorError) as error:
        logger.warning(
            f"tokens and features of this table are not cached: {path} cannot be written ({error})"
        )
    return inputs


def _key(preprocessor: Preprocessor, table: Table) -> str:
    digest = hashlib.sha256(__version__.encode())
    for name, text in sorted(preprocessor.files().items()):
        digest.update(f"{name}\0{text}\0".encode())
    digest.update(pd.util.hash_pandas_object(table.text, index=False).to_numpy().tobytes())
    frame = without_price(table, preprocessor.columns).frame
    digest.update("\0".join(map(str, frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()
