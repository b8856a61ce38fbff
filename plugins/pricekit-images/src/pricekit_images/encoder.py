"""A vision encoder as an ONNX graph that is stored in the bundle: pixels to a vector.

One image is encoded at a time, so that its vector does not depend on other images, to the last bit. Threads encode
several.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pricekit.plugin import PluginError

GRAPH = "encoder.onnx"
"""The name of the asset."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the channels in ImageNet; most encoders are trained with pixels that are standardised so."""
LARGEST_SIDE = 1024
"""Width and height of an encoder's input, in pixels."""
MOST_VALUES = 1 << 14
"""Numbers of a vector."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Facts:
    """What an encoder needs besides its graph.

    Attributes:
        side: width and height of its input, in pixels.
        mean: of the channels.
        deviation: of the channels.
        values: the length of its vector.
    """

    side: int
    mean: Sequence[float] = MEAN
    deviation: Sequence[float] = DEVIATION
    values: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for what no model states; the facts may come from a stranger's bundle."""
        usual = len(self.mean) == len(self.deviation) == 3 and min(self.deviation) > 0
        if (
            not 0 < self.side <= LARGEST_SIDE
            or not usual
            or not np.isfinite([*self.mean, *self.deviation]).all()
        ):
            raise ValueError(
                f"an encoder with the side {self.side}, mean {self.mean} and deviation {self.deviation}"
            )
        if not 0 <= self.values <= MOST_VALUES:
            raise ValueError(f"an encoder with {self.values} values")


class Encoder:
    """Encodes pictures with an ONNX graph; several threads may use it at a time."""

    def __init__(self, graph: bytes, facts: Facts) -> None:
        self.graph, self.facts = graph, facts
        self.digest = hashlib.sha256(graph + repr(facts).encode()).hexdigest()
        self._session = open_session(graph)
        self._input = self._session.get_inputs()[0].name
        self._outputs = [value.name for value in self._session.get_outputs()]

    def __call__(self, picture: Image.Image) -> Floats:
        """Return the vector of a picture, float32 (values,)."""
        return self.encode(self.pixels(picture))

    def encode(self, pixels: Floats) -> Floats:
        """Return the vector of standardised pixels, float32 (1, 3, side, side).

        It is the first output of shape (1, D); if there is none, the mean of the first one over tokens, (1, T, D), or
        over places, (1, D, H, W).
        """
        found = self._session.run(self._outputs, {self._input: pixels})
        arrays = [np.asarray(one, np.float32) for one in found]
        flat = next((one for one in arrays if one.ndim == 2), arrays[0])
        if flat.ndim == 3:
            flat = flat.mean(axis=1)
        elif flat.ndim == 4:
            flat = flat.mean(axis=(2, 3)) if flat.shape[2:] != (1, 1) else flat.reshape(1, -1)
        return flat.reshape(-1)

    def pixels(self, picture: Image.Image) -> Floats:
        """Return the standardised pixels of a picture, which white margins make square, float32 (1, 3, side, side)."""
        side = self.facts.side
        scale = side / max(picture.size)
        width, height = (max(1, round(scale * length)) for length in picture.size)
        square = Image.new("RGB", (side, side), "white")
        square.paste(
            picture.resize((width, height), Image.Resampling.BICUBIC),
            ((side - width) // 2, (side - height) // 2),
        )
        mean, deviation = (np.array(of, np.float32) for of in (self.facts.mean, self.facts.deviation))
        values = (np.asarray(square, np.float32) / np.float32(255) - mean) / deviation
        return np.ascontiguousarray(values.transpose(2, 0, 1)[None], np.float32)


def open_session(graph: bytes) -> Any:
    """Return an `onnxruntime.InferenceSession` with one thread; raises PluginError without onnxruntime."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise PluginError(
            "the feature 'images' has an encoder, which needs onnxruntime; it is not installed: pip install "
            "'pricekit[cpu]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = (
        4  # errors are exceptions, too; names in a graph would reach the terminal unescaped
    )
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
