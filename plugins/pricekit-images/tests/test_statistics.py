import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter
from pricekit_images.decode import Picture
from pricekit_images.statistics import NAMES, statistics_of


def of(image, **facts):
    found = statistics_of(Picture(*image.size, facts.get("bytes", 1000), image))
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    return dict(zip(NAMES, found.tolist(), strict=True))


def drawn(*boxes, colour="red", size=(120, 90)):
    picture = Image.new("RGB", size, "white")
    for box in boxes:
        ImageDraw.Draw(picture).rectangle(box, fill=colour)
    return picture


def test_size_and_colours():
    found = of(Image.new("RGB", (200, 100), (255, 0, 51)), bytes=10_000)
    assert found["log_width"] == pytest.approx(np.log(200))
    assert found["log_aspect"] == pytest.approx(np.log(2))
    assert found["bytes_per_pixel"] == 0.5
    assert [found[name] for name in ("red", "green", "blue")] == pytest.approx([1, 0, 0.2])
    assert found["saturation"] == pytest.approx(1)
    assert found["contrast"] == pytest.approx(0, abs=1e-6)
    assert found["colourfulness"] == pytest.approx(0.3 * np.hypot(1, 0.3))
    assert of(Image.new("RGB", (9, 9), "grey"))["saturation"] == 0


def test_a_blurred_picture_is_less_sharp():
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8))
    sharp, blurred = of(noise), of(noise.filter(ImageFilter.GaussianBlur(3)))
    assert sharp["sharpness"] > blurred["sharpness"] + 2
    assert sharp["edges"] > 2 * blurred["edges"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_things_are_counted_and_measured(count):
    found = of(drawn(*((5 + 22 * n, 20, 14 + 22 * n, 39) for n in range(count))))
    assert found["log_things"] == pytest.approx(np.log(count))
    assert found["log_thing_area"] == pytest.approx(np.log(10 * 20))
    assert found["covered"] == pytest.approx(count * 200 / (120 * 90))
    assert found["box_width"] == pytest.approx((10 + 22 * (count - 1)) / 120)
    assert found["box_height"] == pytest.approx(20 / 90)
    assert [found[f"thing_{name}"] for name in ("red", "green", "blue")] == [1, 0, 0]
    assert found["ground_brightness"] == 1


def test_things_that_touch_at_a_corner_are_one_and_holes_count_against_them():
    assert of(drawn((10, 10, 19, 19), (20, 20, 29, 29)))["log_things"] == 0
    ring = drawn((10, 10, 39, 39))
    ImageDraw.Draw(ring).rectangle((20, 20, 29, 29), fill="white")
    ImageDraw.Draw(ring).rectangle((60, 10, 69, 19), fill="red")
    assert of(ring)["log_things"] == 0  # two areas, one hole


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (3, 2)])
def test_tiny_pictures_have_statistics(size):
    of(Image.new("RGB", size, "blue"))
