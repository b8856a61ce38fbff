"""The predictor: the engine below `pricekit.Model`, which prices rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd

from pricekit.errors import BundleError, ConfigError
from pricekit.features.preprocess import Inputs, Preprocessor, columns_read
from pricekit.insight.products import ROWS, Products, read_products
from pricekit.insight.sketch import SKETCH, Sketch, read_sketch, require_sketch
from pricekit.predict.bundle import Bundle, is_bundle, open_bundle
from pricekit.predict.engines import AUTO
from pricekit.predict.intervals import CERTAIN, INTERVALS, Intervals, Uncertainty, read_intervals
from pricekit.predict.members import (
    BundleReader,
    Member,
    Rows,
    read_bundle,
    table_of,
    weighted_mean,
)
from pricekit.predict.self_test import (
    SELF_TEST,
    SelfTest,
    SelfTestResult,
    read_self_test,
    require_self_test,
)
from pricekit.table import (
    Columns,
    Table,
)

if TYPE_CHECKING:
    from pricekit.insight.priced_rows import PricedRows


@dataclass(frozen=True, repr=False)
class Predictor:
    """Predicts prices with one model, or with several whose log prices are averaged.

    A predictor is immutable, and threads may share it. A pickled predictor contains the model's path, digest and
    engine; the other process loads the model from that path, and checks its digest.

    Attributes:
        members: the models, at least one; their weights sum to 1.
        digest: identifies the model by its contents.
        intervals: of the prices; None if they are unknown, as of a model that pricekit has not trained.
        currency: the currency of the prices; None if the training table did not show one.
        origin: None for a predictor that was not loaded from a folder.
        sketch: of the training table; None if it is unknown.
        products: reads the products with prices that the model contains; None if it contains none.
        invented: rows with the prices that they had at the export, for `self_test`; None for a model without them.

    Example:
        >>> import pricekit as pk
        >>> from pricekit.plugin import Predictor
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> Predictor.load("bundle", engine="ort-cpu").predict(["Item Name: Green Tea, 20 Count"]).dtype
        dtype('float32')
    """

    members: tuple[Member, ...]
    digest: str = ""
    intervals: Intervals | None = None
    currency: str | None = None
    origin: Origin | None = None
    sketch: Sketch | None = None
    products: Callable[[], Products] | None = None
    invented: SelfTest | None = None

    @classmethod
    def load(cls, path: str | Path, engine: str = AUTO) -> Predictor:
        """Open a bundle in an engine; `pricekit.load` also opens runs and ensembles.

        Args:
            path: the folder of the bundle, or its address such as "s3://bucket/bundle".
            engine: the name of the engine; "auto" is the fastest on this machine, measured the first time.

        Raises:
            BundleError: the bundle is damaged.
            PluginError: a feature or an engine is missing.
        """
        return cls.from_bundle(read_bundle(path), engine)

    @classmethod
    def from_bundle(cls, reader: BundleReader, engine: str = AUTO) -> Predictor:
        """Open a bundle that was read; raises PluginError, BundleError."""
        bundle, members = reader.bundle, reader.open_members(engine)
        columns = [len(member.preprocessor.features.names) for member in members]
        levels, described = bundle.files.get(INTERVALS), bundle.files.get(SKETCH)
        intervals = None if levels is None else read_intervals(levels, bundle.path, columns)
        names = {member.engine.name for member in members}
        origin = Origin(bundle.path.absolute(), names.pop() if len(names) == 1 else engine, _load_bundle)
        sketch = None if described is None else read_sketch(described, bundle.path)
        products = cache(partial(read_products, bundle.files, bundle.path)) if ROWS in bundle.files else None
        currency = bundle.manifest["currency"]
        kept = bundle.files.get(SELF_TEST)
        invented = None if kept is None else read_self_test(kept, reader.columns, bundle.path)
        return cls(members, bundle.digest, intervals, currency, origin, sketch, products, invented)

    @cached_property
    def columns(self) -> Columns:
        """The columns that the model reads, with those that only features read."""
        return columns_read([member.preprocessor for member in self.members])

    @property
    def vectors(self) -> dict[str, int]:
        """The columns of vectors, such as embeddings, that the model reads, and the length of the vectors in each."""
        features = [member.preprocessor.features for member in self.members]
        return {name: width for each in features for name, width in each.vectors.items()}

    @property
    def preprocessor(self) -> Preprocessor:
        """What turns rows into the inputs of the first member, which the sketch describes."""
        return self.members[0].preprocessor

    @property
    def feature_names(self) -> list[list[str]]:
        """The names of the feature columns of each member."""
        return [member.preprocessor.features.names for member in self.members]

    @property
    def engine(self) -> str:
        """The name of the engine; the distinct names if the members use several."""
        return ", ".join(dict.fromkeys(member.engine.name for member in self.members))

    @overload
    def predict(self, rows: Rows, interval: None = None, quantiles: None = None) -> np.ndarray: ...
    @overload
    def predict(
        self, rows: Rows, interval: float, quantiles: Iterable[float] | None = None
    ) -> pd.DataFrame: ...
    @overload
    def predict(
        self,
        rows: Rows,
        interval: float | None = None,
        quantiles: Iterable[float] | None = None,
        within: float | None = None,
        confidence: float | None = None,
    ) -> np.ndarray | pd.DataFrame: ...

    def predict(
        self,
        rows: Rows,
        interval: float | None = None,
        quantiles: Iterable[float] | None = None,
        within: float | None = None,
        confidence: float | None = None,
    ) -> np.ndarray | pd.DataFrame:
        """Return one price per row, in order.

        Args:
            rows: a table, or a pandas, Arrow, polars or similar frame with the columns of `columns`; or texts: a list,
                a pandas Series or a numpy array of strings. If the model reads several columns, a text has one line
                "column: cell" per column.
            interval: the share of true prices that the returned bounds contain, such as 0.9.
            quantiles: shares of true prices below the returned ones, ascending, such as [0.05, 0.5, 0.95].
            within: also return which prices may go out without a person: those whose true prices are between
                price / within and price · within with the `confidence`, such as 1.5.
            confidence: the share of these prices for which that shall hold; default: 0.95.

        Returns:
            Prices, float32 (N,), in the currency of the training table; with `interval`, `quantiles` or `within` a
            frame with the columns `price`, `price_low`, `price_high`, `price_0.05` and so on, float32, and `release`,
            bool, and the index of a pandas `rows`.

        Raises:
            ConfigError: the model has no intervals, or too few validation rows for that level, quantile or confidence.
            DataError: a column is missing, or a text has no line of the expected form.
        """
        uncertainty = Uncertainty.of(interval, quantiles, within, confidence)
        self.check_uncertainty(uncertainty)
        columns = self.price_columns(table_of(rows, self.columns), uncertainty)
        if not uncertainty:
            return columns["price"]
        index = rows.index if isinstance(rows, pd.DataFrame | pd.Series) else None
        return pd.DataFrame(columns, index=index)

    def embed(self, rows: Rows) -> np.ndarray:
        """Return the vector of each row's text, float32 (N, H); see `pricekit.Model.embed`."""
        embeddings = [(member.preprocessor, member.embedding) for member in self.members]
        if not any(embedding for _, embedding in embeddings):
            raise self._without_embeddings()
        table = table_of(rows, self.preprocessor.columns)
        parts = [each.vectors(reader.of_texts(table)) for reader, each in embeddings if each is not None]
        return np.hstack(parts)

    def _without_embeddings(self) -> BundleError | ConfigError:
        if self.engine == "torch":
            return ConfigError(
                "this model has no embeddings, because its backbone reads no text; train one with another backbone",
                parameters=("backbone",),
            )
        return BundleError(
            "this bundle has no embeddings: export its run again, with embeddings",
            parameters=("with_embeddings",),
        )

    def price_columns(self, table: Table, uncertainty: Uncertainty) -> dict[str, np.ndarray]:
        """Return `price`, and the columns that say how sure the prices are, by name, as of `Uncertainty.columns`.

        Raises:
            ConfigError: the model cannot say it.
        """
        if not len(table):
            return {"price": np.empty(0, np.float32), **uncertainty.of_no_rows()}
        inputs = self.prepare(table)
        price = self.price(inputs)
        if not uncertainty:
            return {"price": price}
        return {"price": price, **uncertainty.columns(self.require_intervals(), price, self.spread(inputs))}

    def own_products(self) -> Products | None:
        """Return the products with prices that the model contains, None if none; raises BundleError."""
        return None if self.products is None else self.products()

    def count(self, table: Table, inputs: list[Inputs], prices: np.ndarray) -> PricedRows:
        """Return the counts of priced rows, for `drift`; larger tables are sampled to 1,024 rows.

        Args:
            table: N rows, at least one.
            inputs: of the rows, as of `prepare`.
            prices: of the rows, float32 (N,), as of `price`.

        Raises:
            BundleError: the model has no sketch.
        """
        from pricekit.insight.priced_rows import count_priced

        sketch = require_sketch(self.sketch)
        return count_priced(sketch, self.preprocessor, table, inputs[0], prices)

    def self_test(self) -> SelfTestResult:
        """Price the invented rows of the bundle; see `pricekit.Model.self_test`."""
        where = "the model" if self.origin is None else self.origin.path
        test = require_self_test(self.invented)
        return test.check(self.columns, self.prices, self.engine, where)

    def spread(self, inputs: list[Inputs]) -> np.ndarray:
        """Return how far the log price of each row is expected to be from the true one, float32 (N,).

        It has a meaning only for the intervals of this model, and is 1 for each row without them.

        Args:
            inputs: as of `prepare`.
        """
        if self.intervals is None:
            return np.ones(len(inputs[0]), np.float32)
        weights = [member.weight for member in self.members]
        return self.intervals.spread([some.features for some in inputs], weights)

    def require_intervals(self) -> Intervals:
        """Return the price intervals; raises ConfigError if there are none."""
        if self.intervals is None:
            raise ConfigError(
                "this model has no price intervals, because pricekit has not trained it; leave the interval, the "
                "quantiles and the tolerance out",
                parameters=("interval", "quantiles", "within"),
            )
        return self.intervals

    def check_uncertainty(self, uncertainty: Uncertainty, *, once: bool = False) -> None:
        """Raise ConfigError unless the model can say it; log if no price may go out; as of `Uncertainty.check`."""
        if uncertainty:
            uncertainty.check(self.require_intervals(), once=once)

    def prepare(self, table: Table) -> list[Inputs]:
        """Return each member's inputs of a table's rows."""
        return [member.preprocessor(table) for member in self.members]

    def price(self, inputs: list[Inputs]) -> np.ndarray:
        """Return the weighted geometric mean of the members' prices, float32 (N,); inputs as of `prepare`."""
        prices = [member.prices(some) for member, some in zip(self.members, inputs, strict=True)]
        return weighted_mean(prices, [member.weight for member in self.members])

    def prices(self, table: Table) -> np.ndarray:
        """Return the price of each row, float32 (N,)."""
        return self.price_columns(table, CERTAIN)["price"]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle path, digest and engine; an open engine belongs to its process."""
        if self.origin is None:
            raise TypeError("a Predictor that was not loaded from a folder cannot be pickled")
        load, path, engine = self.origin.load, self.origin.path, self.origin.engine
        return reopen, (load, path, self.digest, engine)

    def __copy__(self) -> Predictor:
        """Return the predictor itself, which does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Predictor:
        """Return the predictor itself, which does not change."""
        return self

    def __repr__(self) -> str:
        """Return one line, such as Predictor('bundle', engine='ort-cpu'): members have thousands of characters."""
        where = [] if self.origin is None else [repr(self.origin.path.name)]
        return f"Predictor({', '.join([*where, f'engine={self.engine!r}'])})"


