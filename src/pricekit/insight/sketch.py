"""`sketch.json`: what a model keeps of its training table, so that other tables can be compared with it.

It contains no row and no text: counts of rows by bins of numbers, counts of words and values that many rows have, and
mean and correlations of a vector of each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from pricekit.errors import BundleError, first_invalid_field
from pricekit.io.packing import Strict

SKETCH = "sketch.json"

BINS = 10
"""Bins of a distribution, with about equal numbers of training rows."""
MOST_WORDS, MOST_VALUES, MOST_FEATURES = 800, 40, 200
"""Numbers of words, of values of a field, and of features."""
MOST_LABELS, MOST_OTHER_COLUMNS = 20, 16
"""Numbers of labels and of other columns that are fields; the text, its brand and its unit are fields, too."""
LONGEST_NAME = 1_000
"""Characters of the name of a feature or field."""
LONGEST_VALUE = 60
"""Characters of a value."""
RANGE_ROWS = 5
"""The range of values ends at the fifth lowest and the fifth highest one."""
HASHES, MOST_SCORES = 32, 16
"""The numbers of a row's vector that come from its words, and from features."""

Count = Annotated[int, Field(ge=0, le=1 << 53)]
_Share = Annotated[float, Field(ge=0, le=1)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Value = Annotated[str, Field(max_length=LONGEST_VALUE)]


class Distribution(Strict):
    """How many rows have a number in each bin; a bin includes its upper end.

    Attributes:
        cuts: between the bins, ascending.
        rows: of each bin, one more than cuts.
        own: the PSI of held-out rows of the same table, less what chance gives. It is above 0 for features that
            remember training rows, such as the number of rows of a brand.
        own_distance: the same of the distance.
        low: the fifth lowest value, so that it is the number of no single row.
        high: the fifth highest value.
    """

    cuts: list[float] = Field(max_length=BINS)
    rows: list[Count] = Field(max_length=BINS + 1)
    own: float = Field(0.0, ge=0)
    own_distance: _Share = 0.0
    low: float
    high: float

    @model_validator(mode="after")
    def _is_consistent(self) -> Distribution:
        if len(self.rows) != len(self.cuts) + 1 or any(low >= high for low, high in pairwise(self.cuts)):
            raise ValueError("the cuts do not ascend, or there is not one bin more")
        return self

    def bins(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value, int64 (N,)."""
        return np.searchsorted(np.array(self.cuts), values.astype(np.float64), side="left")

    def count(self, values: np.ndarray) -> np.ndarray:
        """Return the number of values in each bin, int64 (B,)."""
        return np.bincount(self.bins(values), minlength=len(self.rows))

    def ranks(self) -> np.ndarray:
        """Return the mean rank of each bin among the training rows, from 0 to 1, float64 (B,)."""
        share = np.array(self.rows) / max(1, sum(self.rows))
        return np.asarray(np.cumsum(share) - share / 2)

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the mean rank of a value's bin among the training rows, from 0 to 1, float64 (N,)."""
        return np.asarray(self.ranks()[self.bins(values)])

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Return which values, (N,), are beyond the range of the training rows, bool (N,)."""
        return (values < np.float32(self.low)) | (values > np.float32(self.high))


class FieldSketch(Strict):
    """A labelled line, a column, or what was found in texts.

    Attributes:
        filled: rows with a value.
        values: rows of each frequent value, the most frequent first; empty if no value is frequent.
        rare: the most rows that a value outside of `values` has.
    """

    filled: Count
    values: dict[Value, Count] = Field(default_factory=dict, max_length=MOST_VALUES)
    rare: Count = 0


def check_counts(
    rows: int, words: Mapping[str, int], fields: Iterable[tuple[int, Mapping[str, int]]]
) -> None:
    """Raise ValueError if more rows have a word, a field or one of its values than there are."""
    of_fields = [count for filled, values in fields for count in (filled, *values.values())]
    if max([*words.values(), *of_fields], default=0) > rows:
        raise ValueError("more rows have a word or a value than there are rows")


class VectorSketch(Strict):
    """Mean and covariance of a vector of each row; see `pricekit.insight.domain`.

    Attributes:
        features: whose scores follow the numbers of the words.
        mean: of each of the D numbers.
        deviation: their standard deviations.
        correlation: the correlations of each pair, in thousandths, row by row above the diagonal, D(D - 1)/2.
    """

    features: list[Name] = Field(max_length=MOST_SCORES)
    mean: list[Annotated[float, Field(ge=-1, le=1)]] = Field(max_length=HASHES + MOST_SCORES)
    deviation: list[_Share]
    correlation: list[Annotated[int, Field(ge=-1000, le=1000)]]

    @model_validator(mode="after")
    def _is_consistent(self) -> VectorSketch:
        size = HASHES + len(self.features)
        expected = size, size, size * (size - 1) // 2
        if (len(self.mean), len(self.deviation), len(self.correlation)) != expected:
            raise ValueError("the numbers of means, deviations and correlations do not fit")
        return self


class PriceSketch(Strict):
    """Predictions of held-out rows.

    Attributes:
        predicted: the predicted prices.
        smape: of the predictions, in percent.
        deviation: the standard deviation of its terms.
    """

    predicted: Distribution
    smape: float = Field(ge=0, le=200)
    deviation: float = Field(ge=0, le=200)


class Sketch(Strict):
    """What a model keeps of its training table.

    Attributes:
        rows: the number of training rows that were sketched.
        label: the label that begins most texts, if it is not a usual one; "" otherwise.
        features: the engineered features by name.
        text_length: characters of the texts.
        words: rows of the most frequent words.
        rare: the most rows that a word outside of `words` has.
        unknown_words: the share of words outside of `words`, counted once for each row.
        unknown_tokens: the share of tokens that the tokenizer does not know; None if it has no such token.
        others: columns besides the text that the features read.
        fields: by name.
        vector: mean and covariance of rows.
        prices: predictions of held-out rows; None if there are none.
    """

    rows: int = Field(ge=1, le=1 << 53)
    label: Name
    features: dict[Name, Distribution] = Field(max_length=MOST_FEATURES)
    text_length: Distribution
    words: dict[Value, Count] = Field(max_length=MOST_WORDS)
    rare: Count
    unknown_words: _Share
    unknown_tokens: _Share | None
    others: list[Name] = Field(max_length=MOST_OTHER_COLUMNS)
    fields: dict[Name, FieldSketch] = Field(max_length=MOST_LABELS + MOST_OTHER_COLUMNS + 3)
    vector: VectorSketch
    prices: PriceSketch | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Sketch:
        check_counts(self.rows, self.words, ((each.filled, each.values) for each in self.fields.values()))
        return self

    def to_text(self) -> str:
        """Return the content of `sketch.json`."""
        return self.model_dump_json() + "\n"


def read_sketch(content: str | bytes, where: object) -> Sketch:
    """Read what `Sketch.to_text` wrote; raises BundleError that names `where` if it is damaged."""
    try:
        return Sketch.model_validate_json(content)
    except ValueError as error:
        raise BundleError(
            f"the sketch.json of {where} is damaged{first_invalid_field(error)}; train or export it again"
        ) from None


def three_digits(prices: np.ndarray) -> np.ndarray:
    """Return positive numbers rounded to three digits, float64 (N,): smaller differences of prices are no drift.

    Example:
        >>> three_digits(np.array([5.0004, 12345.0]))
        array([5.00e+00, 1.23e+04])
    """
    unit = 10.0 ** (np.floor(np.log10(prices.astype(np.float64))) - 2)
    return np.asarray(np.round(prices / unit) * unit)


def distribution_of(values: np.ndarray) -> Distribution:
    """Return bins with about equal numbers of values, as far as equal values allow, and the rows of each.

    Args:
        values: finite numbers, (N,), N at least 1.

    Example:
        >>> distribution_of(np.array([0.0] * 97 + [1.0] * 3))
        Distribution(cuts=[0.0], rows=[97, 3], own=0.0, own_distance=0.0, low=0.0, high=0.0)
    """
    values = values.astype(np.float64)
    quantiles = np.quantile(values, np.arange(1, BINS) / BINS, method="inverted_cdf")
    cuts = sorted({_rounded(float(each)) for each in quantiles})
    inside = [cut for cut in cuts if cut < values.max()]
    if not inside:  # nearly all rows have the highest value: the bin below it is the one to watch
        below = values[values < values.max()]
        inside = [_rounded(float(below.max() if len(below) else values.max()))]
    few = min(RANGE_ROWS, (len(values) + 1) // 2)
    low, high = np.partition(values, few - 1)[few - 1], np.partition(values, -few)[-few]
    plain = Distribution(cuts=inside, rows=[0] * (len(inside) + 1), low=float(low), high=float(high))
    return plain.model_copy(update={"rows": plain.count(values).tolist()})


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def unpacked(correlation: Sequence[int], size: int) -> np.ndarray:
    """Return a matrix of correlations, float64 (D, D), from thousandths above its diagonal."""
    matrix = np.eye(size)
    above = np.triu_indices(size, 1)
    matrix[above] = np.array(correlation, np.float64) / 1000
    return matrix + np.triu(matrix, 1).T


def require_sketch(sketch: Sketch | None) -> Sketch:
    """Return the sketch of a model; raises BundleError if it has none."""
    if sketch is None:
        raise BundleError(
            "the model has no sketch of its training table, which only models have that pricekit has trained; use such "
            "a model"
        )
    return sketch
