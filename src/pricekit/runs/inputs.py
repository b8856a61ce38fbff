"""The model inputs of a large table in a file of the run, which is mapped into memory.

An unfinished run keeps `train.inputs` and `valid.inputs`, so that resuming need not compute them again. A file begins
with a header of `_HEADER` bytes, JSON padded with spaces, which is written last. Then follow the features, float32
(N, K), the offsets of the tokens, int64 (N + 1,), and the token ids, int32 (T,), each at a multiple of `_ALIGNMENT`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pricekit import __version__
from pricekit.features.preprocess import Inputs, Preprocessor
from pricekit.io.causes import named_in_errors
from pricekit.io.files import temporary_path, write_atomically
from pricekit.io.mapped import map_file, nameless_file
from pricekit.io.progress import progress
from pricekit.io.staging import target_of
from pricekit.table import Table
from pricekit.table.table import parts_of
from pricekit.text.tokens import Tokens

TRAIN, VALID = "train.inputs", "valid.inputs"
INPUTS = (TRAIN, VALID)

_HEADER, _ALIGNMENT = 4096, 64
_BLOCK_BYTES = 1 << 20


@dataclass
class InputFiles:
    """The files of a run's inputs; before the folder of a new run is written, they have other names beside it.

    At the end of its block, files that were not published are deleted.

    Attributes:
        folder: of the run.
        new: the folder is not written yet.
    """

    folder: Path
    new: bool
    _beside: dict[str, Path] = field(default_factory=dict)

    def inputs(
        self, name: str, preprocessor: Preprocessor, table: Table, columns: Mapping[str, np.ndarray]
    ) -> Inputs:
        """Return the inputs of N rows: in memory, and those of a stored table in a file.

        Args:
            name: of the file.
            preprocessor: of the run.
            table: the rows; those of an unfinished run are those that it was started with.
            columns: values that replace those of feature columns, float32 (N,), by name; NaN replaces nothing.

        Raises:
            OSError: the file cannot be written.
        """
        if table.folder is None:
            return with_columns(preprocessor(table), preprocessor, columns)
        write = partial(_write, preprocessor, table, columns)
        if self.new and os.access(self.folder.parent, os.W_OK):
            path = temporary_path(target_of(self.folder))
            while path.exists():
                path = temporary_path(target_of(self.folder))
            self._beside[name] = path
            with path.open("w+b") as file:
                return write(file, path)
        if self.new:
            with nameless_file(table.folder) as file:
                return write(file, table.folder)
        path = self.folder / name
        if (kept := open_inputs(path, preprocessor, len(table))) is not None:
            return kept
        with write_atomically(path) as temporary, temporary.open("w+b") as file:
            return write(file, path)

    def publish(self) -> None:
        """Move the files into the folder of the run. They are not synced: a checksum shows whether they are whole."""
        for name, path in self._beside.items():
            os.replace(path, self.folder / name)
        self._beside.clear()

    def __enter__(self) -> InputFiles:
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the files that were not published."""
        for path in self._beside.values():
            path.unlink(missing_ok=True)


def with_columns(inputs: Inputs, preprocessor: Preprocessor, columns: Mapping[str, np.ndarray]) -> Inputs:
    """Return inputs with some feature columns replaced, float32 (N,) by name; NaN replaces nothing."""
    if not columns:
        return inputs
    features, names = inputs.features.copy(), preprocessor.features.names
    for name, column in columns.items():
        place = names.index(name)
        features[:, place] = np.where(np.isnan(column), features[:, place], column)
    return Inputs(inputs.tokens, features, inputs.pad_id)


def _write(
    preprocessor: Preprocessor, table: Table, columns: Mapping[str, np.ndarray], file: Any, path: Path
) -> Inputs:
    """Write the inputs of rows into a new file, part by part, and map it; an error of the system names the path."""
    with named_in_errors(path):
        rows, width = len(table), len(preprocessor.features.names)
        places = _places(rows, width)
        offsets, start = np.zeros(rows + 1, np.int64), 0
        with progress("tokens and features", rows) as advance:
            for part in parts_of(table):
                stop = start + len(part)
                own = {name: column[start:stop] for name, column in columns.items()}
                inputs = with_columns(preprocessor(part), preprocessor, own)
                offsets[start + 1 : stop + 1] = offsets[start] + inputs.tokens.offsets[1:]
                _write_at(file, places[0] + start * width * 4, inputs.features)
                _write_at(file, places[2] + int(offsets[start]) * 4, inputs.tokens.ids)
                start = stop
                advance(len(part))
        _write_at(file, places[1], offsets)
        header = {"key": _key(preprocessor), "rows": rows, "tokens": int(offsets[-1])}
        text = json.dumps(header | {"checksum": _checksum(file)})
        _write_at(file, 0, np.frombuffer(text.ljust(_HEADER).encode(), np.uint8))
        file.flush()
        return _map(file, preprocessor, rows, int(offsets[-1]))


def open_inputs(path: Path, preprocessor: Preprocessor, rows: int) -> Inputs | None:
    """Return the inputs in a file; None if it is missing or damaged, or of another preprocessor or number of rows."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(_HEADER))
            expected = {"key": _key(preprocessor), "rows": rows, "checksum": _checksum(file)}
            same = expected.items() <= header.items()
            return _map(file, preprocessor, rows, header["tokens"]) if same else None
    except (OSError, ValueError, AttributeError):
        return None


def _map(file: Any, preprocessor: Preprocessor, rows: int, tokens: int) -> Inputs:
    whole, width = map_file(file), len(preprocessor.features.names)
    places = _places(rows, width)
    features = np.frombuffer(whole, np.float32, rows * width, places[0]).reshape(rows, width)
    offsets = np.frombuffer(whole, np.int64, rows + 1, places[1]).copy()
    ids = np.frombuffer(whole, np.int32, tokens, places[2])
    return Inputs(Tokens(ids, offsets), features, preprocessor.pad_id)


def _places(rows: int, width: int) -> tuple[int, int, int]:
    """Return where features, offsets and token ids begin in a file."""
    offsets = _aligned(_HEADER + 4 * rows * width)
    return _HEADER, offsets, _aligned(offsets + 8 * (rows + 1))


def _aligned(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT


def _write_at(file: Any, place: int, values: np.ndarray) -> None:
    file.seek(place)
    file.write(np.ascontiguousarray(values).data)


def _key(preprocessor: Preprocessor) -> str:
    """Return a hash of the version and of the tokenizer and the features."""
    digest = hashlib.sha256(__version__.encode())
    for name, text in sorted(preprocessor.files().items()):
        digest.update(f"\0{name}\0{text}".encode())
    return digest.hexdigest()


def _checksum(file: Any) -> str:
    """Return the XXH3 hash of a file without its header."""
    import xxhash  # installed with the extra "train"

    digest = xxhash.xxh3_128()
    file.seek(_HEADER)
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return str(digest.hexdigest())


def delete_inputs(folder: Path) -> None:
    """Delete the files in the folder of a run that no longer needs them."""
    for name in INPUTS:
        (folder / name).unlink(missing_ok=True)
