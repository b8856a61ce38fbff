"""Exporting a run, or an ensemble of runs, into a published bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from pricekit import __version__
from pricekit.core.calls import notify, tracked_by
from pricekit.core.contracts import Batch, PriceBatch
from pricekit.errors import BundleError, ExportError, PluginError
from pricekit.export.card import CARD, comparables_section, ensemble_card, model_card
from pricekit.export.graph import OPSET, export_graph
from pricekit.export.inventory import INVENTORY, Weights, make_inventory, weights_of
from pricekit.export.precision import convert
from pricekit.export.priced_once import PricedOnce, RowPrices
from pricekit.export.tensors import in_file, read_graph, token_count
from pricekit.export.verify import (
    Sample,
    VerificationReport,
    fit_length,
    sample_batches,
    shapes,
    verify_embeddings,
    verify_graph,
)
from pricekit.features.assets import is_asset
from pricekit.features.preprocess import Preprocessor
from pricekit.features.repeated import check_in_new_process
from pricekit.insight.products import files_of, some_rows
from pricekit.insight.sketch import SKETCH
from pricekit.io.files import RECORD, temporary_folder
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.mapped import release_heap
from pricekit.io.progress import progress, tracked
from pricekit.io.record import check_apart, check_output, kind_of, record_of
from pricekit.nets.inference import torch_embedding, torch_engine
from pricekit.nets.network import PriceModel
from pricekit.predict.bundle import MOST_MEMBERS, PARTS, Bundle, write_bundle
from pricekit.predict.intervals import INTERVALS
from pricekit.predict.keys import SigningKey
from pricekit.predict.limits import check_members
from pricekit.predict.self_test import SELF_TEST, Content, make_self_test
from pricekit.runs.opened import Ensemble, LoadedRun, open_ensemble, open_run, read_sample
from pricekit.table import Columns, Table, TableSource, read_usable
from pricekit.table.currency import require_same_currency
from pricekit.table.vectors import has_vector, holds_lists, read_vectors


@dataclass(frozen=True)
class ExportedModel:
    """One exported and verified model.

    Attributes:
        files: contents by name, as in a bundle of one model.
        float32_nodes: names of the graph's nodes that stay in float32.
        report: of the verification.
    """

    files: dict[str, bytes]
    float32_nodes: list[str]
    report: VerificationReport


def export_run(
    path: Path,
    out: Path,
    *,
    precision: str = "fp32",
    overwrite: bool = False,
    comparables: TableSource | None = None,
    embeddings: bool = False,
    key: SigningKey | None = None,
) -> VerificationReport:
    """Export a run's best weights, or all members of an ensemble, into one bundle.

    Args:
        path: the run or the ensemble.
        out: the folder of the bundle.
        precision: of the graphs: fp32, fp16 or int8.
        overwrite: replace what pricekit has written in `out`.
        comparables: a table of products with prices that the bundle shall contain; see `pricekit.comparables`.
        embeddings: the graphs also return the vectors of texts; see `pricekit.Model.embed`.
        key: signs the bundle; None: nobody does.

    Returns:
        The verification report; for an ensemble, the shapes of all members and the largest of each difference.

    Raises:
        ExportError: `out` exists or is being written, a model cannot be exported, or its graph differs from it. In this
            case nothing is published, and an existing bundle is kept.
        TrainingError: `path` is not a finished run.
        DataError: the table of comparables cannot be used.
    """
    with owned(out, "bundle", ExportError):
        check_apart(out, [path], ExportError)
        check_output(out, "bundle", "overwrite" if overwrite else "new", ExportError)
        opened = open_ensemble(path) if kind_of(path) == "ensemble" else open_run(path)
        runs = [run for run, _ in opened.members] if isinstance(opened, Ensemble) else [opened]
        if embeddings and not any(run.embedding_width for run in runs):
            raise ExportError(
                "the model has no embeddings, because its backbone reads no text; export it without them",
                parameters=("with_embeddings",),
            )
        columns, currency = runs[0].preprocessor.columns, opened.facts["currency"]
        products = read_products(comparables, columns, currency, training=runs[0].path)
        check_in_new_process([(run.preprocessor.features, read_sample(run)) for run in runs])
        if isinstance(opened, Ensemble):
            report, files, facts = _export_members(opened, runs, precision, embeddings=embeddings)
            card = ensemble_card(opened, facts)
        else:
            exported = _export_member(opened, precision, embeddings=embeddings)
            report, files = exported.report, exported.files
            facts = _facts(precision, opened.facts, runs, exported.float32_nodes, report)
            card = model_card(opened, facts)
        if embeddings:
            facts |= {"embedding_width": sum(run.embedding_width or 0 for run in runs)}
        texts = {CARD: card, INTERVALS: opened.intervals.to_text(), SKETCH: opened.sketch.to_text()}
        files |= {name: text.encode() for name, text in texts.items()}
        manifest = publish(
            out, files, facts, weights_of(runs), others=_other_columns(runs), products=products, key=key
        )
        with tracked_by(runs[0].config.track):
            notify("bundle_exported", folder=path, bundle=out, manifest=manifest)
        return report


def publish(
    out: Path,
    files: dict[str, bytes],
    facts: dict[str, Any],
    weights: Sequence[Weights],
    *,
    others: Mapping[str, Content] = MappingProxyType({}),
    products: Table | None = None,
    key: SigningKey | None = None,
) -> dict[str, Any]:
    """Add self-test, products and inventory to the files of a bundle, and write it; return its manifest.

    Args:
        out: the folder of the bundle.
        files: graphs, preprocessors, model card and what else the bundle has, by name.
        facts: the values of its manifest.
        weights: as of `make_inventory`.
        others: columns besides the text that features read, and what they contain.
        products: with prices, that the bundle shall contain.
        key: signs the bundle; None: nobody does.

    Raises:
        ExportError: the graph cannot price invented rows, or no bundle can hold the model.
    """
    files = files | _self_test(Bundle(out, facts, files, ""), others)
    if products is not None:
        members = {name: content for name, content in files.items() if name.endswith(PARTS["preprocess"])}
        files |= files_of(products, members)
        facts = facts | {"comparables": len(products)}
        files[CARD] += comparables_section(len(products)).encode()
    files |= {INVENTORY: make_inventory({RECORD: record_of("bundle"), **files}, facts, weights)}
    with _within_limits():
        return write_bundle(out, files, facts, key=key)


def read_products(
    source: TableSource | None, columns: Columns, currency: str | None, *, training: Path | None = None
) -> Table | None:
    """Read the table of comparables, before the export begins its long work; None without one.

    Args:
        source: the table.
        columns: of the model.
        currency: of its prices.
        training: the folder of a run, whose training table may be this one.

    Raises:
        DataError: the table cannot be used, or has another currency.
    """
    if source is None:
        return None
    table = read_usable(source, columns)[0]
    require_same_currency(currency, table.price_style.currency)
    return some_rows(table if training is None else _in_training_order(table, training))


def _in_training_order(table: Table, run: Path) -> Table:
    """Return the training table in the order of a second pass, so that it shares the index of `neighbours`."""
    split = pd.read_parquet(run / "split.parquet").sort_values("part", ascending=False, kind="stable")
    places = pd.Series(np.arange(len(table)), index=table.ids.astype("str"))
    if len(split) != len(table) or not split["id"].isin(places.index).all():
        return table
    return table.take(places.loc[split["id"]].to_numpy())


def _export_members(
    ensemble: Ensemble, runs: Sequence[LoadedRun], precision: str, *, embeddings: bool
) -> tuple[VerificationReport, dict[str, bytes], dict[str, Any]]:
    """Export each member; its number precedes the names of its files."""
    if len(ensemble.members) > MOST_MEMBERS:
        raise ExportError(
            f"the ensemble has {len(ensemble.members)} members; a bundle holds {MOST_MEMBERS} at most; make a "
            "smaller one"
        )
    files: dict[str, bytes] = {}
    members, models, reports, float32_nodes = [], [], [], []
    with progress("exporting", len(ensemble.members)) as advance:
        for number, (run, weight) in enumerate(ensemble.members):
            exported = _export_member(run, precision, embeddings=embeddings)
            names = {part: f"{number}-{plain}" for part, plain in PARTS.items()}
            files |= {names[part]: exported.files[plain] for part, plain in PARTS.items()}
            files |= {name: content for name, content in exported.files.items() if is_asset(name)}
            verified, metrics = _verification_facts(exported.report), run.facts["metrics"]
            width = {"embedding_width": run.embedding_width} if embeddings and run.embedding_width else {}
            members.append({"weight": weight, **names, "metrics": metrics, **width, "verified": verified})
            models.append(exported.files)
            reports.append(exported.report)
            float32_nodes += [f"{number}-{name}" for name in exported.float32_nodes]
            advance(1, run.config.backbone.name)
    _check_opens(models, "the ensemble")
    report = VerificationReport(
        [check for each in reports for check in each.checks],
        max(each.row_difference for each in reports),
        max(each.smape_change for each in reports),
        max(each.batch_sensitivity for each in reports),
        max(each.batch_sensitivity_share_of_sd for each in reports),
        max((d for each in reports if (d := each.embedding_difference) is not None), default=None),
    )
    facts = _facts(precision, ensemble.facts, runs, float32_nodes, report)
    return report, files, {"members": members, **facts}


def _export_member(run: LoadedRun, precision: str, *, embeddings: bool) -> ExportedModel:
    """Export the model of a run, which is verified on its sample rows."""
    name = f"the model of the backbone '{run.config.backbone.name}'"
    embeddings = embeddings and run.embedding_width is not None
    sample = read_sample(run)
    return export_model(run.model, run.preprocessor, sample, precision, name, embeddings=embeddings)


def export_model(
    model: PriceModel,
    preprocessor: Preprocessor,
    sample: Table,
    precision: str,
    name: str,
    *,
    embeddings: bool = False,
) -> ExportedModel:
    """Export a model as a graph, convert it, and verify it on rows. Afterwards, the model has no weights.

    Args:
        model: on the CPU.
        preprocessor: makes the inputs of the model.
        sample: N rows, with prices if the change of SMAPE is to be measured.
        precision: of the graph.
        name: of the model, in errors.
        embeddings: whether the graph also returns the vectors of texts.

    Raises:
        ExportError: it cannot be exported, or its graph differs from it.
    """
    inputs, max_length = preprocessor(sample), preprocessor.max_length
    batches = [*shapes(inputs, max_length), *(batch for _, batch in sample_batches(inputs))]
    with temporary_folder() as folder:
        float32 = folder / "model.onnx"  # with its weights in a second file
        example = inputs.batch(np.arange(2) % len(inputs))
        # At least two tokens: the exporter would treat a length of 1 as a constant.
        longest = max(2, example["input_ids"].shape[1])
        with progress("exporting the graph", 1) as advance:
            example = fit_length(example, longest, inputs.pad_id)
            export_graph(model, example, float32, separate_weights=True, embedding=embeddings)
            advance(1)
        reference = _reference(model, batches, precision)
        vectors = [*map(torch_embedding(model), batches)] if embeddings else []
        _free_weights(model)
        release_heap()
        converted = convert(float32, precision, batches)
        rows = Sample(inputs, max_length, sample.price)
        before = None if precision == "fp32" else float32
        # The report is that of the simulation of the target hardware.
        graph, engine = in_file(converted.simulated, folder / "simulated.onnx"), converted.engine
        report = verify_graph(reference, graph, rows, precision, float32=before, engine=engine)
        if engine is not None:
            engine.close()
        if converted.model != converted.simulated:
            release_heap()
            graph = in_file(converted.model, folder / "converted.onnx")
            verify_graph(reference, graph, rows, precision, float32=before)
        if embeddings:
            difference = verify_embeddings(vectors, graph, batches, precision)
            report = replace(report, embedding_difference=difference)
        release_heap()
        texts = {file: text.encode() for file, text in preprocessor.files(portable=True).items()}
        files = {"model.onnx": read_graph(converted.model), **texts, **preprocessor.features.assets()}
        _check_opens([files], name)
    return ExportedModel(files, converted.float32_nodes, report)


def _reference(model: PriceModel, batches: Sequence[Batch], precision: str) -> PriceBatch:
    """Return the model's prices of the batches: of each batch as it is, or, to verify a conversion, of each row."""
    engine = torch_engine(model)
    reference = PricedOnce(lambda: engine) if precision == "fp32" else RowPrices(engine)
    with tracked("pricing with the model", batches, token_count) as left:
        for batch in left:
            reference(batch)
    return reference


