"""`PriceRegressor` and `PriceFeatures`: pricekit as a scikit-learn regressor, and as columns for another one."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

try:
    from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
    from sklearn.decomposition import PCA
    from sklearn.utils import check_array, check_consistent_length, column_or_1d
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "PriceRegressor and PriceFeatures need scikit-learn, which is not installed: pip install 'pricekit[sklearn]'",
        name=error.name,
    ) from None

from pricekit.api import cross_validate, train
from pricekit.errors import ConfigError
from pricekit.model import Model
from pricekit.options import (
    SettingOptions,
    UncertaintyOptions,
    check_known,
    config_of,
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
        _set_options(self, options)

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
        rows = _TrainingRows.of(self, X, y, sample_weight)
        run = train(rows.table, **rows.options)
        self.bundle_ = _files_of(run)
        self.metrics_ = run.metrics
        self._renamed = rows.renamed
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
        rows = _frame(self, X, reset=False).rename(columns=self._renamed)
        return _opened(self, [self.bundle_])[0].predict(rows, **uncertainty)

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


class PriceFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What texts and columns say about prices, as columns for another model that learns prices.

    `fit_transform`, which a Pipeline calls to train, cross-validates: the values of a row come from a model that was
    trained neither on the row nor on a near-duplicate of it. So the other model cannot mistake a remembered price for a
    prediction. `transform` gives new rows the mean of these models. It must not be called with the training rows, which
    most of the models have seen.

    The first column is the log of the price. The others are the first principal components of `pricekit.Model.embed`:
    the vectors of each model are rotated to those of the first, on rows that the model was trained on, because each
    model has axes of its own.

    A fitted transformer contains a bundle for each fold, 44 MB with the default settings. It can be pickled, and
    transforms without torch.

    Args:
        folds: number of models.
        vectors: number of principal components; 0: none.
        engine: engine that runs the models in `transform`; as of `pricekit.load`.
        random_state: the option `seed` of `pricekit.cross_validate`.
        **options: see below.

    Attributes:
        n_features_in_: number of columns in `fit`; missing for texts.
        feature_names_in_: their names, if they are strings.
        metrics_: metrics of the cross-validation by name: first `metric`, such as `smape` in percent.
        bundles_: the files of the bundle of each fold by name.

    Example:
        >>> import pricekit as pk
        >>> catalog = pk.make_catalog(200)
        >>> features = pk.PriceFeatures(folds=2, vectors=3, epochs=1, features=["fast15"], refit=False)
        >>> features.fit_transform(catalog[["catalog_content"]], catalog["price"]).shape
        (200, 4)
        >>> features.get_feature_names_out().tolist()
        ['log_price', 'vector_0', 'vector_1', 'vector_2']
    """

    def __init__(
        self,
        *,
        folds: int = 5,
        vectors: int = 16,
        engine: str = "ort-cpu",
        random_state: int = 0,
        **options: Unpack[SettingOptions],
    ) -> None:
        self.folds = folds
        self.vectors = vectors
        self.engine = engine
        self.random_state = random_state
        _set_options(self, options)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Train the models; arguments and errors as of `fit_transform`."""
        self.fit_transform(X, y, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:  # noqa: N803
        """Train the models, and return the columns of each row by the model that has not seen it, float64 (N, C).

        Args:
            X: as of `PriceRegressor.fit`.
            y: positive prices, (N,).
            sample_weight: as of `PriceRegressor.fit`.

        Raises:
            ValueError: the shapes do not match, or a value is missing or not finite.
            DataError: too few rows can be used, or they form too few groups of different texts.
            ConfigError: `folds` or `vectors` is invalid, the backbone reads no text and so has no vectors, or the folds
                would be by time.
        """
        rows = _TrainingRows.of(self, X, y, sample_weight)
        self._check_settings(rows.options)
        validated = cross_validate(rows.table, folds=self.folds, **rows.options)
        self.bundles_ = [_files_of(run, with_embeddings=self.vectors > 0) for run in validated.runs]
        self.metrics_ = validated.metrics
        self._renamed = rows.renamed
        held_out, table = validated.held_out, rows.table[list(rows.renamed.values())]
        fold = np.full(len(table), -1)  # of rows that cannot be trained on
        fold[held_out["row"]] = held_out["fold"]
        vectors = [model.embed(table) for model in _opened(self, self.bundles_)] if self.vectors else []
        self._spaces = _common_space(vectors, fold, self.vectors) if vectors else []
        values = np.empty((len(table), len(self.get_feature_names_out())))
        for number in np.unique(fold).tolist():
            held = np.flatnonzero(fold == number)
            folds = slice(None) if number < 0 else slice(number, number + 1)
            values[held] = self._columns(table.iloc[held], [each[held] for each in vectors], folds)
        return values

    def _check_settings(self, options: Mapping[str, Any]) -> None:
        """Raise ConfigError for settings that leave a row without vectors, or without a model that has not seen it."""
        if not isinstance(self.vectors, int | np.integer) or self.vectors < 0:
            raise ConfigError(f"vectors is {self.vectors!r}; expected 0 or more", parameters=("vectors",))
        config = config_of(options)
        if self.vectors and config.backbone.name == "mlp":
            raise ConfigError(
                "the backbone mlp reads no text, so it has no vectors; set vectors to 0, or choose another backbone",
                parameters=("vectors", "backbone"),
            )
        if config.columns.time is not None:
            raise ConfigError(
                "with folds by time, every model is trained on the earliest rows, so no model can price them unseen; "
                "leave the setting columns.time out",
                parameters=("settings",),
            )

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the columns of new rows, float64 (N, C): the mean of all models.

        Args:
            X: rows in the form passed to `fit`.
        """
        check_is_fitted(self)
        rows = _frame(self, X, reset=False).rename(columns=self._renamed)
        vectors = [model.embed(rows) for model in _opened(self, self.bundles_)] if self._spaces else []
        return self._columns(rows, vectors)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns, (C,)."""
        check_is_fitted(self)
        vectors = len(self._spaces[0][1]) if self._spaces else 0
        return np.array(["log_price", *(f"vector_{place}" for place in range(vectors))], dtype=object)

    def _columns(
        self, rows: pd.DataFrame, vectors: Sequence[np.ndarray], folds: slice = slice(None)
    ) -> np.ndarray:
        """Return the means of the columns of some folds, float64 (N, C), from the rows' vectors by each model."""
        models = _opened(self, self.bundles_)[folds]
        columns = [np.mean([np.log(model.predict(rows).astype(np.float64)) for model in models], axis=0)]
        if vectors:
            spaces = zip(vectors[folds], self._spaces[folds], strict=True)
            columns.extend(np.mean([each @ matrix - origin for each, (matrix, origin) in spaces], axis=0).T)
        return np.column_stack(columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.input_tags.string = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "bundles_")


