"""The predictor: prices of rows in memory, and of table files through `prediction/files.py`."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import pandas as pd

from pricekit.bundle import Bundle, is_bundle, open_bundle
from pricekit.engines.choose import AUTO
from pricekit.errors import BundleError, ConfigError, check_limit
from pricekit.insight.alarms import Limits, limits_of
from pricekit.insight.comparables import Comparables, K, check_request, find_comparables
from pricekit.insight.counts import ComparedRows, read_rows, rows_of
from pricekit.insight.drift import Drift, compare, compare_priced, require_sketch
from pricekit.insight.explanations import EVALUATIONS, Explanation, explain_rows
from pricekit.insight.priced_rows import PricedRows, count_priced, watch_file
from pricekit.insight.products import ROWS, Products, chosen_products, read_products
from pricekit.insight.sketch import SKETCH, Sketch, read_sketch
from pricekit.prediction import files, workers
from pricekit.prediction.intervals import BOUNDS, Intervals, read_intervals
from pricekit.prediction.members import (
    BundleReader,
    Member,
    Rows,
    read_bundle,
    table_of,
    weighted_mean,
)
from pricekit.prediction.self_test import (
    SELF_TEST,
    SelfTest,
    SelfTestResult,
    read_self_test,
    require_self_test,
)
from pricekit.preprocess import Inputs
from pricekit.storage import Location, location_of
from pricekit.table import (
    Columns,
    ReadOptions,
    Table,
    TableSource,
    is_frame,
)


@dataclass(frozen=True, repr=False)
class Predictor:
    """Predicts prices with one model, or with several whose log prices are averaged.

    A predictor is immutable, and threads may share it. A pickled predictor contains the model's path, digest and
    engine; the other process loads the model from that path, and checks its digest.

    Attributes:
        members: the models, at least one; their weights sum to 1.
        digest: identifies the model by its contents.
        intervals: of the prices; None for a predictor that was not loaded from a folder.
        currency: the currency of the prices; None if the training table did not show one.
        origin: None for a predictor that was not loaded from a folder.
        sketch: of the training table; None for a predictor that was not loaded from a folder.
        products: reads the products with prices that the model contains; None if it contains none.
        invented: rows with the prices that they had at the export, for `self_test`; None for a model without them.

    Example:
        >>> import pricekit as pk
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> model = pk.Predictor.load("bundle", engine="ort-cpu")
        >>> model.predict(["Item Name: Green Tea, 20 Count"]).dtype
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
        intervals = read_intervals(bundle.files["intervals.json"], bundle.path)
        names = {member.engine.name for member in members}
        origin = Origin(bundle.path.absolute(), names.pop() if len(names) == 1 else engine, _load_bundle)
        sketch = read_sketch(bundle.files[SKETCH], bundle.path)
        products = cache(partial(read_products, bundle.files, bundle.path)) if ROWS in bundle.files else None
        currency = bundle.manifest["currency"]
        kept = bundle.files.get(SELF_TEST)
        invented = None if kept is None else read_self_test(kept, reader.columns, bundle.path)
        return cls(members, bundle.digest, intervals, currency, origin, sketch, products, invented)

    @property
    def columns(self) -> Columns:
        """The columns that the model was trained with."""
        return self.members[0].preprocessor.columns

    @property
    def engine(self) -> str:
        """The name of the engine; the distinct names if the members use several."""
        return ", ".join(dict.fromkeys(member.engine.name for member in self.members))

    @overload
    def predict(self, rows: Rows, interval: None = None) -> np.ndarray: ...
    @overload
    def predict(self, rows: Rows, interval: float) -> pd.DataFrame: ...

    def predict(self, rows: Rows, interval: float | None = None) -> np.ndarray | pd.DataFrame:
        """Return one price per row, in order.

        Args:
            rows: a table, or a pandas, Arrow, polars or similar frame with the columns of `columns`; or texts: a list,
                a pandas Series or a numpy array of strings. If the model reads several columns, a text has one line
                "column: cell" per column.
            interval: the share of true prices that the returned bounds contain, such as 0.9.

        Returns:
            Prices, float32 (N,), in the currency of the training table; with `interval` a frame with the columns
            `price`, `price_low` and `price_high`, float32, and the index of a pandas `rows`.

        Raises:
            ConfigError: the model has no intervals, or none of that level.
            DataError: a column is missing, or a text has no line of the expected form.
        """
        if interval is not None:
            self.check_interval(interval)
        price = self._prices(table_of(rows, self.columns))
        if interval is None:
            return price
        bounds = dict(zip(BOUNDS, self.interval(price, interval), strict=True))
        index = rows.index if isinstance(rows, pd.DataFrame | pd.Series) else None
        return pd.DataFrame({"price": price, **bounds}, index=index)

    def explain(self, rows: Rows, *, evaluations: int = EVALUATIONS) -> list[Explanation]:
        """Return, for each row, the factors whose product is its price: of lines, phrases, words and columns.

        The row is priced without some of its parts, so the features see the change, too. This works for every model and
        engine; `pricekit.insight.explanations` has the formulas.

        Args:
            rows: as of `predict`.
            evaluations: the number of prices for each row, at least 2. More of them divide more phrases into words.
                A row with many lines needs more: two for each.

        Raises:
            ConfigError: fewer than two evaluations.
            DataError: as of `predict`.

        Example:
            >>> import pricekit as pk
            >>> model = pk.load(pk.train(pk.make_catalog(200), epochs=1))
            >>> found = model.explain(["Item Name: Green Tea, 20 Count (Pack of 6)"])[0]
            >>> [phrase.text for phrase in sorted(found.phrases(), key=lambda each: each.start)]
            ['Green Tea', '20 Count', 'Pack of 6']
        """
        if evaluations < 2:
            raise ConfigError(
                f"an explanation has {evaluations} evaluations; expected at least 2",
                parameters=("evaluations",),
            )
        table = replace(table_of(rows, self.columns), currency=self.currency)
        return explain_rows(table, self.columns, self._prices, evaluations)

    def comparables(
        self, rows: Rows, k: int = K, *, same: Sequence[str] = (), among: Rows | Products | None = None
    ) -> list[Comparables]:
        """Return, for each row, the products with known prices whose texts are most similar to it.

        Args:
            rows: as of `predict`. A product with the id and the text of a row is the row itself, and left out.
            k: the number of products, 1 to 1,000.
            same: what the products must have in common with the row: "brand", "unit", "size" (up to a factor of 1.25).
            among: the products: a table or a frame with prices; default: those that the bundle contains.

        Raises:
            BundleError: the bundle contains damaged products.
            ConfigError: `k` or `same` is invalid, or the model contains no products, as a run or most bundles.
            DataError: as of `predict`; or no row of `among` has a price.

        Example:
            >>> import pricekit as pk
            >>> table = pk.make_catalog(200)
            >>> model = pk.load(pk.train(table, epochs=1))
            >>> found = model.comparables(table.head(1), k=3, among=table)[0]
            >>> len(found.products), found.products[0].price > 0
            (3, True)
        """
        check_request(k, same)
        products = chosen_products(
            cast("TableSource | Products | None", among), self.own_products, self.columns, self.currency
        )
        table = table_of(rows, self.columns)
        return find_comparables(table, self._prices(table), products, k, same, self.currency)

    def own_products(self) -> Products | None:
        """Return the products with prices that the model contains, None if none; raises BundleError."""
        return None if self.products is None else self.products()

    def drift(self, rows: Rows | ComparedRows | PricedRows, *, fail_over: Limits = None) -> Drift:
        """Return how rows differ from those that the model was trained on.

        The training rows are not needed: the model holds a sketch of them. Of more than 10,000 rows, so many are drawn
        by chance, with a fixed seed.

        Args:
            rows: as of `predict`; a frame may lack columns, and may have the price column of the training table. Or
                what `read_priced_rows` returns for a file that `predict_file` has written with `watch`.
            fail_over: limits by measure, such as {"psi": 0.2}; `failures` of the result names those that are exceeded.

        Raises:
            BundleError: the model has no sketch.
            ConfigError: a limit names an unknown measure.
            DataError: there are no rows, or they cannot be read, or another model has priced them.

        Example:
            >>> import pricekit as pk
            >>> model = pk.load(pk.train(pk.make_catalog(400), epochs=1, features="fast15"))
            >>> found = model.drift(pk.make_catalog(400, seed=1))
            >>> found.rows, found.alarms
            (400, ())
        """
        limits = limits_of(fail_over)
        sketch = require_sketch(self.sketch)
        if isinstance(rows, PricedRows):
            return compare_priced(sketch, rows, limits)
        if is_frame(rows) and not isinstance(rows, Table):
            rows = read_rows(rows, self.columns, sketch.others)
        elif not isinstance(rows, ComparedRows):
            rows = rows_of(table_of(rows, self.columns))
        preprocessor = self.members[0].preprocessor
        return compare(sketch, rows, preprocessor, self.prepare, self.price, limits)

    def count(self, table: Table, inputs: list[Inputs], prices: np.ndarray) -> PricedRows:
        """Return the counts of priced rows, for `drift`: of 1,024 drawn by chance if there are more.

        Args:
            table: N rows, at least one.
            inputs: of the rows, as of `prepare`.
            prices: of the rows, float32 (N,), as of `price`.

        Raises:
            BundleError: the model has no sketch.
        """
        sketch = require_sketch(self.sketch)
        return count_priced(sketch, self.members[0].preprocessor, table, inputs[0], prices)

    def self_test(self) -> SelfTestResult:
        """Price the invented rows that the bundle contains, and compare with their prices at the export.

        Each row is priced alone and among the others. Run this in the process that will serve, as in a readiness check.

        Returns:
            Engine, number of rows, largest relative difference, and the tolerance.

        Raises:
            BundleError: a price differs by more than the tolerance; or the model has no self-test, as runs have
                none.
            PluginError: a feature or the engine fails.

        Example:
            >>> import pricekit as pk
            >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
            >>> found = pk.load("bundle", engine="ort-cpu").self_test()
            >>> found.engine, found.difference <= found.tolerance
            ('ort-cpu', True)
        """
        where = "the model" if self.origin is None else self.origin.path
        test = require_self_test(self.invented)
        return test.check(self.columns, self._prices, self.engine, where)

    def interval(self, price: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds around predicted prices, float32 (N,) each, that contain a share `level` of true prices.

        Raises:
            ConfigError: the model has no intervals, or none of that level.
        """
        return self.require_intervals().bounds(price, level)

    def require_intervals(self) -> Intervals:
        """Return the price intervals; raises ConfigError if there are none."""
        if self.intervals is None:
            raise ConfigError(
                "this model has no price intervals; load one from a run or a bundle, or leave the interval out",
                parameters=("interval",),
            )
        return self.intervals

    def check_interval(self, level: float) -> None:
        """Raise ConfigError unless the model has intervals of that level."""
        self.interval(np.ones(1, np.float32), level)

    def predict_file(
        self,
        table: str | Location,
        out: str | Location,
        *,
        text: str | Sequence[str] | None = None,
        id: str | None = None,  # noqa: A002
        encoding: str | None = None,
        delimiter: str | None = None,
        columns: Sequence[str] = (),
        limit: int | None = None,
        interval: float | None = None,
        resume: bool = False,
        processes: int | None = None,
        watch: str | Path | None = None,
    ) -> int:
        """Price a table file of any size in bounded memory; return the number of rows.

        The output has one row per row of the table, in order. It appears when it is complete. Until then, a hidden
        folder next to it contains the finished windows of rows, or a folder in the cache if it is remote.

        Args:
            table: a table file, a folder of Parquet files, or a pattern such as "new/*.csv"; locally or at an address
                such as "s3://bucket/new"; or "-" for standard input.
            out: the CSV, TSV, Parquet or JSON lines file to write, also at an address; or "-" for CSV on standard
                output, "-.jsonl" for JSON lines.
            text: the text columns, by default those of the training table.
            id: the id column, by default that of the training table, or row numbers.
            encoding: the encoding of a text file, by default detected.
            delimiter: the field separator, by default detected.
            columns: the names of all columns of a file without a header.
            limit: price only the first `limit` rows.
            interval: also write `price_low` and `price_high`, which contain this share of true prices.
            resume: continue an interrupted prediction into `out`.
            processes: the number of processes that price windows of rows, each with a copy of the model; default:
                several if they are faster than threads.
            watch: also add the rows to a sketch in this local file, which `drift` compares with the training table. It
                contains counts of rows and no row. If there are more rows, 1,024 of each 8,192 are drawn by chance.

        Raises: ConfigError if the model has no such intervals; DataError for the table or the output, or if `watch` is
            another file or has rows of another model; BundleError for `watch` if the model has no sketch.
        """
        check_limit(limit)
        workers.check_processes(self, processes)
        texts = (text,) if isinstance(text, str) else tuple(text or ())
        meant = replace(self.columns, price=None, text=texts or self.columns.text)
        if id is not None:
            meant = replace(meant, id=id, id_required=True)
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        return files.predict_file(
            self,
            location_of(table, "table"),
            location_of(out, "out"),
            meant,
            ReadOptions(encoding=encoding, delimiter=delimiter, names=names),
            limit=limit,
            interval=interval,
            resume=resume,
            processes=processes,
            watch=None if watch is None else watch_file(watch),
        )

    def prepare(self, table: Table) -> list[Inputs]:
        """Return each member's inputs of a table's rows."""
        return [member.preprocessor(table) for member in self.members]

    def price(self, inputs: list[Inputs]) -> np.ndarray:
        """Return the weighted geometric mean of the members' prices, float32 (N,); inputs as of `prepare`."""
        prices = [member.prices(some) for member, some in zip(self.members, inputs, strict=True)]
        return weighted_mean(prices, [member.weight for member in self.members])

    def _prices(self, table: Table) -> np.ndarray:
        return self.price(self.prepare(table)) if len(table) else np.empty(0, np.float32)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle path, digest, engine and sizes of batches; an open engine belongs to its process."""
        if self.origin is None:
            raise TypeError("a Predictor that was not loaded from a folder cannot be pickled")
        load, path, engine = self.origin.load, self.origin.path, self.origin.engine
        return reopen, (load, path, self.digest, engine, self.batch_tokens)

    @property
    def batch_tokens(self) -> tuple[int, ...]:
        """The maximum number of tokens per batch of each member, on which the last bits of prices depend."""
        return tuple(member.engine.batch_tokens for member in self.members)

    def with_batches(self, batch_tokens: tuple[int, ...]) -> Predictor:
        """Return the predictor with other sizes of batches, one for each member."""
        members = tuple(
            replace(member, engine=replace(member.engine, batch_tokens=tokens))
            for member, tokens in zip(self.members, batch_tokens, strict=True)
        )
        return replace(self, members=members)

    def __copy__(self) -> Predictor:
        """Return the predictor itself, which does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Predictor:
        """Return the predictor itself, which does not change."""
        return self

    def __repr__(self) -> str:
        """Return one line, such as Predictor('bundle', engine='ort-cpu', text=['title'], currency='USD')."""
        return f"Predictor({', '.join(self._facts('{!r}', '{}={!r}'))})"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook."""
        facts = " · ".join(html.escape(fact) for fact in self._facts("{}", "{}: {}"))
        return f"<div><b>Predictor</b> {facts}</div>"

    def _facts(self, plain: str, named: str) -> list[str]:
        facts: dict[str, object] = {"engine": self.engine, "text": list(self.columns.text)}
        if len(self.members) > 1:
            facts["members"] = len(self.members)
        if self.currency is not None:
            facts["currency"] = self.currency
        where = [] if self.origin is None else [plain.format(self.origin.path.name)]
        return where + [named.format(name, value) for name, value in facts.items()]


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
def reopen(
    load: Callable[[Path, Any], Predictor],
    path: Path,
    digest: str,
    engine: str | None,
    batch_tokens: tuple[int, ...],
) -> Predictor:
    """Open a pickled predictor in this process; raises BundleError if the model has changed.

    The batches have the same sizes, because the last bits of a price depend on its batch.
    """
    found = load(path, engine)
    if found.digest != digest:
        raise BundleError(
            f"the model {path} has changed since its predictor was pickled; load and pickle the new model",
            path=path,
        )
    return found.with_batches(batch_tokens)


def _load_bundle(path: Path, engine: str) -> Predictor:
    """Load a bundle. Unlike a class method, all picklers pickle a function by name."""
    return Predictor.load(path, engine)


_opened: dict[tuple[object, ...], Predictor] = {}
"""The last predictor of this process, by what it was opened from."""


@dataclass(frozen=True)
class Shipped:
    """Opens a bundle whose files it contains; the hashes were checked where they were read.

    Attributes:
        bundle: the files.
        engine: the engine.
        batch_tokens: the sizes of batches of each member, on which the last bits of prices depend.
    """

    bundle: Bundle = field(repr=False)
    engine: str
    batch_tokens: tuple[int, ...]

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
        return cls(bundle, origin.engine, predictor.batch_tokens)

    def __call__(self) -> Predictor:
        """Return the predictor, which a process opens once; raises PluginError if it lacks a plugin or an engine."""
        key = (self.bundle.digest, self.engine, self.batch_tokens)
        if key not in _opened:
            predictor = Predictor.from_bundle(BundleReader.of(self.bundle), self.engine).with_batches(
                self.batch_tokens
            )
            _opened.clear()
            _opened[key] = predictor
        return _opened[key]
