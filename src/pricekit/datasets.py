"""Synthetic products with prices and pictures, for examples and tests."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError, DataError, path_of

if TYPE_CHECKING:
    from PIL import Image

PIXELS = 256
"""Width and height of a picture."""
GRID = 5
"""Things in a row of a picture, and rows."""
SIZES = (9, 12, 15, 18, 21)
"""Half the height of a thing in pixels, by the size of the product."""

NOISE_SD = 0.25
"""Standard deviation of the part of the log price that the text does not reveal."""

SILENT = 0.5
"""Share of the products with pictures whose size and pack only the picture shows."""

SIZE_ELASTICITY = 0.7
PACK_ELASTICITY = 0.85

PARTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""The brands, categories, units, packs, colours and sentences of the products."""


@dataclass(frozen=True)
class _Products:
    """The factors of the prices of N products, each (N,)."""

    brand: np.ndarray
    category: np.ndarray
    size: np.ndarray
    place: np.ndarray  # of the size among those of the category
    pack: np.ndarray
    log_price: np.ndarray  # without noise


def make_catalog(rows: int, seed: int = 0, *, images: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Return a table of synthetic products whose prices follow brand, category, size, pack and noise.

    price = brand level · category level · (size / reference size)^0.7 · pack^0.85 · exp(0.25·z) with z ~ N(0, 1),
    rounded to cents, at least 0.05. The levels do not depend on the seed, so a model trained on one catalogue can be
    tested on another.

    The price without noise has a SMAPE of E[200·tanh(0.25·|z| / 2)] = 19.7 percent. On many rows, no model is better.

    With `images`, each product also has a picture: as many things as the pack has pieces, of a height that grows with
    the size, in one of six colours. Its price is multiplied by exp(level of the colour), which no text tells. Half of
    the texts state neither size nor pack.

    Args:
        rows: the number of products, N.
        seed: the seed of the random generator; equal seeds give equal tables.
        images: a folder for pictures of the products, which is created; needs Pillow. None: no pictures.

    Returns:
        `sample_id` (int64, from 0), `catalog_content` (labelled lines: name, bullet points, description, Value, Unit)
        and `price` (float64, in dollars); with `images` also `image_link`, the path of each picture, which begins with
        the folder as given.

    Raises:
        ConfigError: Pillow is not installed, or `images` is not a local path.
        DataError: a picture cannot be written.

    Example:
        >>> make_catalog(3).columns.tolist()
        ['sample_id', 'catalog_content', 'price']
    """
    rng = np.random.default_rng(seed)
    products = _draw(rows, rng)
    noisy = products.log_price + NOISE_SD * rng.standard_normal(rows)
    silent, links = np.zeros(rows, bool), {}
    if images is not None:
        require_pillow()
        drawn = np.random.default_rng([seed, 1])
        colour = drawn.integers(len(PARTS["colours"]), size=rows)
        silent = drawn.random(rows) < SILENT
        noisy += np.array([each["level"] for each in PARTS["colours"]])[colour]
        paths = write_pictures(path_of(images, "images"), colour, products.place, products.pack, seed)
        links = {"image_link": pd.Series(paths, dtype="str")}
    return pd.DataFrame(
        {
            "sample_id": np.arange(rows, dtype=np.int64),
            "catalog_content": pd.Series(_texts(products, rng, silent), dtype="str"),
            **links,
            "price": np.maximum(np.round(np.exp(noisy), 2), 0.05),
        }
    )


def _draw(rows: int, rng: np.random.Generator) -> _Products:
    brands, categories = len(PARTS["brands"]), PARTS["categories"]
    # A few brands are common, most are rare.
    brand = np.minimum(rng.geometric(0.06, rows) - 1, brands - 1)
    category = rng.integers(len(categories), size=rows)
    sizes = np.array([kind["sizes"] for kind in categories])
    place = rng.integers(sizes.shape[1], size=rows)
    size = sizes[category, place]
    pack = rng.choice(PARTS["pack_sizes"], size=rows, p=PARTS["pack_chances"])
    base = np.array([kind["base"] for kind in categories])[category]
    relative = size / sizes[category, sizes.shape[1] // 2]
    # The level of each brand does not depend on the seed of the catalogue.
    levels = np.random.default_rng(brands).normal(0.0, 0.5, brands)
    log_price = np.log(base) + levels[brand]
    log_price += SIZE_ELASTICITY * np.log(relative) + PACK_ELASTICITY * np.log(pack)
    return _Products(brand, category, size, place, pack, log_price)


def _texts(products: _Products, rng: np.random.Generator, silent: np.ndarray) -> list[str]:
    # One draw for all rows: the digits of a row's random numbers make its choices.
    choices = rng.integers(1 << 30, size=(len(products.size), 8)).tolist()
    columns = (products.brand, products.category, products.size, products.pack)
    rows = zip(*(column.tolist() for column in columns), choices, silent.tolist(), strict=True)
    return [
        _text(PARTS["brands"][brand], PARTS["categories"][kind], size, pack, picks, without_size)
        for brand, kind, size, pack, picks, without_size in rows
    ]


def _text(
    brand: str, kind: Mapping[str, Any], size: float, pack: int, picks: list[int], without_size: bool
) -> str:
    words = {
        "brand": brand,
        "noun": kind["nouns"][picks[0] % len(kind["nouns"])],
        "flavour": kind["flavours"][picks[1] % len(kind["flavours"])],
    }
    units = PARTS["units"][kind["measure"]]
    unit, factor = units[picks[2] % len(units)]
    forms = ["{name}"] if without_size else PARTS["single_forms" if pack == 1 else "pack_forms"]
    name = "{brand} {noun}, {flavour}" if picks[3] % 4 == 0 else "{brand} {flavour} {noun}"
    form = forms[picks[3] // 4 % len(forms)]
    title = form.format(name=name.format_map(words), size=f"{size * factor:.4g}", unit=unit, pack=pack)
    lines = [f"Item Name: {title}"]
    count, first, numbered = picks[4] % 6, picks[4] // 6 % 8, picks[4] // 48 % 10 > 0
    for i in range(count):
        bullet = PARTS["bullets"][(first + i) % 8].format_map(words)
        lines.append(f"Bullet Point{f' {i + 1}' if numbered else ''}: {bullet}")
    if picks[5] % 20 < 11:
        lines.append("Product Description: " + PARTS["descriptions"][picks[5] // 20 % 5].format_map(words))
    if not without_size:
        lines += _quantity(round(size * factor * pack, 4), unit, picks[6])
    return "\n".join([*lines, ""])


def _quantity(total: float, unit: str, pick: int) -> list[str]:
    """Return the Value and Unit lines; as in real catalogues, some are missing."""
    if pick % 75 == 0:
        return ["Unit: None"] if pick // 75 % 2 else ["Value: nan", "Unit: None"]
    return [f"Value: {total}", f"Unit: {unit}"]


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
        colour: the places of the colours in `datasets.toml`, int (N,).
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
            _picture(PARTS["colours"][tint]["rgb"], SIZES[big], things, rng).save(path, quality=85)
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
