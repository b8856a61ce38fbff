"""What all pictures share: matplotlib, axes, colours, scales of prices, plain labels, and the picture in a notebook.

The figures are `matplotlib.figure.Figure` objects that pyplot does not know. So they need no display, a server keeps
none of them in memory, and nothing global changes. A notebook shows a display by its `_repr_png_`.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from pricekit.errors import ConfigError
from pricekit.metrics import Metric
from pricekit.wording import printable, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

SIZE = 6.4, 4.8
"""Width and height of a figure in inches."""
MOST_POINTS = 2000
"""More rows are drawn as the density of their points, so that a vector graphic stays small."""
DASHES = "--"
MARKERS = "osD^vPX*"
_NOTEBOOK_DPI = 144

_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
_DARK = ("#56B4E9", "#E69F00", "#F0E442", "#CC79A7", "#FFFFFF")
"""Colours that people with colour blindness distinguish (Okabe & Ito 2008), for light and dark backgrounds."""
_PAPER = {False: "#FFFFFF", True: "#121212"}
"""Backgrounds of light and dark themes."""

WIDTH = 28
"""The most characters of a text that a label shows."""
MISSING = "\N{WHITE SQUARE}"
"""Stands for a character that the font does not have."""

_MANY_MARKS = re.compile("([\u0300-\u036f]{3})[\u0300-\u036f]+")
"""More accents on one letter than any language has; they would cover other labels."""
_MARKS = ("Cf", "Mn", "Me", "Mc")
"""Categories of characters that are drawn over another one or not at all."""


class Display:
    """A picture: it has axes and a figure after `plot`."""

    ax_: Axes
    figure_: Figure

    def _drawn_on(self, ax: Axes, title: str) -> Self:
        """Add a short title at the left, and store the axes and their figure; return the display itself."""
        show_as_is([ax.set_title(plain(title, 90), loc="left", fontsize="medium")])
        self.ax_ = ax
        self.figure_ = ax.get_figure(root=True)  # type: ignore[assignment]
        return self

    def _repr_png_(self) -> tuple[bytes, dict[str, int]] | None:
        """Return a PNG and its size in pixels for a notebook; None for a figure that pyplot shows, or before `plot`.

        The PNG has the background that suits its texts. A figure that is saved has a transparent one.
        """
        figure = getattr(self, "figure_", None)
        if figure is None or getattr(figure, "number", None) is not None:
            return None
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_NOTEBOOK_DPI, facecolor=figure.get_facecolor()[:3])
        width, height = figure.get_size_inches()
        return buffer.getvalue(), {"width": round(72 * width), "height": round(72 * height)}


@dataclass(frozen=True)
class Inks:
    """The colours of a picture, which suit matplotlib's current text colour.

    Attributes:
        text: of texts and reference lines.
        several: of data, the first for a single series, (5,).
    """

    text: str
    several: tuple[str, ...]

    @property
    def main(self) -> str:
        """The colour of the data."""
        return self.several[0]


def require_matplotlib() -> None:
    """Raise ConfigError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a picture needs the package {error.name}, which is not installed: pip install 'pricekit[plots]'"
        ) from None


@contextmanager
def style(dark: bool = False) -> Iterator[None]:
    """Draw pictures for a light or a dark page while the block runs, whatever matplotlib's settings are.

    Without it, pictures have the colours of texts and axes in matplotlib's `rcParams`.

    Args:
        dark: light texts and axes, for a dark page.

    Raises:
        ConfigError: matplotlib is not installed.

    Example:
        >>> from pricekit import plots
        >>> with plots.style(dark=True):
        ...     display = plots.PredictionDisplay.from_predictions([2.0, 5.0, 9.0], [2.5, 4.0, 9.0])
        >>> display.ax_.xaxis.label.get_color()
        '#E6E6E6'
    """
    require_matplotlib()
    import matplotlib as mpl

    ink, paper = "#E6E6E6" if dark else "#000000", _PAPER[dark]
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    papered = ("figure.facecolor", "axes.facecolor")
    settings: Any = dict.fromkeys(inked, ink) | dict.fromkeys(papered, paper)
    settings |= {"xtick.labelcolor": "inherit", "ytick.labelcolor": "inherit", "savefig.facecolor": "auto"}
    with mpl.rc_context(settings | {"axes.titlecolor": "auto", "legend.labelcolor": "None"}):
        yield