@dataclass(frozen=True)
class Origin:
    """Where a predictor was loaded from.

    Attributes:
        path: the absolute path of the model's folder.
        engine: the engine in which to load it again; None for a run, which uses torch.
        load: a picklable function of path and engine that loads the model again.
    """

    path: Path
    engine: str | None
    load: Callable[[Path, Any], Predictor]


@lru_cache(maxsize=1)  # a pool that sends a predictor with each task opens it once
def reopen(load: Callable[[Path, Any], Predictor], path: Path, digest: str, engine: str | None) -> Predictor:
    """Open a pickled predictor in this process; raises BundleError if the model has changed."""
    predictor = load(path, engine)
    if predictor.digest != digest:
        raise BundleError(
            f"the model {path} has changed since it was pickled; load and pickle the new model",
            path=path,
        )
    return predictor


def _load_bundle(path: Path, engine: str) -> Predictor:
    """Load a bundle. Unlike a class method, all picklers pickle a function by name."""
    return Predictor.load(path, engine)


@dataclass(frozen=True)
class Shipped:
    """Opens a bundle whose files it contains; the hashes were checked where they were read.

    Attributes:
        bundle: the files.
        digest: of the bundle.
        engine: the engine.
    """

    bundle: Bundle = field(repr=False)
    digest: str
    engine: str

    @classmethod
    def of(cls, predictor: Predictor) -> Shipped:
        """Return the bundle that a predictor was loaded from.

        Raises:
            ConfigError: it was not loaded from a bundle.
            BundleError: the bundle has changed since.
        """
        origin = predictor.origin
        if origin is None or origin.engine is None or not is_bundle(origin.path):
            raise ConfigError(
                "only a bundle can be sent to other machines; export the run, and predict with the bundle",
                parameters=("model",),
            )
        bundle = open_bundle(origin.path)
        if bundle.digest != predictor.digest:
            raise BundleError(
                f"the bundle {origin.path} has changed since it was loaded; load it again", path=origin.path
            )
        return cls(bundle, bundle.digest, origin.engine)

    def __call__(self) -> Predictor:
        """Return the predictor, which a process opens once; raises PluginError if it lacks a plugin or an engine."""
        key = self.digest, self.engine
        if key not in _shipped:
            _shipped.clear()
            _shipped[key] = Predictor.from_bundle(BundleReader.of(self.bundle), self.engine)
        return _shipped[key]


_shipped: dict[tuple[str, str], Predictor] = {}
"""The predictor that was opened last."""
