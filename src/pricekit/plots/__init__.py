"""Pictures of a model's prices, drawn with matplotlib.

Each class follows the convention of scikit-learn's displays: its attributes hold the numbers, `from_model` computes and
draws them, `plot` draws them again, and `ax_` and `figure_` are what was drawn last. Only drawing needs matplotlib.

Example:
    >>> import pricekit as pk
    >>> shown = pk.plots.PredictionDisplay.from_predictions([2.0, 5.0, 9.0], [2.5, 4.0, 9.0])
    >>> shown.figure_.savefig("prices.svg")

    drawing.py        what all displays share: axes, colours, scales, plain labels, and the picture in a notebook
    predictions.py    predicted against true prices, their quotient, the metric by price and by the groups of a column,
                      the share of true prices inside the intervals, and the metric of the surest rows
    learning.py       loss and validation metric by epoch
    effects.py        the typical price by the value of a feature
"""

from pricekit.plots.drawing import style
from pricekit.plots.effects import FeatureEffectDisplay
from pricekit.plots.learning import LearningCurveDisplay
from pricekit.plots.predictions import (
    CoverageDisplay,
    DecileDisplay,
    GroupDisplay,
    PredictionDisplay,
    ResidualDisplay,
    SurestDisplay,
)

__all__ = [
    "CoverageDisplay",
    "DecileDisplay",
    "FeatureEffectDisplay",
    "GroupDisplay",
    "LearningCurveDisplay",
    "PredictionDisplay",
    "ResidualDisplay",
    "SurestDisplay",
    "style",
]
