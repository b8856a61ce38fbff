"""A cache of tokens and features on disk, keyed by their inputs."""

from __future__ import annotations

from pathlib import Path

from pricekit.preprocess import Inputs, Preprocessor, without_price
from pricekit.support.log import logger
from pricekit.table import Table
from pricekit.table.cache import add_rows, new_digest, read_entry, write_entry
from pricekit.tokens import Tokens

_UNCACHED = "tokens and features of this table are not cached"


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
        logger.warning(f"{_UNCACHED}: a column cannot be hashed ({error})")
        return preprocessor(table)
    found = read_entry(path)
    if found.keys() >= {"ids", "offsets", "features"}:
        return Inputs(Tokens(found["ids"], found["offsets"]), found["features"], preprocessor.pad_id)
    inputs = preprocessor(table)
    arrays = {"ids": inputs.tokens.ids, "offsets": inputs.tokens.offsets, "features": inputs.features}
    write_entry(path, arrays, _UNCACHED)
    return inputs


def _key(preprocessor: Preprocessor, table: Table) -> str:
    digest = new_digest("inputs")
    for name, text in sorted(preprocessor.files().items()):
        digest.update(f"{name}\0{text}\0".encode())
    add_rows(digest, table, without_price(table, preprocessor.columns).frame)
    return str(digest.hexdigest())
