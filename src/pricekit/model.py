"""What users hold: a `Model`, and the results of a cross-validation and of a search. They delegate all work."""

from __future__ import annotations

import html
import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, Unpack, cast

from pricekit.errors import BundleError, ConfigError, ExportError, path_of
from pricekit.insight.alarms import limits_of
from pricekit.io.record import FACTS, check_intact, finished_record, kind_of, read_intact
from pricekit.io.staging import read_whole
from pricekit.io.storage import Location
from pricekit.options import (
    ComparablesOptions,
    DriftOptions,
    EvaluateOptions,
    ExplainOptions,
    ExportOptions,
    ImportanceOptions,
    Keys,
    PathLike,
    PredictOptions,
    ReadingOptions,
    ReportOptions,
    TableEvaluateOptions,
    TableImportanceOptions,
    clear_errors,
    model_path,
    names_of,
    path_or_frame,
    several,
    with_options,
)
from pricekit.runs.load import ModelReader, check_trained

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from pricekit.answers.importance import Importance
    from pricekit.config import RunConfig
    from pricekit.evaluation.scores import Scores
    from pricekit.export.verify import VerificationReport
    from pricekit.insight.comparables import Comparables
    from pricekit.insight.drift import Drift
    from pricekit.insight.explanations import Explanation
    from pricekit.predict.members import Rows
    from pricekit.predict.predictor import Predictor
    from pricekit.predict.self_test import SelfTestResult
    from pricekit.table import Columns, TableSource


