import io
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pricekit_images.decode import decode, identify
from pricekit_images.unusable import UnusableError
from shop import jpeg

MOST = 25_000_000


def saved(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def png_header(width, height, depth=8, colour=2):
    """A PNG file without pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def animated(kind):
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    return saved(frames[0], kind, save_all=True, append_images=frames[1:])


UNUSABLE = {
    "truncated": jpeg(size=(200, 200))[:500],
    "empty": b"",
    "text": b"<html>not found</html>",
    "svg": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "gif": animated("GIF"),
    "webp": animated("WEBP"),
    "apng": animated("PNG"),
    "wide": png_header(40_000, 10),
    "large": png_header(19_000, 19_000),
    "somewhat large": png_header(8000, 5000),
    "bomb": png_header(10_000, 10_000),
    "cmyk": jpeg(mode="CMYK"),
    "16-bit grey": saved(Image.fromarray(np.zeros((9, 9), np.uint16)), "PNG"),
    "16-bit colour": png_header(9, 9, depth=16),
    "tiff": jpeg(kind="TIFF"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_image_has_one_reason(name, raises):
    content = UNUSABLE[name]
    with raises(UnusableError):
        decode(content, MOST, 128)


def test_the_first_of_several_pictures_of_a_phone_is_used():
    first = Image.open(io.BytesIO(jpeg(size=(600, 400))))
    content = saved(first, "MPO", save_all=True, append_images=[Image.new("RGB", (60, 40), "blue")])
    assert Image.open(io.BytesIO(content)).format == "MPO"
    picture = decode(content, MOST, 128)
    assert (picture.width, picture.height) == (600, 400)
    assert picture.pixels.getpixel((1, 1)) == pytest.approx((255, 255, 255), abs=9)


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_image_at_all_is_identified(name, raises):
    content = UNUSABLE[name]
    if name in ("empty", "text", "svg", "tiff"):
        with raises(UnusableError) as found:
            identify(content)
        assert found.value.lasting
    else:
        identify(content)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_other_modes_become_rgb(mode):
    picture = decode(jpeg(mode=mode, kind="PNG"), MOST, 128)
    assert (picture.width, picture.height) == picture.pixels.size == (60, 40)
    assert picture.pixels.mode == "RGB"
    assert picture.pixels.getpixel((1, 1)) == pytest.approx((255, 255, 255), abs=9)


def test_what_is_transparent_becomes_white():
    clear = Image.new("RGBA", (30, 30), (0, 0, 0, 0))
    assert decode(saved(clear, "PNG"), MOST, 128).pixels.getpixel((9, 9)) == (255, 255, 255)
    palette = clear.convert("P")
    content = saved(palette, "GIF", transparency=palette.getpixel((0, 0)))
    assert decode(content, MOST, 128).pixels.getpixel((9, 9)) == (255, 255, 255)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_large_image_is_decoded_in_less_detail(kind):
    picture = decode(jpeg(size=(2000, 1500), kind=kind), MOST, 100)
    assert (picture.width, picture.height) == (2000, 1500)
    assert 100 <= min(picture.pixels.size) <= 400


@settings(max_examples=60)
@given(
    st.integers(0, 900),
    st.binary(min_size=1, max_size=4),
    st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "BMP"]),
)
def test_any_damage_is_a_reason_or_a_picture(place, change, kind):
    content = bytearray(jpeg(kind=kind))
    place %= len(content)
    content[place : place + len(change)] = change
    with suppress(UnusableError):
        decode(bytes(content), MOST, 64)