show_options(PriceFeatures.__init__, SettingOptions)
PriceFeatures.__doc__ = described(PriceFeatures.__doc__, SettingOptions)


def _common_space(
    vectors: Sequence[np.ndarray], fold: np.ndarray, components: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each model what maps its vectors to V principal components that all models share.

    The components are vectors · matrix - origin, with a matrix (H, V) and an origin (V,).

    A rotation (orthogonal Procrustes) makes the vectors of a model most similar to those of the first. It is fitted
    without the rows that the model has not seen: the first model has seen their prices, and the rotation, which has a
    number for each pair of axes, would remember some of them.

    Args:
        vectors: of each model for all rows, each float32 (N, H).
        fold: the model that has not seen a row, int (N,); -1: none has seen it.
        components: number of components at most.
    """
    means = [each.mean(0) for each in vectors]
    centred = [each - mean for each, mean in zip(vectors, means, strict=True)]
    rotations, unseen = [], []
    for number, each in enumerate(centred):
        seen = fold != number
        left, _, right = np.linalg.svd(each[seen].T @ centred[0][seen], full_matrices=False)
        rotations.append(left @ right)
        unseen.append(each[fold == number] @ rotations[-1])
    rows = np.vstack(unseen)
    pca = PCA(min(components, *rows.shape), svd_solver="full").fit(rows)
    axes = pca.components_.T
    return [
        (rotation @ axes, (mean @ rotation + pca.mean_) @ axes)
        for mean, rotation in zip(means, rotations, strict=True)
    ]


_OPEN: WeakKeyDictionary[Any, tuple[str, Any, list[Predictor]]] = WeakKeyDictionary()
"""The open models of this process with their engine and bundles; estimators contain nothing that cannot be pickled."""


def _set_options(estimator: Any, options: Mapping[str, Any]) -> None:
    """Set an estimator's options of `train`; raises TypeError for others."""
    kind = type(estimator)
    check_known(kind.__name__, options, inspect.signature(kind.__init__).parameters)
    for name, parameter in parameters_of(SettingOptions).items():
        setattr(estimator, name, options.get(name, parameter.default))


@dataclass(frozen=True)
class _TrainingRows:
    """Rows to train on.

    Attributes:
        table: with prices, and weights if there are any.
        options: of a training on it.
        renamed: the names of the columns of `X` in the table, by their own.
    """

    table: pd.DataFrame
    options: dict[str, Any]
    renamed: dict[str, str]

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sample_weight: Any) -> _TrainingRows:  # noqa: N803
        """Return what was passed to `fit`, checked as scikit-learn checks it; raises ValueError."""
        kind = type(estimator).__name__
        if y is None:
            raise ValueError(
                f"{kind} requires y to be passed, but the target y is None: a price for each row"
            )
        frame = _frame(estimator, X, reset=True)
        price = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        added = {_PRICE: price}
        if sample_weight is not None:
            added[_WEIGHT] = _checked_weights(sample_weight)
        check_consistent_length(frame, *added.values())
        if len(frame) < MIN_ROWS:
            raise ValueError(f"n_samples = {len(frame)}: {kind} needs at least {MIN_ROWS} rows")
        names = {str(name): _free(str(name), added, frame) for name in frame}
        vectors = [new for name, new in names.items() if _has_lists(frame[name])]
        options = {
            **{name: getattr(estimator, name) for name in parameters_of(SettingOptions)},
            "text": None
            if _have_words(frame, names)
            else [name for name in names.values() if name not in vectors],
            "vectors": vectors or None,
            "price": _PRICE,
            "weight": _WEIGHT if _WEIGHT in added else None,
            "seed": estimator.random_state,
            "allow_leak": True,
        }
        return cls(pd.concat([frame.rename(columns=names), pd.DataFrame(added)], axis=1), options, names)