class Model:
    """A trained model in a folder: a run, an ensemble or a bundle. It prices rows, and answers questions about them.

    `pricekit.train`, `pricekit.ensemble` and `pricekit.load` return one. It is opened when that is first needed, does
    not change, and may be shared by threads. A pickled model contains its path, digest and engine; the other process
    opens the model at that path, and checks its digest. Every function that takes the path of a model also takes this
    object.

    Args:
        path: the folder, or its address such as "s3://shop/bundle".
        engine: as for `pricekit.load`.
        trust: as for `pricekit.load`.

    Raises:
        BundleError: the folder contains no model, or no trusted key has signed the bundle.
        TrainingError: the run is not finished.
        ConfigError: an engine is given for a run, or a key cannot be used.

    Example:
        >>> import pricekit as pk
        >>> model = pk.train(pk.make_catalog(200), epochs=1)
        >>> sorted(model.metrics)
        ['mae', 'mdape', 'r2_log', 'rmsle', 'smape']
        >>> model.predict(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
        (1,)
    """

    __slots__ = ("__weakref__", "_facts", "_kind", "_owner", "_reader")

    def __init__(self, path: PathLike, engine: str | None = None, *, trust: Keys | None = None) -> None:
        from pricekit.predict.keys import read_trust

        keys = read_trust(trust)
        folder = model_path(path, "path", keys)
        if kind_of(folder, BundleError) != "bundle":
            check_trained(folder, engine, keys)
        self._set(ModelReader(folder, engine, keys))

    def _set(self, reader: ModelReader) -> None:
        self._reader = reader
        self._kind = kind_of(reader.path)
        if self._kind == "bundle":
            from pricekit.predict.bundle import read_manifest  # slow to import

            self._facts, reader.digest = read_whole(reader.path, partial(read_manifest, trust=reader.trust))
        else:
            self._facts = _read_facts(reader.path, "run", "ensemble")
        self._owner: object = None  # keeps the object alive that owns the temporary folder

    @property
    def path(self) -> Path:
        """The folder of the run, the ensemble or the bundle."""
        return self._reader.path

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics on the held-out rows by name: first that of the training, such as `smape` in percent.

        They are empty for a model that pricekit has not trained. After a refit, these are the metrics of the first
        pass, which was not trained on the held-out rows.
        """
        return dict(self._facts["metrics"])

    @property
    def held_out(self) -> pd.DataFrame:
        """The rows that a run or an ensemble, or before a refit its first pass, was not trained on, (N, 6 or more).

        Columns: `row`, `id`, `fold`, `text`, `price` and `predicted` (float64, in the table's currency), and columns
        of the table with few different values. A bundle has none.
        """
        from pricekit.evaluation.held_out import read_held_out

        return read_held_out(self.path).to_frame()

    @property
    def settings(self) -> RunConfig:
        """The configuration that a run, or an ensemble that was trained as one, has. A bundle has none."""
        from pricekit.config import read_saved_config

        names = [name for name in ("config.toml", "members.toml") if (self.path / name).is_file()]
        if not names:
            where = (
                "the run that it was exported from has them" if self._kind == "bundle" else "its members do"
            )
            raise ConfigError(f"the {self._kind} {self.path} has no settings; {where}", path=str(self.path))
        check_intact(self.path, names)
        return read_saved_config(self.path / names[0])

    @property
    def columns(self) -> Columns:
        """The columns of text, price and id that the model was trained with."""
        return self._reader.columns

    @property
    def currency(self) -> str | None:
        """The currency of the prices; None if the training table did not show one."""
        return cast("str | None", self._facts["currency"])

    @property
    def digest(self) -> str:
        """A hash that identifies the model by its contents."""
        return self._reader.open().digest

    @property
    def engine(self) -> str:
        """The name of the engine that prices rows, such as `ort-cpu`; `torch` for a run or an ensemble."""
        return self._reader.open().engine

    @property
    def members(self) -> list[dict[str, Any]]:
        """Facts about the members of an ensemble, such as `weight` and `metrics`; empty for a single model."""
        if self._kind == "bundle":
            return list(self._facts.get("members") or [])
        if self._kind == "ensemble":
            return list(read_intact(self.path, "ensemble.json")["members"])
        return []

    def predict(
        self,
        rows: Rows,
        interval: float | None = None,
        quantiles: Sequence[float] | None = None,
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
            ConfigError: the model was calibrated on too few rows for that interval, a quantile or the confidence.
            DataError: a column is missing, or a text has no line of the expected form.
        """
        return self._reader.open().predict(rows, interval, quantiles, within, confidence)

    @clear_errors()
    def embed(self, rows: Rows) -> np.ndarray:
        """Return the vector of each row, in order: what the network makes of its text, before the features.

        It was trained on prices, so texts of similar products are near each other. Another model that learns the prices
        of the training rows must not read it, because it has seen them: `pricekit.PriceFeatures` avoids that.

        Args:
            rows: as of `predict`; a frame needs the text columns only.

        Returns:
            Vectors, float32 (N, H), computed once for equal texts. H depends on the backbone: 128 for the default. The
            vectors of the members of an ensemble stand side by side. A bundle computes them in ONNX Runtime on the CPU,
            whatever its engine. As a price does, the vector of a row alone differs from that in a batch by rounding
            only.

        Raises:
            BundleError: the bundle was exported without embeddings, or the model cannot be opened.
            ConfigError: the backbone of the model reads no text.
            DataError: a column is missing, or a text has no line of the expected form.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(200), epochs=1, features="fast15", refit=False)
            >>> model.embed(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
            (1, 128)
        """
        return self._reader.open().embed(rows)

    @with_options(PredictOptions)
    def predict_file(
        self,
        table: PathLike,
        out: PathLike,
        **options: Unpack[PredictOptions],
    ) -> int:
        """Price every row of table files in bounded memory, and write the prices into one file or one for each.

        A file has one row per input row, in the same order, and appears when it is complete. A prediction that is
        interrupted adds nothing to the sketch of `watch`, and one that is resumed adds each row once.

        Args:
            table: a file, a folder of Parquet files, or a pattern such as "new/*.csv", each also at an address such as
                "s3://shop/new"; or "-" for standard input.
            out: the file to write: CSV, TSV, Parquet or JSON lines, also at an address, and compressed if its name ends
                like "prices.csv.gz", or with .bz2, .xz, .zst or .zip; "-" is CSV on standard output, "-.jsonl" JSON
                lines. Or a folder: then each file of `table` gets a file of the same name there, also in subfolders,
                with ".csv" after formats that are only read, such as "new.xlsx.csv". A file that fails does not stop
                the others.
            **options: see below.

        Returns:
            The number of rows.

        Raises:
            DataError: the table cannot be read, or `out` cannot be written; in a folder, after all other files are
                priced.
            BundleError, PluginError: the model cannot be opened.
            ConfigError: the model was calibrated on too few rows for the interval, a quantile or the confidence, or
                options do not go together.

        Example:
            >>> import pricekit as pk, tempfile
            >>> folder = tempfile.mkdtemp()
            >>> pk.make_catalog(300).to_csv(f"{folder}/products.csv", index=False)
            >>> model = pk.train(f"{folder}/products.csv", epochs=1)
            >>> model.predict_file(f"{folder}/products.csv", f"{folder}/prices.csv")
            300
        """
        from pricekit.answers.predict import predict_table

        return predict_table(self._reader, table, out, options)

    @with_options(TableEvaluateOptions)
    def evaluate(
        self,
        table: TableSource | None = None,
        **options: Unpack[TableEvaluateOptions],
    ) -> Scores:
        """Score the model on the rows of a table that have a price, or on its held-out rows.

        Scores on rows that the model was trained on are too optimistic.

        Args:
            table: a file or a frame; default: the held-out rows of the model. A bundle has none.
            **options: see below.

        Returns:
            That metric with its 95% bootstrap interval, other metrics, the metric by group, and the worst rows.

        Raises:
            DataError: the table cannot be used, or has no column `by`; or the model has no held-out rows.
            ConfigError: `worst` is no number of rows, or is needed for `among`.
            BundleError, PluginError: the model cannot be opened.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(200), epochs=1)
            >>> model.evaluate().rows, model.evaluate(pk.make_catalog(50, seed=1)).rows
            (30, 50)
            >>> len(model.evaluate(worst=3).worst)
            3
        """
        return _evaluate(self._reader, table, options)

    @with_options(ExplainOptions)
    def explain(
        self,
        table: TableSource | Rows,
        **options: Unpack[ExplainOptions],
    ) -> list[Explanation]:
        """Decompose prices into factors: of lines, phrases, words and columns.

        Each row is priced without some of its parts, so the features see the change, too. This works for every kind of
        model and every engine; `pricekit.insight.explanations` has the formulas.

        Args:
            table: a file, a frame, or texts as of `predict`, which options for reading do not describe; it needs no
                prices.
            **options: see below.

        Returns:
            One explanation per row: its price is `base` times all its factors.

        Raises:
            DataError: the table cannot be read, or has no row with one of the ids.
            ConfigError: fewer than two evaluations.
            BundleError, PluginError: the model cannot be opened.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(200), epochs=1)
            >>> explanation = model.explain(["Item Name: Green Tea, 20 Count (Pack of 6)"])[0]
            >>> [phrase.text for phrase in sorted(explanation.phrases(), key=lambda each: each.start)]
            ['Green Tea', '20 Count', 'Pack of 6']
        """
        from pricekit.answers.insight import explain_prices, rows_of_user

        rows = rows_of_user(self._reader, table, options, options["row"])
        return explain_prices(self._reader.open(), rows, options["evaluations"])

    @with_options(ComparablesOptions)
    def comparables(
        self,
        table: TableSource | Rows,
        **options: Unpack[ComparablesOptions],
    ) -> list[Comparables]:
        """Find the products with known prices whose texts are most similar to those of rows.

        A product with the id and the text of a row is the row itself, and left out.

        Args:
            table: a file, a frame, or texts as of `predict`, which options for reading do not describe; it needs no
                prices.
            **options: see below.

        Returns:
            One result per row, with its nearest products, the most similar first.

        Raises:
            DataError: a table cannot be read, or has no row with one of the ids, or `among` has no price.
            ConfigError: `k` or `same` is invalid; or the model contains no products.
            BundleError, PluginError: the model cannot be opened, or its products are damaged.

        Example:
            >>> import pricekit as pk
            >>> table = pk.make_catalog(200)
            >>> comparables = pk.train(table, epochs=1).comparables(table, among=table, k=3, limit=2)
            >>> [len(each.products) for each in comparables]
            [3, 3]
        """
        from pricekit.answers.insight import comparables_of, rows_of_user
        from pricekit.insight.comparables import check_request

        properties, k = names_of(options["same"], "same"), options["k"]
        check_request(k, properties)
        rows = rows_of_user(self._reader, table, options, options["row"])
        products = path_or_frame(options["among"])
        return comparables_of(self._reader.open(), rows, k, same=properties, among=products)

    @with_options(TableImportanceOptions)
    def importance(
        self,
        table: TableSource | None = None,
        **options: Unpack[TableImportanceOptions],
    ) -> Importance:
        """Measure what the prices for a whole table depend on: features, lines or columns, and words.

        The importance of a feature or a line is the increase of the metric when its values change rows at random. It
        says what this model uses, not what causes a price. The effects of words are means over explanations.

        Args:
            table: a file or a frame with prices; default: the held-out rows of the model. Larger tables are sampled to
                2,000 rows, with a fixed seed.
            **options: see below.

        Returns:
            The frames `features`, `lines` and `words`, each sorted, the largest first.

        Raises:
            ConfigError: the metric is unknown, there are fewer than one repeats, or options are given without a table.
            DataError: the table cannot be used, it has fewer than two rows with prices, or the model has no held-out
                rows.
            BundleError, PluginError: the model cannot be opened.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(200), epochs=1, features="fast15", refit=False)
            >>> importance = model.importance(repeats=1)
            >>> importance.rows, list(importance.features)
            (30, ['feature', 'increase', 'low', 'high'])
        """
        return _importance(self._reader, table, options)

    @with_options(DriftOptions)
    def drift(
        self,
        table: TableSource | Rows,
        **options: Unpack[DriftOptions],
    ) -> Drift:
        """Measure how the rows of a table differ from those that the model was trained on.

        The training rows are not needed: the model holds a sketch of them.

        Args:
            table: a file, a folder of Parquet files, a pattern such as "new/*.csv", a frame, or texts as of `predict`.
                Missing columns are reported. Larger tables are sampled to 10,000 rows, with a fixed seed and in bounded
                memory. If it has known prices, SMAPE is measured, too. Or a sketch of priced rows, which `predict_file`
                has written with `watch`, or a server. Options for reading describe neither texts nor a sketch.
            **options: see below.

        Returns:
            Alarms, measures, and frames of features, values, words, missing fields and rows.

        Raises:
            ConfigError: a limit names an unknown measure, or jinja2 or matplotlib is not installed for `out`; or
                options are given for a sketch.
            DataError: the table has no rows, or cannot be read; or another model priced the rows of the sketch.
            BundleError, PluginError: the model cannot be opened, or has no sketch.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(400), epochs=1, features="fast15")
            >>> model.drift(pk.make_catalog(400, seed=1)).verdict
            'No drift: the table resembles the training table.'
        """
        from pricekit.answers.insight import measure_drift
        from pricekit.report.page import page_at, write_page

        limits, out = limits_of(options["fail_over"]), options["out"]
        page = None if out is None else page_at(out)
        drift = measure_drift(self._reader, table, options, limits)
        if page is not None:
            from pricekit.report.drift_page import drift_sections

            write_page(page, f"Drift of {self.path.name}", drift_sections(drift))
        return drift

    @with_options(ReportOptions)
    def report(
        self,
        table: TableSource | None = None,
        **options: Unpack[ReportOptions],
    ) -> Location:
        """Write a report on the model: one HTML file that needs no network.

        It shows how good the prices are, where they fail, with the words that made the worst of them, whether the price
        intervals hold, the data, and how to train the model again.

        Args:
            table: a file or a frame; default: the held-out rows of the model. If it is the table of the training, the
                held-out rows are judged, and the report describes the table. A table without prices has a shorter
                report, which says so.
            **options: see below.

        Returns:
            The path or the address of the file.

        Raises:
            ConfigError: matplotlib or jinja2 is not installed.
            DataError: the table cannot be used, the model has no held-out rows, or `out` cannot be written.
            BundleError, PluginError: the model cannot be opened.

        Example:
            >>> import pricekit as pk, tempfile
            >>> model = pk.train(pk.make_catalog(200), epochs=1)
            >>> model.report(out=f"{tempfile.mkdtemp()}/report.html").name
            'report.html'
        """
        return _report(self._reader, table, options)

    @with_options(ExportOptions)
    def export(self, out: PathLike, **options: Unpack[ExportOptions]) -> VerificationReport:
        """Export a run or an ensemble into a bundle, which predicts with ONNX Runtime, without torch.

        The export compares the graph with the model on real rows first. If they differ, it writes no bundle.

        Args:
            out: the folder of the bundle.
            **options: see below.

        Raises:
            ExportError: the model is a bundle already, `out` is not empty, the model cannot be exported, or its graph
                differs from it.
            TrainingError: the run is damaged.
            DataError: the table of comparables cannot be used.
            ConfigError: the key cannot be used.

        Example:
            >>> import pricekit as pk, tempfile
            >>> report = pk.train(pk.make_catalog(200), epochs=1).export(tempfile.mkdtemp())
            >>> report.smape_change < 0.01
            True
        """
        from pricekit.predict.keys import read_signing_key

        bundle = path_of(out, "out")
        if self._kind == "bundle":
            raise ExportError(
                f"{self.path} is a bundle already; export the run or the ensemble that it was made from",
                parameters=("run",),
            )
        from pricekit.export.export import export_run
        from pricekit.export.triton import adding_to_repository, interface_of

        products = path_or_frame(options["with_comparables"])
        key = None if options["sign"] is None else read_signing_key(options["sign"], "sign")
        with adding_to_repository(options["triton"], bundle, partial(interface_of, self.path)):
            return export_run(
                self.path,
                bundle,
                precision=options["precision"],
                overwrite=options["overwrite"],
                comparables=products,
                embeddings=options["with_embeddings"],
                key=key,
            )

    @clear_errors()
    def self_test(self) -> SelfTestResult:
        """Price the invented rows that a bundle contains, and compare with their prices at the export.

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
            >>> test = pk.load("bundle", engine="ort-cpu").self_test()
            >>> test.engine, test.difference <= test.tolerance
            ('ort-cpu', True)
        """
        return self._reader.open().self_test()

    @with_options(ReadingOptions)
    def features(self, table: TableSource | Rows, **options: Unpack[ReadingOptions]) -> pd.DataFrame:
        """Return the engineered features of rows, as the model reads them in addition to their texts.

        Args:
            table: a file, a frame, or texts as of `predict`, which options for reading do not describe; it needs no
                prices.
            **options: see below.

        Returns:
            The ids, then one float32 column for each feature, (N, 1 + K). The names of those of an ensemble begin with
            the number of the member, such as "0:value".

        Raises:
            DataError: the table cannot be read.
            BundleError, PluginError: the model cannot be opened.

        Example:
            >>> import pricekit as pk
            >>> model = pk.train(pk.make_catalog(200), epochs=1, features="fast15")
            >>> model.features(pk.make_catalog(100)).shape
            (100, 16)
        """
        from pricekit.answers.insight import compute_features

        return compute_features(self._reader, table, options)

    def __fspath__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle path, digest, engine and sizes of batches; an open engine belongs to its process."""
        return opened_model, (self._reader.open(),)

    def __copy__(self) -> Model:
        """Return the model itself, which does not change."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        """Return the model itself, which does not change."""
        return self

    def __repr__(self) -> str:
        engine = f", engine={self.engine!r}" if self._reader.is_open else ""
        return f"Model('{self.path}', {self._kind}, {_score(self._facts)}{engine})"

    def _repr_html_(self) -> str:
        return _html_table(repr(self), self.metrics)


def opened_model(predictor: Predictor) -> Model:
    """Return the model of a predictor that was opened from a folder."""
    model = object.__new__(Model)
    model._set(ModelReader.of(predictor))
    return model


class _Finished:
    """A finished folder of a kind, with what it says about itself."""

    _kind: ClassVar[str]

    def __init__(self, path: PathLike) -> None:
        self.path = model_path(path, "path")
        self._facts = _read_facts(self.path, self._kind)

    def __fspath__(self) -> str:
        return str(self.path)


class CrossValidation(_Finished):
    """A cross-validation in a folder: one run per fold of a table.

    `pricekit.cross_validate` and `pricekit.load` return it.

    Args:
        path: the folder of a finished cross-validation.

    Attributes:
        path: the folder.

    Raises:
        TrainingError: the folder contains no finished cross-validation.

    Example:
        >>> import pricekit as pk
        >>> cv = pk.cross_validate(pk.make_catalog(200), folds=2, epochs=1)
        >>> len(cv.runs), len(cv.held_out)
        (2, 200)
    """

    _kind = "cross-validation"

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics over all rows, each predicted by the run of the fold that held it out."""
        return {name: value for name, value in self._facts["scores"].items() if isinstance(value, float)}

    @property
    def held_out(self) -> pd.DataFrame:
        """All rows with their predictions, (N, 6 or more); the columns of `Model.held_out`."""
        from pricekit.evaluation.held_out import read_held_out

        return read_held_out(self.path).to_frame()

    @property
    def runs(self) -> list[Model]:
        """The model of each fold."""
        return [_inner(self, f"fold-{fold['fold']}") for fold in self._facts["folds"]]

    @property
    def scores(self) -> Scores:
        """The scores of all rows, by group and with their spread over the folds; those of `evaluate`."""
        return self.evaluate()

    @with_options(EvaluateOptions)
    def evaluate(self, **options: Unpack[EvaluateOptions]) -> Scores:
        """Score all rows, each predicted by the run that had not seen it.

        Args:
            **options: see below.

        Returns:
            As of `Model.evaluate`, with the spread over the folds.
        """
        return _evaluate(ModelReader(self.path), None, options)

    @with_options(ImportanceOptions)
    def importance(self, **options: Unpack[ImportanceOptions]) -> Importance:
        """Measure what the prices of all rows depend on.

        Args:
            **options: see below.

        Returns:
            As of `Model.importance`.
        """
        return _importance(ModelReader(self.path), None, options)

    @with_options(ReportOptions)
    def report(
        self,
        table: TableSource | None = None,
        **options: Unpack[ReportOptions],
    ) -> Location:
        """Write a report on all rows: one HTML file that needs no network; see `Model.report`.

        Args:
            table: the table of the training, to describe it.
            **options: see below.

        Returns:
            The path or the address of the file.
        """
        return _report(ModelReader(self.path), table, options)

    def __repr__(self) -> str:
        return f"CrossValidation('{self.path}', folds={len(self._facts['folds'])}, {_score(self._facts)})"

    def _repr_html_(self) -> str:
        return _html_table(repr(self), self.metrics)


class Tuning(_Finished):
    """A search for better settings, in a folder. `pricekit.tune` and `pricekit.load` return it.

    Args:
        path: the folder of a finished search.

    Attributes:
        path: the folder.

    Raises:
        TrainingError: the folder contains no finished search.

    Example:
        >>> import pricekit as pk
        >>> tuning = pk.tune(pk.make_catalog(200), trials=2, folds=2, epochs=1, features="fast15")
        >>> tuning.verdict in ("better", "cannot tell", "worse")
        True
    """

    _kind = "search"

    @property
    def config(self) -> RunConfig:
        """The chosen configuration."""
        from pricekit.config import read_saved_config

        check_intact(self.path, ["config.toml"])
        return read_saved_config(self.path / "config.toml")

    @property
    def settings(self) -> pd.DataFrame:
        """The searched settings by name: default, tuned, importance (float, or NaN); the most important first."""
        import pandas as pd

        settings = pd.DataFrame.from_dict(
            self._facts["settings"], orient="index", columns=["default", "tuned"]
        )
        importance = self.importance.set_index("setting")["importance"]
        settings["importance"] = importance.reindex(settings.index).astype(float)
        return settings.rename_axis("setting").sort_values("importance", ascending=False, kind="stable")

    @property
    def importance(self) -> pd.DataFrame:
        """How much each setting mattered: setting, importance; empty with fewer than two finished trials."""
        return self._read_csv("importance.csv")

    @property
    def trials(self) -> pd.DataFrame:
        """Every trial: trial, state, score (the mean over the folds), seconds, error, and its settings by name."""
        return self._read_csv("trials.csv")

    @property
    def model(self) -> Model:
        """The model with the chosen settings, trained on all rows that trials saw."""
        return _inner(self, "run")

    @property
    def scores(self) -> dict[str, float]:
        """The metric on the rows that no trial saw, of both models: `tuned` and `default`."""
        return {name: float(self._facts["on_final_rows"][name]) for name in ("tuned", "default")}

    @property
    def verdict(self) -> str:
        """Whether the chosen model is "better" or "worse" on these rows beyond chance, or "cannot tell"."""
        return str(self._facts["on_final_rows"]["verdict"])

    def _read_csv(self, name: str) -> pd.DataFrame:
        import pandas as pd

        check_intact(self.path, [name])
        return pd.read_csv(self.path / name)

    def __repr__(self) -> str:
        final, name = self._facts["on_final_rows"], self._facts["metric"]
        return f"Tuning('{self.path}', {name}={final['tuned']:.4g}, default={final['default']:.4g})"

    def _repr_html_(self) -> str:
        return str(self.settings.to_html(float_format="{:.3g}".format, na_rep="", border=0))


Trained = TypeVar("Trained", Model, CrossValidation, Tuning)


def load_folder(path: PathLike, engine: str | None, trust: Keys | None) -> Model | CrossValidation | Tuning:
    """Return what is in a folder; see `pricekit.load`."""
    from pricekit.predict.keys import read_trust

    plain = engine is None and trust is None
    if isinstance(path, Model | CrossValidation | Tuning) and plain:
        return path
    folder = model_path(path, "path", read_trust(trust))
    kind = kind_of(folder, BundleError)
    if plain and kind == "cross-validation":
        return CrossValidation(folder)
    if plain and kind == "search":
        return Tuning(folder)
    model = Model(folder, engine, trust=trust)
    model._owner = path
    return model


def owning(trained: Trained, out: PathLike | None) -> Trained:
    """Return the object; without `out`, its temporary folder is deleted when it is collected or its process ends."""
    owner, folder = os.getpid(), trained.path

    def delete() -> None:
        if os.getpid() == owner:  # a forked child also has the object
            shutil.rmtree(folder, ignore_errors=True)

    if out is None:
        weakref.finalize(trained, delete)
    return trained


def trained_path(value: object, parameter: str) -> Path:
    """Return the folder of a model or a cross-validation; that of a search is its model's. Raises ConfigError."""
    folder = model_path(value, parameter)
    return folder / "run" if kind_of(folder) == "search" else folder


def _inner(whole: CrossValidation | Tuning, name: str) -> Model:
    """Return a model inside a folder, which keeps the folder alive if it is temporary."""
    model = Model(whole.path / name)
    model._owner = whole
    return model


def _evaluate(reader: ModelReader, table: Any, options: EvaluateOptions) -> Scores:
    from pricekit.answers.evaluate import evaluate_model

    return evaluate_model(reader, table, options)


def _importance(reader: ModelReader, table: Any, options: ImportanceOptions) -> Importance:
    from pricekit.answers.importance import measure_importance

    return measure_importance(reader, path_or_frame(table), options)


def _report(reader: ModelReader, table: Any, options: ReportOptions) -> Location:
    from pricekit.report.page import page_at, write_page

    page = page_at(options["out"])
    from pricekit.report.sections import sections_for

    models = [trained_path(other, "against") for other in several(options["against"])]
    sections = sections_for(reader, path_or_frame(table), options, models)
    write_page(page, f"Report on {reader.path.name}", sections)
    return page


def _read_facts(folder: Path, *kinds: str) -> dict[str, Any]:
    """Return what a finished folder of one of these kinds says about itself; raises TrainingError."""
    return read_intact(folder, FACTS[finished_record(folder, *kinds).kind])


def _score(facts: Mapping[str, Any]) -> str:
    from pricekit.evaluation.scores import goal_of

    if facts["metric"] is None:
        return "accuracy unknown"
    goal = goal_of(facts)
    return f"{goal.metric.name}={goal.metric.write(goal.score)}"


def _html_table(title: str, values: Mapping[str, float]) -> str:
    cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{v:,.2f}</td></tr>" for k, v in values.items())
    return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"
