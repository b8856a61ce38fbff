"""`PriceRegressor`: pricekit as a scikit-learn estimator."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_array, check_consistent_length, column_or_1d
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PriceRegressor needs scikit-learn, which is not installed: pip install 'pricekit[sklearn]'",
        name=error.name,
    ) from None

from pricekit.api import train
from pricekit.options import (
    SettingOptions,
    UncertaintyOptions,
    check_known,
    described,
    parameters_of,
    show_options,
)
from pricekit.predict.members import read_bundle
from pricekit.predict.predictor import Predictor
from pricekit.table.usable import MIN_ROWS

_PRICE, _TEXT, _WEIGHT = "price", "text", "sample_weight"


class PriceRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression of positive prices from texts and columns, with scikit-learn's interface.

    A fitted estimator contains the bytes of its bundle. It can be pickled, copied and sent to other processes. It
    predicts without torch, and runs no code from the bundle.

    Args:
        engine: engine that runs the model in `predict`; as of `pricekit.load`.
        random_state: the option `seed` of `pricekit.train`.
        **options: see below.

    Attributes:
        n_features_in_: number of columns in `fit`; missing for texts.
        feature_names_in_: their names, if they are strings.
        metrics_: metrics on the rows that `fit` held out, by name: first `metric`, such as `smape` in percent.
            After a refit, which is the default of the policy `quick`, they are those of the first pass.
        bundle_: the files of the model's bundle by name.

    Example:
        >>> import pricekit as pk
        >>> catalog = pk.make_catalog(200)
        >>> model = pk.PriceRegressor(epochs=1).fit(catalog[["catalog_content"]], catalog["price"])
        >>> model.predict(catalog[["catalog_content"]]).shape
        (200,)
        >>> model.predict_interval(catalog[["catalog_content"]], level=0.8).shape
        (200, 2)
    """

    def __init__(
        self, *, engine: str = "ort-cpu", random_state: int = 0, **options: Unpack[SettingOptions]
    ) -> None:
        self.engine = engine
        self.random_state = random_state
        check_known(type(self).__name__, options, inspect.signature(PriceRegressor).parameters)
        for name, parameter in parameters_of(SettingOptions).items():
            setattr(self, name, options.get(name, parameter.default))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Train on rows and prices.

        Args:
            X: (N, K) frame or array, whose columns become labelled lines of one text; or N texts. Of a frame with
                words, these are the columns that `pricekit.check` suggests, or those that the setting `columns.text`
                names. Columns whose cells are lists or arrays are read as vectors.
            y: positive prices, (N,).
            sample_weight: how much each row counts, (N,), at least 0; None: all count equally. A row of weight 2 counts
                in the loss, the metrics, the trees and the intervals as two rows do, but batches and the split into
                training and validation rows are not those of two rows.

        Raises:
            ValueError: the shapes do not match, or a value is missing or not finite.
            DataError: too few rows can be used.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: a price for each row"
            )
        frame = self._frame(X, reset=True)
        price = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        added = {_PRICE: price}
        if sample_weight is not None:
            added[_WEIGHT] = _checked_weights(sample_weight)
        check_consistent_length(frame, *added.values())
        if len(frame) < MIN_ROWS:
            raise ValueError(
                f"n_samples = {len(frame)}: {type(self).__name__} needs at least {MIN_ROWS} rows"
            )
        names = {str(name): _free(str(name), added, frame) for name in frame}
        vectors = [new for name, new in names.items() if _has_lists(frame[name])]
        table = pd.concat([frame.rename(columns=names), pd.DataFrame(added)], axis=1)
        run = train(
            table,
            text=None
            if _have_words(frame, names)
            else [name for name in names.values() if name not in vectors],
            vectors=vectors or None,
            price=_PRICE,
            weight=_WEIGHT if _WEIGHT in added else None,
            **{name: getattr(self, name) for name in parameters_of(SettingOptions)},
            seed=self.random_state,
            allow_leak=True,
        )
        with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
            bundle = Path(folder) / "bundle"
            run.export(bundle)
            self.bundle_ = {file.name: file.read_bytes() for file in sorted(bundle.iterdir())}
        self.metrics_ = run.metrics
        self._renamed = names
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return one price for each row, float64 (N,).

        Args:
            X: rows in the form passed to `fit`.
        """
        return np.asarray(self._priced(X), np.float64)

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:  # noqa: N803
        """Return the bounds of the interval that contains the share `level` of true prices, float64 (N, 2).

        Args:
            X: rows in the form passed to `fit`.
            level: in (0, 1).

        Raises:
            ConfigError: too few rows were held out for that level.
        """
        return np.asarray(self._priced(X, interval=level)[["price_low", "price_high"]], np.float64)

    def predict_quantiles(
        self,
        X: Any,  # noqa: N803
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    ) -> np.ndarray:
        """Return prices below which these shares of true prices are expected, float64 (N, Q); they never cross.

        Args:
            X: rows in the form passed to `fit`.
            quantiles: Q ascending shares in (0, 1).

        Raises:
            ConfigError: they are no ascending shares, or too few rows were held out for one of them.
        """
        return np.asarray(self._priced(X, quantiles=quantiles), np.float64)[:, 1:]

    def predict_release(self, X: Any, within: float, confidence: float = 0.95) -> np.ndarray:  # noqa: N803
        """Return which prices may go out without a person, bool (N,).

        Args:
            X: rows in the form passed to `fit`.
            within: the true price is between price / within and price · within, such as 1.5.
            confidence: the share of the released prices for which that shall hold, in (0, 1).

        Raises:
            ConfigError: the factor is not above 1, or too few rows were held out for that confidence.
        """
        return np.asarray(self._priced(X, within=within, confidence=confidence)["release"])

    def _priced(self, X: Any, **uncertainty: Unpack[UncertaintyOptions]) -> Any:  # noqa: N803
        check_is_fitted(self)
        rows = self._frame(X, reset=False).rename(columns=self._renamed)
        return self._open().predict(rows, **uncertainty)

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:  # noqa: N803
        """Return the rows as a frame, checked as scikit-learn checks them; texts become one column."""
        if _are_texts(X):
            texts = pd.Series(list(X), dtype="object").fillna("")
            if not len(texts):
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            return pd.DataFrame({_TEXT: texts})
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False, skip_check_array=True)
            if not len(X) or not len(X.columns):
                what = "feature(s)" if len(X) else "sample(s)"
                raise ValueError(f"Found array with 0 {what} while a minimum of 1 is required.")
            return X.set_axis(_names(X.columns), axis=1).reset_index(drop=True)
        array = validate_data(self, X, reset=reset, dtype=None)
        return pd.DataFrame(array, columns=_names(range(array.shape[1])))

    def _open(self) -> Predictor:
        """Return the model; each process opens it from its bytes once."""
        opened = _OPEN.get(self)
        if opened is None or opened[0] != self.engine or opened[1] is not self.bundle_:
            with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
                for name, content in self.bundle_.items():
                    (Path(folder) / Path(name).name).write_bytes(content)
                predictor = Predictor.from_bundle(read_bundle(Path(folder)), self.engine)
            _OPEN[self] = opened = self.engine, self.bundle_, predictor
        return opened[2]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        tags.regressor_tags.poor_score = True  # of few rows of numbers without words
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bundle_")


show_options(PriceRegressor.__init__, SettingOptions)
PriceRegressor.__doc__ = described(PriceRegressor.__doc__, SettingOptions)

_OPEN: WeakKeyDictionary[PriceRegressor, tuple[str, dict[str, bytes], Predictor]] = WeakKeyDictionary()
"""The open models of this process with their engine and bundle; estimators contain nothing that cannot be pickled."""


def _names(columns: Iterable[Any]) -> list[str]:
    """Return column names. A number gets a letter, because line labels need one."""
    return [name if isinstance(name, str) else f"x{name}" for name in columns]


def _are_texts(X: Any) -> bool:  # noqa: N803
    """Return whether the rows are texts: a list, an array or a column of strings."""
    if isinstance(X, str | bytes | Mapping | pd.DataFrame) or not hasattr(X, "__len__"):
        return False
    if isinstance(X, pd.Series):
        return all(isinstance(cell, str) for cell in X.dropna()) and not X.isna().all()
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and all(isinstance(cell, str) for cell in X)
    return isinstance(X, Sequence) and len(X) > 0 and all(isinstance(cell, str) for cell in X)


def _have_words(frame: pd.DataFrame, names: Mapping[str, str]) -> bool:
    """Return whether some of several columns are text, so that columns can be chosen."""
    return len(names) > 1 and any(pd.api.types.is_string_dtype(frame[name]) for name in frame)


def _has_lists(column: pd.Series) -> bool:
    """Return whether the first cell that is not missing is a vector."""
    first = column.first_valid_index()
    return first is not None and isinstance(column.loc[first], list | tuple | np.ndarray)


def _checked_weights(weights: Any) -> np.ndarray:
    """Return weights, float64 (N,); raises ValueError."""
    weight = check_array(weights, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.min() < 0:
        raise ValueError(f"sample_weight contains {weight.min():g}; expected weights of at least 0")
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number; all of them are 0")
    return np.asarray(column_or_1d(weight))


def _free(name: str, taken: Mapping[str, Any], frame: pd.DataFrame) -> str:
    """Return the name of a text column, changed if a column with this name is added."""
    free = name
    while free in taken or (free != name and free in frame):
        free += "_"
    return free
