"""An image file to pixels, in as much detail as is needed."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from pricekit_images.unusable import UnusableError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
MOVING = frozenset({"PNG", "WEBP", "GIF"})
"""Formats with animations. A JPEG of several pictures (MPO, from phones) shows its first one."""
MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA"})
LONGEST_SIDE = 20_000
"""Pixels."""

_PNG = b"\x89PNG\r\n\x1a\n"
_DEPTH = 24
"""The place of the bit depth in a PNG file (W3C PNG, 11.2.1)."""

warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # sizes are checked here


@dataclass(frozen=True)
class Picture:
    """An opened image.

    Attributes:
        width: of the file, in pixels.
        height: of the file, in pixels.
        bytes: of the file.
        pixels: an RGB picture of this or a smaller size; transparent parts are white.
    """

    width: int
    height: int
    bytes: int
    pixels: Image.Image


def decode(content: bytes, most_pixels: int, side: int) -> Picture:
    """Return the pixels of an image file.

    Args:
        content: of the file.
        most_pixels: that are decoded.
        side: the shorter side of the result has about so many pixels or more, unless the image is smaller.

    Raises:
        UnusableError: it is damaged, too large, animated, or of a kind that is not read.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
            _check(image, content, most_pixels)
            image.draft("RGB", (side, side))
            image.load()
            return Picture(width, height, len(content), _rgb(image, side))
    except UnusableError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnusableError(f"more than {most_pixels:,} pixels") from None
    except UnidentifiedImageError:
        raise _unidentified(content) from None
    except MemoryError:
        raise
    except Exception:  # decoders raise many kinds of errors
        raise UnusableError("truncated or damaged") from None


def identify(content: bytes) -> None:
    """Raise a lasting UnusableError unless a file begins like an image of a format that is read."""
    try:
        Image.open(io.BytesIO(content), formats=FORMATS).close()
    except UnidentifiedImageError:
        raise _unidentified(content) from None
    except MemoryError:
        raise
    except Exception:  # an image that is too large, or damaged
        return


def _unidentified(content: bytes) -> UnusableError:
    drawing = b"<svg" in content[:1000].lower()
    reason = "an SVG drawing" if drawing else "not a JPEG, PNG, WebP, GIF or BMP image"
    return UnusableError(reason, lasting=True)


def _check(image: Image.Image, content: bytes, most_pixels: int) -> None:
    width, height = image.size
    if max(width, height) > LONGEST_SIDE:
        raise UnusableError(f"more than {LONGEST_SIDE:,} pixels wide or high")
    if width * height > most_pixels:
        raise UnusableError(f"more than {most_pixels:,} pixels")
    if image.format in MOVING and getattr(image, "is_animated", False):
        raise UnusableError("animated")
    if image.mode == "CMYK":
        raise UnusableError("CMYK colours")
    deep = content.startswith(_PNG) and content[_DEPTH] == 16
    if deep or image.mode not in MODES:
        raise UnusableError("16 bits per colour" if deep or "16" in image.mode else f"mode {image.mode}")


def _rgb(image: Image.Image, side: int) -> Image.Image:
    """Return a reduced RGB image: each pixel is the mean of a square, and what is transparent becomes white."""
    transparent = image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info
    colours = image.convert("RGBA" if transparent else "RGB")
    factor = max(1, min(image.size) // (2 * side), max(image.size) // (8 * side))
    small = colours.reduce(factor) if factor > 1 else colours
    if transparent:
        small = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")
    return small
