"""Single files of a run, written and read: preprocessor, architecture, sketch, split, out-of-fold columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.core.contracts import State
from pricekit.core.loader import registry
from pricekit.errors import TrainingError
from pricekit.features.assets import assets_in
from pricekit.monitoring.sketch import FILE as SKETCH
from pricekit.monitoring.sketch import Sketch, read_sketch
from pricekit.preprocess import FILES as FILES_OF_PREPROCESSOR
from pricekit.preprocess import Preprocessor, load_preprocessor
from pricekit.runs.folder.names import BACKBONE, OUT_OF_FOLD, SAMPLE_ROWS
from pricekit.runs.folder.states import read_source
from pricekit.runs.source import Split
from pricekit.support.files import write_atomically
from pricekit.table import write_rejected
from pricekit.table.table import texts_in_parts


def read_sketch_of(path: Path) -> Sketch:
    """Return the sketch of a run or an ensemble; raises TrainingError, BundleError if it is missing or damaged."""
    return read_sketch(read_kept(path, SKETCH), path)


def read_kept(path: Path, name: str) -> bytes:
    """Return the content of a file of a run or an ensemble; raises TrainingError if it cannot be read."""
    try:
        return (path / name).read_bytes()
    except OSError as error:
        raise TrainingError(
            f"{path / name} is missing or damaged ({error}); train again", path=str(path)
        ) from None


def require_plugins(path: Path) -> None:
    """Raise PluginError if a plugin of a run is not loaded."""
    for plugin in read_source(path)["plugins"]:
        registry().require(plugin["kind"], plugin["name"], plugin["package"], plugin["version"])


def read_preprocessor(path: Path) -> Preprocessor:
    """Open the preprocessor of a run; raises BundleError, PluginError."""
    names = (*FILES_OF_PREPROCESSOR, *assets_in(path))
    return load_preprocessor({name: (path / name).read_bytes() for name in names}, path)


def read_architecture(path: Path) -> State:
    """Return the architecture that the backbone of a run stored, to rebuild its encoder; raises TrainingError."""
    try:
        return dict(json.loads((path / BACKBONE).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{path / BACKBONE} is missing or damaged ({error}); train again", path=str(path)
        ) from None


def write_split(out: Path, split: Split, seed: int, price: str | None) -> None:
    """Write the ids of both parts, the rejected rows, and the sample.

    Args:
        out: folder of the run.
        split: its rows.
        seed: of the sample.
        price: name of the price column.
    """
    parts = [
        pd.DataFrame({"id": pd.concat([ids.astype(str) for ids in texts_in_parts(part.ids)]), "part": name})
        for name, part in (("train", split.train), ("valid", split.valid))
    ]
    chosen = np.random.default_rng(seed).permutation(len(split.valid))[:SAMPLE_ROWS]
    sample = split.valid.take(np.sort(chosen))
    write_rejected(out / "rejected.parquet", split.rejected)
    write_parquet(out / "split.parquet", pd.concat(parts))
    write_parquet(out / "sample.parquet", sample.frame.assign(**{str(price): sample.known_price}))


def write_out_of_fold(out: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write out-of-fold columns of the training rows, float32 (N,) each."""
    write_parquet(out / OUT_OF_FOLD, pd.DataFrame(columns))


def read_out_of_fold(out: Path) -> dict[str, np.ndarray]:
    """Read the columns of `write_out_of_fold`; empty if there are none."""
    path = out / OUT_OF_FOLD
    if not path.is_file():
        return {}
    frame = pd.read_parquet(path)
    return {str(name): column.to_numpy(np.float32) for name, column in frame.items()}


def write_parquet(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame without its index, atomically."""
    with write_atomically(path) as temporary:
        frame.to_parquet(temporary, index=False)
