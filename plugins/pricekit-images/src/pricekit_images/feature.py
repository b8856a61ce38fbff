"""Feature `images`: numbers from the pictures of products."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from pydantic import Field

from pricekit.plugin import LOCAL, ConfigError, Feature, Section, State, Table, logger
from pricekit_images.encoder import GRAPH, Encoder, Facts
from pricekit_images.memory import Numbers
from pricekit_images.reading import Reader
from pricekit_images.ridge import fit_ridge, predict_ridge
from pricekit_images.sources import ROOT, folder_of, is_link
from pricekit_images.statistics import NAMES
from pricekit_images.web.fetch import Limits
from pricekit_images.weights import read_weights

MISSING, LOG_PRICE = "image_missing", "image_log_price"
_opening = Lock()
LEAST_MISSING = 20
"""Training rows without an image whose mean price is the estimate for others without one."""


class Images(Feature):
    """Statistics of the picture of each row, and with an encoder the log price that its vector predicts.

    A row without a usable picture has 1 in `image_missing`, and the medians of the training rows in the other columns.
    The log price is that of a ridge regression, fitted out of fold; the encoder is an asset of the state.
    """

    reads_files = True
    parallel = True

    class Options(Section):
        """Options of `images`."""

        column: str = Field("image_link", description="column of paths or links of images")
        root: str = Field(
            "", description="folder of the paths, inside of the current folder or of PRICEKIT_IMAGES_ROOT"
        )
        weights: str = Field(
            "",
            description="encoder: an ONNX file, or the folder of a transformers vision model; by default none",
            json_schema_extra={LOCAL: True},
        )
        side: int = Field(
            0, ge=0, le=1024, description="width and height of the encoder's input; 0: what it states"
        )
        connections: int = Field(16, ge=1, le=64, description="downloads at a time")
        rate: float = Field(50.0, gt=0, le=10_000, description="requests per second")
        timeout: float = Field(10.0, gt=0, le=120, description="seconds without an answer")
        retries: int = Field(3, ge=0, le=10, description="further attempts after a failure that may pass")
        megabytes: float = Field(10.0, gt=0, le=100, description="of an image file at most")
        megapixels: float = Field(25.0, gt=0, le=200, description="of an image at most")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.columns = (options.column,)
        self.uses_price = bool(options.weights)
        own = (MISSING, *(f"image_{name}" for name in NAMES))
        self.names = (*own, LOG_PRICE) if self.uses_price else own
        self._opened: Encoder | None = None
        self._said: set[str] = set()

    def fit(self, table: Table, price: np.ndarray | None = None) -> State:
        """Learn the medians of the statistics, and with an encoder the regression on prices, float64 (N,).

        Raises:
            ConfigError: there is no such folder or encoder.
            DataError: most links failed for reasons that may pass.
        """
        state: State = {}
        if self.options.weights:
            graph, facts = read_weights(Path(self.options.weights).expanduser(), self.options.side)
            state = {GRAPH: graph, "encoder": asdict(facts)}
        cells = cells_of(table, self.options.column)
        folder = folder_of(self.options.root) if _has_paths(cells) else None
        found = self._reader(folder, state).numbers(cells, most=True)
        usable = ~np.isnan(found[:, 0])
        if not usable.any():
            logger.warning(f"no row has a usable image in its column '{self.options.column}'")
        known = found[usable]
        medians = np.median(known[:, : len(NAMES)], axis=0) if len(known) else np.zeros(len(NAMES))
        state["medians"] = medians.astype(np.float64).tolist()
        if price is not None:
            log_price = np.log(price)
            state["ridge"] = fit_ridge(known[:, len(NAMES) :], log_price[usable])
            missing = log_price[~usable]
            of_missing = missing if len(missing) >= LEAST_MISSING else log_price
            state["missing_log_price"] = float(of_missing.mean()) if len(of_missing) else 0.0
        return state

    def transform(self, table: Table, state: State) -> Numbers:
        """Return the columns, float32 (N, K).

        Without the folder of their paths, images count as missing, and one warning says so.
        """
        cells = cells_of(table, self.options.column)
        found = self._reader(self._folder(cells), state).numbers(cells)
        missing = np.isnan(found[:, 0])
        own = np.where(missing[:, None], np.float32(state["medians"]), found[:, : len(NAMES)])
        columns = [missing.astype(np.float32)[:, None], own]
        if "ridge" in state:
            vectors = np.where(missing[:, None], 0, found[:, len(NAMES) :])
            log_price = np.where(
                missing, np.float32(state["missing_log_price"]), predict_ridge(vectors, state["ridge"])
            )
            columns.append(log_price[:, None])
        return np.hstack(columns).astype(np.float32)

    def _folder(self, cells: list[str]) -> Path | None:
        """Return the folder of the paths among cells; without it, say so once, and remove the paths."""
        try:
            return folder_of(self.options.root) if _has_paths(cells) else None
        except ConfigError as error:
            cells[:] = [cell if is_link(cell) else "" for cell in cells]
            self._say(
                f"paths of images count as missing images: {error.facts['problem']}; set the variable {ROOT} of the "
                f"environment to the folder that contains {self.options.root or 'the images'}"
            )
            return None

    def _say(self, message: str) -> None:
        """Warn once."""
        if message not in self._said and logger.isEnabledFor(logging.WARNING):  # not in a part that is quiet
            self._said.add(message)
            logger.warning(message)

    def _reader(self, folder: Path | None, state: State) -> Reader:
        options = self.options
        limits = Limits(
            most_bytes=int(options.megabytes * 1e6),
            seconds=options.timeout,
            attempts=options.retries + 1,
            rate=options.rate,
            connections=options.connections,
        )
        return Reader(folder, limits, int(options.megapixels * 1e6), self._encoder(state))

    def _encoder(self, state: State) -> Encoder | None:
        """Return the encoder of a state, and keep it: to open it takes longer than to encode an image."""
        if GRAPH not in state:
            return None
        with _opening:
            if self._opened is None or self._opened.graph is not state[GRAPH]:
                self._opened = Encoder(state[GRAPH], Facts(**state["encoder"]))
            return self._opened


def _has_paths(cells: list[str]) -> bool:
    return any(cell and not is_link(cell) for cell in cells)


def cells_of(table: Table, column: str) -> list[str]:
    """Return the cells of a column without surrounding spaces; "" for a missing one."""
    cells: list[Any] = table.frame[column].tolist()
    return [cell.strip() if isinstance(cell, str) else "" for cell in cells]