def _files_of(run: Model, *, with_embeddings: bool = False) -> dict[str, bytes]:
    """Return the contents of the files of a run's bundle by name."""
    with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
        bundle = Path(folder) / "bundle"
        run.export(bundle, with_embeddings=with_embeddings)
        return {file.name: file.read_bytes() for file in sorted(bundle.iterdir())}


def _opened(estimator: Any, bundles: list[dict[str, bytes]]) -> list[Predictor]:
    """Return the models of an estimator; each process opens them from their bytes once."""
    opened = _OPEN.get(estimator)
    if opened is None or opened[:2] != (estimator.engine, bundles):
        predictors = []
        for files in bundles:
            with tempfile.TemporaryDirectory(prefix="pricekit-") as folder:
                for name, content in files.items():
                    (Path(folder) / Path(name).name).write_bytes(content)
                predictors.append(Predictor.from_bundle(read_bundle(Path(folder)), estimator.engine))
        _OPEN[estimator] = opened = estimator.engine, bundles, predictors
    return opened[2]


def _frame(estimator: Any, X: Any, *, reset: bool) -> pd.DataFrame:  # noqa: N803
    """Return the rows as a frame, checked as scikit-learn checks them; texts become one column."""
    if _are_texts(X):
        texts = pd.Series(list(X), dtype="object").fillna("")
        if not len(texts):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return pd.DataFrame({_TEXT: texts})
    if isinstance(X, pd.DataFrame):
        validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False, skip_check_array=True)
        if not len(X) or not len(X.columns):
            what = "feature(s)" if len(X) else "sample(s)"
            raise ValueError(f"Found array with 0 {what} while a minimum of 1 is required.")
        return X.set_axis(_names(X.columns), axis=1).reset_index(drop=True)
    array = validate_data(estimator, X, reset=reset, dtype=None)
    return pd.DataFrame(array, columns=_names(range(array.shape[1])))


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