def _free_weights(model: PriceModel) -> None:
    """Free the memory of a model that prices no more; torch's exporter keeps references to its weights."""
    storages = [tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
    model.to("meta")
    for storage in storages:
        if storage.resizable():  # not if the array belongs to numpy
            storage.resize_(0)


def _check_opens(members: Sequence[Mapping[str, bytes]], what: str) -> None:
    """Raise ExportError if the files of the members exceed the limits of bundles."""
    same: dict[bytes, bytes] = {}
    members = [{name: same.setdefault(content, content) for name, content in m.items()} for m in members]
    with _within_limits():
        check_members(members, what)


@contextmanager
def _within_limits() -> Iterator[None]:
    """Turn the errors of a bundle's limits into an ExportError."""
    try:
        yield
    except BundleError as error:
        raise ExportError(
            f"no bundle can hold this model: {error}. Nothing was published; docs/bundle-format.md lists the limits",
            **error.facts,
        ) from error


def _other_columns(runs: Sequence[LoadedRun]) -> dict[str, Content]:
    """Return the columns besides the text that features read, and what they contain."""
    text = runs[0].preprocessor.columns.text
    names = {name for run in runs for name in run.preprocessor.features.columns if name not in text}
    frame = read_sample(runs[0]).frame if names else pd.DataFrame()
    vectors = {name for run in runs for name in run.config.columns.vectors or ()}
    return {name: _content(frame[name], is_vector=name in vectors) for name in frame if name in names}


def _self_test(bundle: Bundle, others: Mapping[str, Content]) -> dict[str, bytes]:
    """Return the file with invented rows and their prices; none if a feature cannot do without the rows of a table."""
    precision = bundle.manifest["precision"]
    try:
        return {SELF_TEST: make_self_test(bundle, precision, others).to_text().encode()}
    except PluginError as error:
        logger.warning(f"the bundle has no self-test, because invented rows cannot be priced: {error}")
        return {}
    except BundleError as error:
        raise ExportError(
            f"the {precision} graph cannot price the invented rows of the self-test: {error}. Nothing was published",
            **error.facts,
        ) from error


def _content(column: pd.Series, *, is_vector: bool) -> Content:
    """Return what a column contains: texts, numbers, or the width of its vectors, 0 if none is known."""
    if not is_vector:
        return float if is_numeric_dtype(column) else str
    known = column[has_vector(column)] if holds_lists(column) else column[column.astype("str") != ""]
    return read_vectors(known, np.arange(len(known))).shape[1] if len(known) else 0


def _facts(
    precision: str,
    facts: Mapping[str, Any],
    runs: Sequence[LoadedRun],
    float32_nodes: list[str],
    report: VerificationReport,
) -> dict[str, Any]:
    """Return the facts of a manifest; `training_rows_in` names the features whose state contains training rows."""
    holding = {name for run in runs for name in run.preprocessor.features.holding_training_rows}
    own = {name: value for name, value in facts.items() if name != "format"}
    own |= {"training_rows_in": sorted(holding)} if holding else {}
    return export_facts(precision, float32_nodes, report) | own


def export_facts(precision: str, float32_nodes: list[str], report: VerificationReport) -> dict[str, Any]:
    """Return what a manifest says about the export."""
    return {
        "pricekit_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "precision": precision,
        "float32_nodes": float32_nodes,
        "opset": OPSET,
        "verified": _verification_facts(report),
    }


def _verification_facts(report: VerificationReport) -> dict[str, Any]:
    difference = report.embedding_difference
    return {
        "shapes": [[check.rows, check.length] for check in report.checks],
        "max_relative_difference": report.largest_difference,
        "smape_change": report.smape_change,
        "batch_sensitivity_relative_difference": report.batch_sensitivity,
        "batch_sensitivity_share_of_sd": report.batch_sensitivity_share_of_sd,
        **({} if difference is None else {"embedding_difference": difference}),
    }
