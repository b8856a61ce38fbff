"""Synthetic products with prices and pictures, for examples and tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pricekit.errors import ConfigError, DataError, path_of

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

NOISE_SD = 0.25
"""Standard deviation of the part of the log price that the text does not reveal."""

SILENT = 0.5
"""Share of the products with pictures whose size and pack only the picture shows."""

SIZE_ELASTICITY = 0.7
PACK_ELASTICITY = 0.85

_BRANDS = (
    "Quillmoor", "Tunderby", "Oravelle Lane", "Zestavio", "Brindlecroft", "Halvinka", "Nordfjæll",
    "Pemberlune", "Cásamira", "Wexley & Thorn", "Juniwick", "Maplethwaite", "Solbrakka", "Ferndipity",
    "Grübelhof", "Tamsin Vale", "Ostrelli", "Kettlewhim", "Bravonda", "Lumbrique", "Hollowgate Farms",
    "Sunpetalia", "Dorvik", "Marrowby's", "Cobblestead", "Yarrowmint", "Petit Ourson d'Or", "Velmara",
    "Rustwood Mill", "Ambrifield", "Noxley", "Tidewhistle", "Orchardly", "Crannigan", "Bluefettle",
    "Svenholt", "Mirabelline", "Harrowdew", "Pico Verdejo", "Gladwyn Pantry",
)  # fmt: skip

_UNITS = {
    "weight": (("Ounce", 1.0), ("ounce", 1.0), ("oz", 1.0), ("Oz", 1.0), ("OZ", 1.0), ("Ounces", 1.0),
               ("Pound", 1 / 16), ("lb", 1 / 16), ("Gram", 28.3495), ("g", 28.3495)),
    "fluid": (("Fl Oz", 1.0), ("fl oz", 1.0), ("FL OZ", 1.0), ("Fluid Ounce", 1.0), ("Fl. Oz", 1.0),
              ("Milliliter", 29.5735), ("ml", 29.5735), ("Liter", 0.0295735)),
    "count": (("Count", 1.0), ("count", 1.0), ("Ct", 1.0), ("ct", 1.0), ("Each", 1.0)),
}  # fmt: skip

_PACKS = np.array([1, 2, 3, 4, 6, 8, 12, 24])
_PACK_CHANCES = np.array([0.55, 0.1, 0.08, 0.07, 0.1, 0.02, 0.06, 0.02])

_PACK_FORMS = (
    "{name}, {size} {unit} (Pack of {pack})",
    "{name} - {pack} x {size} {unit}",
    "{name}, {size} {unit}, {pack} Pack",
    "{pack}-Pack {name}, {size}-{unit}",
    "{name} {size} {unit} - PACK OF {pack}",
)
_SINGLE_FORMS = (
    "{name}, {size} {unit}",
    "{name} {size}{unit}",
    "{name} – {size} {unit}",
    "{name}, {size} {unit} (Pack of 1)",
)
_BULLETS = (
    "SMALL BATCH: our {noun} is made slowly, a little at a time",
    "{flavour} taste that {brand} fans ask for by name",
    "No artificial colors, flavors or preservatives",
    "Made in a facility that also handles milk, soy and tree nuts",
    "Great for gifts, picnics and everyday moments - share it",
    "Resealable; keeps fresh up to 12 months in a cool, dry place",
    "100% satisfaction guaranteed, or write to us & we make it right",
    "Pairs well with almost anything 🍋",
)
_DESCRIPTIONS = (
    "{brand} brings you {noun} with {flavour} character, packed with care.",
    "<p>Discover <b>{brand}</b> {noun}.</p><p>{flavour}, as it should be.</p>",
    "A pantry staple since our first market stall. {flavour} {noun} for the whole family.",
    "Enjoy {noun} at home &amp; on the go.<br>Store in a cool place.",
    "{noun} in the {flavour} style: simple ingredients, nothing to hide. It is what we serve our own guests.",
)


@dataclass(frozen=True)
class _Category:
    base: float  # the price of the reference size of a brand of level 1
    sizes: tuple[float, ...]  # ounces, fluid ounces or pieces; the middle one is the reference
    measure: str
    nouns: tuple[str, ...]
    flavours: tuple[str, ...]


_CATEGORIES = (
    _Category(14.0, (4, 8, 12, 16, 32), "weight", ("Ground Coffee", "Whole Bean Coffee", "Espresso Roast"),
              ("Dark Roast", "Hazelnut", "Café de Olla", "Breakfast Blend")),
    _Category(9.0, (10, 16, 20, 40, 100), "count", ("Herbal Tea Bags", "Green Tea", "Chai Tea"),
              ("Chamomile", "Jasmine", "Peppermint", "Ginger Lemon")),
    _Category(5.0, (1.5, 5, 8, 11, 16), "weight", ("Potato Chips", "Crackers", "Pretzel Twists"),
              ("Sea Salt", "Jalapeño", "Sour Cream & Onion", "Smoked Paprika")),
    _Category(8.0, (1.4, 3.5, 7, 12, 24), "weight", ("Chocolate Bar", "Truffles", "Gummy Candy"),
              ("Raspberry", "Crème Brûlée", "Salted Caramel", "Mint")),
    _Category(6.0, (0.7, 1.5, 3, 8, 16), "weight", ("Seasoning", "Spice Blend", "Curry Powder"),
              ("Za'atar", "Lemon Pepper", "Cajun", "Garlic & Herb")),
    _Category(11.0, (8.5, 12, 17, 25.5, 34), "fluid", ("Olive Oil", "Avocado Oil", "Balsamic Vinegar"),
              ("Extra Virgin", "Basil Infused", "Cold Pressed", "Aged")),
    _Category(7.0, (8, 12, 16, 33.8, 64), "fluid", ("Sparkling Water", "Fruit Nectar", "Energy Drink"),
              ("Grapefruit", "Mango", "Açaí Berry", "Yuzu")),
    _Category(6.5, (5, 9, 14.5, 18, 28), "fluid", ("Hot Sauce", "Pasta Sauce", "Salad Dressing"),
              ("Habanero", "Roasted Garlic", "Sweet Chili", "Caesar")),
    _Category(18.0, (4, 6, 12, 18, 24), "count", ("Protein Bars", "Granola Bars", "Fruit Leathers"),
              ("Peanut Butter", "Blueberry", "Maple Pecan", "Cherry")),
    _Category(24.0, (6, 10, 16, 24, 48), "weight", ("Raw Honey", "Mixed Nuts", "Dried Mushrooms"),
              ("Wildflower", "Lightly Salted", "Forest", "Smoked")),
)  # fmt: skip


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
        colour = drawn.integers(len(COLOUR_LEVELS), size=rows)
        silent = drawn.random(rows) < SILENT
        noisy += COLOUR_LEVELS[colour]
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
    # A few brands are common, most are rare.
    brand = np.minimum(rng.geometric(0.06, rows) - 1, len(_BRANDS) - 1)
    category = rng.integers(len(_CATEGORIES), size=rows)
    sizes = np.array([kind.sizes for kind in _CATEGORIES])
    place = rng.integers(sizes.shape[1], size=rows)
    size = sizes[category, place]
    pack = rng.choice(_PACKS, size=rows, p=_PACK_CHANCES)
    base = np.array([kind.base for kind in _CATEGORIES])[category]
    relative = size / sizes[category, sizes.shape[1] // 2]
    # The level of each brand does not depend on the seed of the catalogue.
    levels = np.random.default_rng(len(_BRANDS)).normal(0.0, 0.5, len(_BRANDS))
    log_price = np.log(base) + levels[brand]
    log_price += SIZE_ELASTICITY * np.log(relative) + PACK_ELASTICITY * np.log(pack)
    return _Products(brand, category, size, place, pack, log_price)


def _texts(products: _Products, rng: np.random.Generator, silent: np.ndarray) -> list[str]:
    # One draw for all rows: the digits of a row's random numbers make its choices.
    choices = rng.integers(1 << 30, size=(len(products.size), 8)).tolist()
    columns = (products.brand, products.category, products.size, products.pack)
    rows = zip(*(column.tolist() for column in columns), choices, silent.tolist(), strict=True)
    return [
        _text(_BRANDS[brand], _CATEGORIES[kind], size, pack, picks, without_size)
        for brand, kind, size, pack, picks, without_size in rows
    ]


def _text(brand: str, kind: _Category, size: float, pack: int, picks: list[int], without_size: bool) -> str:
    words = {
        "brand": brand,
        "noun": kind.nouns[picks[0] % len(kind.nouns)],
        "flavour": kind.flavours[picks[1] % len(kind.flavours)],
    }
    units = _UNITS[kind.measure]
    unit, factor = units[picks[2] % len(units)]
    forms = ("{name}",) if without_size else _SINGLE_FORMS if pack == 1 else _PACK_FORMS
    name = "{brand} {noun}, {flavour}" if picks[3] % 4 == 0 else "{brand} {flavour} {noun}"
    form = forms[picks[3] // 4 % len(forms)]
    title = form.format(name=name.format_map(words), size=f"{size * factor:.4g}", unit=unit, pack=pack)
    lines = [f"Item Name: {title}"]
    count, first, numbered = picks[4] % 6, picks[4] // 6 % 8, picks[4] // 48 % 10 > 0
    for i in range(count):
        bullet = _BULLETS[(first + i) % 8].format_map(words)
        lines.append(f"Bullet Point{f' {i + 1}' if numbered else ''}: {bullet}")
    if picks[5] % 20 < 11:
        lines.append("Product Description: " + _DESCRIPTIONS[picks[5] // 20 % 5].format_map(words))
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
