"""What pictures share: figures, colours, scales, notebooks, and the absence of matplotlib."""

import io
import subprocess
import sys
from unittest import mock

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import pricekit as pk
from pricekit import plots
from pricekit.errors import ConfigError
from pricekit.plots.drawing import MOST_POINTS, price_axis

PRICE = np.exp(np.random.default_rng(0).normal(3, 1, 60))
PREDICTED = PRICE * np.exp(np.random.default_rng(1).normal(0, 0.4, 60))

LAZY = """
import sys
import pricekit
assert "matplotlib" not in sys.modules
assert "pricekit.plots" not in sys.modules
pricekit.plots.PredictionDisplay
assert "matplotlib" not in sys.modules
pricekit.plots.PredictionDisplay.from_predictions([1, 2], [2, 3])._repr_png_()
assert "matplotlib.pyplot" not in sys.modules
import pricekit.plots
assert pricekit.plots is sys.modules["pricekit.plots"]
"""


def draw(ax=None):
    return plots.PredictionDisplay.from_predictions(PRICE, PREDICTED, ax=ax)


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA"))


def test_matplotlib_is_imported_when_a_picture_is_drawn_and_pyplot_never():
    subprocess.run([sys.executable, "-c", LAZY], check=True)


def test_without_matplotlib_an_error_names_the_extra(run, raises):
    with mock.patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]
        sys.modules["matplotlib"] = None
        for call in (draw, plots.style().__enter__, lambda: plots.LearningCurveDisplay.from_model(run)):
            with raises(ConfigError):
                call()


def test_a_picture_leaves_pyplot_and_the_settings_as_they_are():
    before, numbers = dict(mpl.rcParams), plt.get_fignums()
    with plots.style(dark=True):
        draw()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == numbers


def test_a_notebook_shows_a_display_but_not_twice_what_pyplot_shows():
    png, size = draw()._repr_png_()
    image = Image.open(io.BytesIO(png))
    assert image.size == pytest.approx((2 * size["width"], 2 * size["height"]), abs=1)
    figure, ax = plt.subplots()
    try:
        shown = draw(ax)
        assert shown.figure_ is figure
        assert shown._repr_png_() is None
    finally:
        plt.close(figure)
    assert plots.PredictionDisplay(PRICE, PREDICTED)._repr_png_() is None


@pytest.mark.parametrize("dark", [False, True])
def test_a_saved_figure_is_transparent_and_a_notebook_has_a_background_that_suits_the_text(dark):
    with plots.style(dark=dark):
        shown = draw()
    buffer = io.BytesIO()
    shown.figure_.savefig(buffer, format="png")
    assert pixels(buffer.getvalue())[0, 0, 3] == 0
    red, green, blue, opacity = pixels(shown._repr_png_()[0])[0, 0]
    assert opacity == 255
    assert (max(red, green, blue) < 60) == dark
    lightness = mpl.colors.to_rgb(shown.ax_.xaxis.label.get_color())[0]
    assert (lightness > 0.8) == dark
    assert (mpl.colors.to_rgb(shown.ax_.title.get_color())[0] > 0.8) == dark


def test_colours_of_text_are_those_of_the_current_settings():
    with mpl.rc_context({"axes.labelcolor": "#123456", "figure.facecolor": "none", "text.color": "white"}):
        shown = draw()
        assert shown.ax_.xaxis.label.get_color() == "#123456"
        assert pixels(shown._repr_png_()[0])[0, 0, 0] < 60


def test_axes_of_the_user_are_drawn_on_and_anything_else_is_refused(raises):
    ax = Figure().add_subplot()
    assert draw(ax).ax_ is ax
    assert pk.plots.PredictionDisplay(PRICE, PREDICTED).plot(ax).figure_ is ax.figure
    with raises(ConfigError, "ax"):
        draw([ax])


@pytest.mark.parametrize("kind", [plots.PredictionDisplay, plots.ResidualDisplay])
def test_many_rows_make_a_small_svg(kind):
    price = np.exp(np.random.default_rng(0).normal(3, 1, 50_000))
    predicted = price * np.exp(np.random.default_rng(1).normal(0, 0.4, len(price)))
    sizes = []
    for count in (MOST_POINTS, len(price)):
        buffer = io.BytesIO()
        kind.from_predictions(price[:count], predicted[:count]).figure_.savefig(buffer, format="svg")
        sizes.append(len(buffer.getvalue()))
    assert max(sizes) < 600_000


@pytest.mark.parametrize("prices", [[10, 11], [5, 60], [1, 900], [1e-6, 1e9], [7, 7]])
def test_a_price_axis_has_a_few_plain_numbers(prices):
    ax = Figure().add_subplot()
    price_axis(ax, "x", np.array(prices, float), "price")
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    shown = [text.get_text() for text in ax.get_xticklabels() if low <= text.get_position()[0] <= high]
    assert low < min(prices) <= max(prices) < high
    assert 2 <= len(shown) <= 10
    assert not any("$" in text for text in shown)


@pytest.mark.parametrize("kind", [plots.PredictionDisplay, plots.ResidualDisplay])
def test_hexagons_are_where_their_rows_are(kind):
    price = np.geomspace(1, 1000, 5000)
    shown = kind.from_predictions(price, price * np.resize([0.25, 4], 5000))
    points = (
        (shown.predicted, shown.factor) if kind is plots.ResidualDisplay else (shown.price, shown.predicted)
    )
    shown.figure_.canvas.draw()
    shown.figure_.set_layout_engine("none")  # the axes stay where they are
    (hexagons,) = shown.ax_.collections
    for artist in (*shown.figure_.axes[1:], *shown.ax_.get_children()):
        artist.set_visible(artist is hexagons)
    buffer = io.BytesIO()
    shown.figure_.savefig(buffer, format="png", dpi=shown.figure_.dpi)
    drawn = np.argwhere(pixels(buffer.getvalue())[::-1, :, 3] > 0)[:, ::-1]
    corners = shown.ax_.transData.transform(np.column_stack([[p.min(), p.max()] for p in points]))
    assert np.abs([drawn.min(axis=0), drawn.max(axis=0)] - corners).max() < 8
