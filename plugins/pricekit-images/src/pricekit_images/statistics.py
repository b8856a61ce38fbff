"""Cheap statistics of a picture: its size, colours and sharpness, and what stands out from its ground.

The ground has the median colour of the edge of the picture, as in most pictures of products. Things are what differs
from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pricekit_images.decode import Picture

SIDE = 128
"""The longer side of the picture whose pixels are counted, in pixels; a larger one is reduced."""
DIFFERENT = 40 / 255
"""Difference of a channel from the ground above which a pixel belongs to a thing."""

NAMES = (
    *("log_width", "log_height", "log_aspect", "bytes_per_pixel"),
    *("red", "green", "blue", "contrast", "saturation", "colourfulness"),
    *("sharpness", "edges", "ground_brightness"),
    *("covered", "box_width", "box_height", "log_things", "log_thing_area"),
    *("thing_red", "thing_green", "thing_blue"),
)
"""The names of the S statistics."""

Floats = npt.NDArray[np.floating[Any]]


def statistics_of(picture: Picture) -> Floats:
    """Return the statistics of a picture, float32 (S,), in the order of `NAMES`."""
    pixels = _small(picture.pixels)
    grey = pixels @ np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
    size = [
        np.log(picture.width),
        np.log(picture.height),
        np.log(picture.width / picture.height),
        min(8.0, picture.bytes / (picture.width * picture.height)),
    ]
    return np.array([*size, *_colours(pixels, grey), *_detail(grey), *_things(pixels)], np.float32)


def _small(image: Image.Image) -> Floats:
    """Return the pixels of a reduced image, float64 (H, W, 3), from 0 to 1; at least 3 by 3."""
    scale = min(1.0, SIDE / max(image.size))
    width, height = (max(3, round(scale * side)) for side in image.size)
    small = image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BOX)
    return np.asarray(small, np.float64) / 255


def _colours(pixels: Floats, grey: Floats) -> list[float]:
    """Return the mean colour, the contrast, the saturation and the colourfulness.

    Colourfulness: Hasler and Süsstrunk 2003, "Measuring colourfulness in natural images", equation 3.
    """
    highest, lowest = pixels.max(axis=2), pixels.min(axis=2)
    saturation = ((highest - lowest) / np.maximum(highest, 1 / 255)).mean()
    red_green = pixels[..., 0] - pixels[..., 1]
    yellow_blue = (pixels[..., 0] + pixels[..., 1]) / 2 - pixels[..., 2]
    spread = np.hypot(red_green.std(), yellow_blue.std())
    shift = np.hypot(red_green.mean(), yellow_blue.mean())
    return [*pixels.mean(axis=(0, 1)), grey.std(), saturation, spread + 0.3 * shift]


def _detail(grey: Floats) -> list[float]:
    """Return the sharpness, which is the log variance of the Laplacian, and the mean gradient."""
    inner = grey[1:-1, 1:-1]
    laplacian = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * inner
    gradient = (np.abs(np.diff(grey, axis=0)).mean() + np.abs(np.diff(grey, axis=1)).mean()) / 2
    return [np.log(laplacian.var() + 1e-6), gradient]


def _things(pixels: Floats) -> list[float]:
    """Return the brightness of the ground, and share, box, number, area and colour of the things in front of it.

    The number is that of connected areas less that of their holes, from the corners of the areas: Gray 1971, "Local
    properties of binary images in two dimensions", for areas that touch at corners.
    """
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    ground = np.median(edge, axis=0)
    thing = np.abs(pixels - ground).max(axis=2) > DIFFERENT
    covered = thing.mean()
    if not thing.any():
        return [ground.mean(), 0.0, 0.0, 0.0, 0.0, 0.0, *ground]
    framed = np.pad(thing, 1)
    corners = framed[:-1, :-1].astype(np.int8) + framed[1:, :-1] + framed[:-1, 1:] + framed[1:, 1:]
    crossed = (corners == 2) & (framed[:-1, :-1] == framed[1:, 1:])
    count = max(1.0, float((corners == 1).sum() - (corners == 3).sum() - 2 * crossed.sum()) / 4)
    box = [np.ptp(np.flatnonzero(thing.any(axis=axis))) + 1 for axis in (0, 1)]
    shares = [box[0] / thing.shape[1], box[1] / thing.shape[0]]
    area = np.log(thing.sum() / count)
    return [ground.mean(), covered, *shares, np.log(count), area, *pixels[thing].mean(axis=0)]
