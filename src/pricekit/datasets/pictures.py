"""Pictures of synthetic products: as many things as a pack has pieces, of a size and a colour.

Pillow draws them. Pictures of equal seeds have equal pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pricekit.errors import ConfigError, DataError

if TYPE_CHECKING:
    from PIL import Image

COLOURS = {
    "black": (40, 40, 46),
    "gold": (206, 165, 60),
    "blue": (40, 90, 180),
    "red": (190, 40, 40),
    "green": (60, 140, 70),
    "grey": (150, 150, 156),
}
"""The colours of the products."""

COLOUR_LEVELS = np.array([0.45, 0.7, 0.1, -0.1, -0.3, -0.6])
"""The part of each colour in the log price."""

PIXELS = 256
"""Width and height of a picture."""
GRID = 5
"""Things in a row of a picture, and rows."""
SIZES = (9, 12, 15, 18, 21)
"""Half the height of a thing in pixels, by the size of the product."""


def require_pillow() -> None:
    """Raise ConfigError if Pillow is not installed."""
    try:
        import PIL.Image  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigError(
            "pictures of products need the package Pillow, which is not installed: pip install 'pricekit[images]'",
            parameters=("images",),
        ) from None


def write_pictures(
    folder: Path, colour: np.ndarray, size: np.ndarray, pack: np.ndarray, seed: int
) -> list[str]:
    """Write a JPEG file for each of N products.

    Args:
        folder: of the files, which is created; existing files of the same names are replaced.
        colour: the places of the colours in `COLOURS`, int (N,).
        size: the places of the sizes in `SIZES`, int (N,).
        pack: numbers of things, int (N,), at most 25.
        seed: of the places, shades and proportions.

    Returns:
        The path of each file, which begins with `folder`.

    Raises:
        DataError: a file cannot be written.
    """
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for row, (tint, big, things) in enumerate(
            zip(colour.tolist(), size.tolist(), pack.tolist(), strict=True)
        ):
            path = folder / f"{row:07d}.jpg"
            rng = np.random.default_rng([seed, row])
            _picture(list(COLOURS.values())[tint], SIZES[big], things, rng).save(path, quality=85)
            paths.append(str(path))
    except OSError as error:
        raise DataError(
            f"the pictures cannot be written into {folder}: {error}", parameters=("images",)
        ) from None
    return paths


def _picture(colour: Sequence[int], half: int, things: int, rng: np.random.Generator) -> Image.Image:
    """Draw things of one colour and size on a nearly white ground."""
    from PIL import Image, ImageDraw

    ground = int(rng.integers(246, 256))
    picture = Image.new("RGB", (PIXELS, PIXELS), (ground, ground, ground))
    draw = ImageDraw.Draw(picture)
    shade = rng.uniform(0.85, 1.1)
    fill = tuple(min(255, int(part * shade)) for part in colour)
    narrow = int(half * rng.uniform(0.7, 1.0))
    cell = PIXELS // GRID
    for place in np.sort(rng.permutation(GRID * GRID)[:things]).tolist():
        x, y = cell * (place % GRID) + cell // 2 + 1, cell * (place // GRID) + cell // 2 + 1
        box = (x - narrow, y - half, x + narrow, y + half)
        draw.rounded_rectangle(box, radius=narrow // 3, fill=fill)
    return picture