def axes_for(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """Return the axes to draw on: those that are given, or those of a new figure with a transparent background.

    Args:
        ax: the user's axes; None for a new figure.
        size: width and height of the new figure in inches.

    Raises:
        ConfigError: matplotlib is not installed, or `ax` is not one axes.
    """
    require_matplotlib()
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure

    if ax is not None:
        if not isinstance(ax, Axes):
            raise ConfigError(
                f"ax is a {type(ax).__name__}; expected the axes of a matplotlib figure, or None for a new figure",
                parameters=("ax",),
            )
        return ax
    figure = Figure(figsize=size, layout="constrained")
    red, green, blue, opacity = to_rgba(figure.get_facecolor())
    if not opacity:  # a setting such as "none" has no colour
        red, green, blue, _ = to_rgba(_PAPER[_is_dark()])
    figure.set_facecolor((red, green, blue, 0.0))
    axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def inks() -> Inks:
    """Return the colours for the current settings of matplotlib."""
    import matplotlib as mpl

    return Inks(str(mpl.rcParams["text.color"]), _DARK if _is_dark() else _LIGHT)


def price_axis(
    ax: Axes, which: Literal["x", "y"], prices: np.ndarray, label: str, margin: float = 0.04
) -> None:
    """Give an axis a label, and a logarithmic scale that covers prices, with plain numbers.

    Args:
        ax: the axes.
        which: the axis.
        prices: above 0, (N,).
        label: what the prices are; see `price_label`.
        margin: the free part of the axis at each end.
    """
    label_axis(ax, which, label)
    from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter

    axis = getattr(ax, f"{which}axis")
    getattr(ax, f"set_{which}scale")("log")
    low, high = np.log10(np.min(prices)), np.log10(np.max(prices))
    pad = margin * (high - low) if high > low else 0.2
    getattr(ax, f"set_{which}lim")(10 ** (low - pad), 10 ** (high + pad))
    decades = high - low + 2 * pad
    locator: Locator = LogLocator(numticks=8)
    if decades < 0.9:
        locator = MaxNLocator(6, steps=[1, 2, 5, 10])
    elif decades < 3.2:
        locator = LogLocator(subs=(1.0, 2.0, 5.0))
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())


def dense_points(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Draw N points; many of them as their number in each hexagon. Set logarithmic scales afterwards.

    Args:
        ax: the axes.
        x: above 0, (N,).
        y: above 0, (N,).
    """
    ink = inks()
    if len(x) <= MOST_POINTS:
        size, opacity = (18, 0.55) if len(x) <= 500 else (9, 0.4)
        ax.scatter(x, y, s=size, color=ink.main, alpha=opacity, linewidths=0)
        return
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb

    rgb = to_rgb(ink.main)
    shades = LinearSegmentedColormap.from_list("rows", [(*rgb, 0.15), (*rgb, 1.0)])
    hexagons = ax.hexbin(
        x, y, gridsize=60, xscale="log", yscale="log", mincnt=1, cmap=shades, norm=LogNorm(), linewidths=0,
        rasterized=True,
    )  # fmt: skip
    bar = ax.get_figure().colorbar(hexagons, ax=ax, shrink=0.6, pad=0.02, format=lambda v, _: number(v))  # type: ignore[union-attr]
    bar.outline.set_visible(False)
    bar.set_label("rows")


def show_as_is(texts: Iterable[Text]) -> None:
    """Show texts without mathtext and TeX."""
    for text in texts:
        text.set_parse_math(False)
        text.set_usetex(False)


def clear_legend(legend: Legend) -> None:
    """Show the texts of a legend as they are, on no background."""
    legend.get_frame().set_alpha(0.0)
    show_as_is(legend.get_texts())


def legend_below(ax: Axes, columns: int) -> None:
    """Add a legend of everything with a label, in some columns, below the label of the x axis."""
    import matplotlib as mpl
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    below = ScaledTranslation(0, -0.05 * mpl.rcParams["font.size"], figure.dpi_scale_trans)
    clear_legend(
        ax.legend(
            ncols=columns, fontsize="small", borderaxespad=0, loc="upper left",
            bbox_to_anchor=(0, 0), bbox_transform=ax.transAxes + below,
        )
    )  # fmt: skip


def label_axis(ax: Axes, axis: Literal["x", "y"], text: str) -> None:
    """Name an axis by a text that is shown as it is."""
    show_as_is([ax.set_xlabel(text) if axis == "x" else ax.set_ylabel(text)])


def _is_dark() -> bool:
    """Return whether matplotlib's texts are light, as they are on a dark page."""
    import matplotlib as mpl
    from matplotlib.colors import to_rgb

    return float(np.dot(to_rgb(mpl.rcParams["text.color"]), (0.299, 0.587, 0.114))) > 0.5


def plain(text: object, width: int = WIDTH) -> str:
    """Return a text for a label: on one line, shortened, with only characters that the current font has.

    A character that is missing in the fonts of `rcParams["font.family"]` becomes a square. Marks that no font shows
    disappear.

    Args:
        text: any text, such as the name of a group.
        width: the most characters of the label.
    """
    short = _MANY_MARKS.sub(r"\1", shorten(printable(shorten(str(text), width)), width))
    fonts, shown = _fonts(), ""
    for character in short:
        if any(font.get_char_index(ord(character)) for font in fonts):
            shown += character
        elif unicodedata.category(character) not in _MARKS:
            shown += MISSING
    return shown


def metric_label(metric: Metric, currency: str | None) -> str:
    """Return the name of a metric with its unit, such as "SMAPE (%)" or "MAE (USD)"."""
    unit = plain(currency or "currency of the table") if metric.unit == "price" else metric.unit
    return f"{metric.title} ({unit})" if unit else metric.title


def price_label(name: str, currency: str | None) -> str:
    """Return the name of a price with its currency, such as "true price (USD)"; without one, the name alone."""
    return f"{name} ({plain(currency)})" if currency else name


def number(value: float) -> str:
    """Return a number for an axis: 0.05, 2.5, 1,000, 1e+09."""
    whole = float(value).is_integer() and abs(value) < 1e8
    return f"{value:,.0f}" if whole else f"{value:g}"


def _fonts() -> list[Any]:
    """Return the fonts in which matplotlib looks for a character, as it would find them."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    paths = []
    for family in FontProperties().get_family():
        try:
            paths.append(findfont(FontProperties(family=family), fallback_to_default=False))
        except ValueError:  # not installed
            continue
    return [get_font(path) for path in paths or [findfont(FontProperties())]]
