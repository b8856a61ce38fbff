"""Exporting a regressor of transformers, which pricekit has not trained, into a bundle.

The folder may be a stranger's: only its JSON, its tokenizer and its safetensors are read, and no code of it is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

from pricekit.config import HeadConfig
from pricekit.config.settings import MAX_LENGTH
from pricekit.core.contracts import WeightsSource
from pricekit.datasets import make_catalog
from pricekit.errors import ConfigError, ExportError
from pricekit.evaluation.scores import Goal, constant_score
from pricekit.export.card import CARD, transformers_card
from pricekit.export.export import export_facts, export_model, publish, read_products
from pricekit.export.inventory import Weights
from pricekit.export.verify import LIMITS, SINGLE_ROWS, VerificationReport
from pricekit.features.fitted import FittedFeatures
from pricekit.features.preprocess import Preprocessor
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.progress import progress
from pricekit.io.record import check_apart, check_output
from pricekit.metrics import SMAPE
from pricekit.nets.encoder import mask_for
from pricekit.nets.inference import predict
from pricekit.nets.losses import MAX_LOG_PRICE
from pricekit.nets.network import PriceModel
from pricekit.nets.pretrained import (
    check_ids,
    find_weights,
    load_model,
    naming,
    open_tokenizer,
    read_config,
    set_padding,
)
from pricekit.nets.transformer import SEQUENCE_TO_SEQUENCE, export_by_distance, family_of, longest_text
from pricekit.options import Target
from pricekit.predict.keys import SigningKey
from pricekit.predict.loaded_engine import BATCH_SIZE
from pricekit.predict.self_test import invented_texts
from pricekit.runs.folder import SAMPLE_ROWS
from pricekit.table import Columns, Table, TableSource, read_usable, table_of_texts
from pricekit.text.tokens import CHARS_PER_TOKEN, pad_id_of
from pricekit.wording import counted, shorten

LEAST_PRICE = 0.01
"""The lowest price of a model whose target is price or log1p: a price is positive, and its output may be negative."""

_EXPECTED = "AutoModelForSequenceClassification with num_labels=1 and problem_type='regression'"
_UNREADABLE = {
    "auto_map": "it needs code that comes with the weights, which is never run; use an architecture of transformers",
    "quantization_config": "its weights are quantized; load it in float32, and save it again",
}
"""Keys of config.json and tokenizer_config.json that are refused, with the reason."""
_ADAPTER = "adapter_config.json"


class Link(nn.Module):
    """Turns the output of a regressor, (target - mean) / std, into a price.

    Args:
        target: what it was trained to predict.
        mean: of the target, if it was standardised.
        std: of the target, if it was standardised.
    """

    def __init__(self, target: Target, mean: float, std: float) -> None:
        super().__init__()
        self.target, self.mean, self.std = target, mean, std

    def to_price(self, raw: Tensor) -> Tensor:
        """Return the price of each output, positive."""
        value = raw * self.std + self.mean
        if self.target == "log":
            return value.clamp(-MAX_LOG_PRICE, MAX_LOG_PRICE).exp()
        if self.target == "log1p":
            value = value.clamp(max=MAX_LOG_PRICE).exp() - 1
        return value.clamp(LEAST_PRICE, float(np.exp(MAX_LOG_PRICE)))

    def __str__(self) -> str:
        """Return what the output is, for a sentence."""
        target = {"log": "the log of the price", "log1p": "the log of 1 + price", "price": "the price"}
        scaled = f", minus {self.mean:g}, divided by {self.std:g}"
        return target[self.target] + (scaled if (self.mean, self.std) != (0, 1) else "")


class RegressorEncoder(nn.Module):
    """A regressor as an encoder of width 1: its output is the encoding, so that a `PriceModel` needs no head.

    Args:
        model: the model of transformers, with its own head.
    """

    hidden_size, members = 1, 1

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the output of each text, float32 (B, 1)."""
        model: Any = self.model
        logits: Tensor = model(
            input_ids=input_ids, attention_mask=mask_for(model.config, attention_mask)
        ).logits
        return logits.float()


@dataclass(frozen=True)
class Regressor:
    """A regressor of transformers, opened.

    Attributes:
        model: in evaluation mode.
        tokenizer: that of transformers.
        link: turns an output into a price.
        preprocessor: that of the bundle.
    """

    model: PreTrainedModel
    tokenizer: Any
    link: Link
    preprocessor: Preprocessor

    @property
    def architecture(self) -> str:
        """The name of its class."""
        return type(self.model).__name__

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of a text."""
        return self.preprocessor.max_length

    def price_model(self) -> PriceModel:
        """Return the model that is exported; it shares the weights."""
        model = PriceModel(RegressorEncoder(self.model), HeadConfig(), self.link, features=0)
        model.heads = nn.ModuleList([nn.Identity()])
        return model.eval()

    @torch.inference_mode()
    def price(self, text: str) -> float | None:
        """Return the price that transformers gives a text; None for a text without tokens."""
        inputs = self.tokenizer(text, truncation=True, max_length=self.max_length, return_tensors="pt")
        model: Any = self.model
        return (
            float(self.link.to_price(model(**inputs).logits[0, 0])) if inputs["input_ids"].numel() else None
        )

    def other_tokens(self, table: Table, texts: list[str]) -> list[int]:
        """Return the rows of a table whose tokens in the bundle are not those that transformers gives texts, (N,)."""
        tokens = self.preprocessor(table).tokens
        ours = np.split(tokens.ids, tokens.offsets[1:-1])
        theirs = self.tokenizer(texts, truncation=True, max_length=self.max_length)["input_ids"]
        nothing = [self.preprocessor.pad_id]
        return [
            row
            for row, (own, expected) in enumerate(zip(ours, theirs, strict=True))
            if own.tolist() != (expected or nothing)
        ]


def open_regressor(folder: Path, link: Link, columns: Columns, max_length: int | None = None) -> Regressor:
    """Open the folder of a fine-tuned regressor: config.json, tokenizer and safetensors, as `save_pretrained` writes.

    Args:
        folder: the folder.
        link: turns its output into a price.
        columns: of the text that it reads, and of prices.
        max_length: maximum number of tokens of a text; None: that of the tokenizer.

    Raises:
        ConfigError: it is no such folder, a file is missing or damaged, weights are pickled, it needs code of its own,
            or its family cannot be exported.
    """
    with _about_folder():
        _check_folder(folder)
        find_weights(str(folder), _EXPECTED)
        values = read_config(folder)
        family = family_of(values["model_type"])
        with naming(folder / "config.json", values):
            config = family.config.from_dict(values)
            architecture: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING.get(family.config, None)
            longest = longest_text(family, config)
            _check_config(folder, config, architecture)
        model = load_model(architecture, config, folder, architecture.__name__, {})
        model.train(False)
        tokenizer, backend = open_tokenizer(folder)
        fast = Tokenizer.from_str(backend.to_str())
        check_ids(fast, getattr(config, "vocab_size", None), folder)
        padding = tokenizer.pad_token_id if config.pad_token_id is None else config.pad_token_id
        set_padding(fast, padding, f"the tokenizer in {folder}")
    if config.model_type == "deberta-v2":
        export_by_distance(model.base_model, longest or MAX_LENGTH)
    length = _length(tokenizer, backend, longest, max_length)
    preprocessor = Preprocessor(columns, fast, length, pad_id_of(fast), FittedFeatures(()))
    return Regressor(model, tokenizer, link, preprocessor)


def _check_folder(folder: Path) -> None:
    """Raise ConfigError unless a folder has only what may be read."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder; expected one with config.json, tokenizer.json and model.safetensors",
            path=str(folder),
        )
    for file in folder.iterdir():
        if not file.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"{file} is a link to another folder, and nothing outside of {folder} is read; copy the folder with "
                "the files that its links point to",
                path=str(file),
            )
    if (folder / _ADAPTER).exists():
        raise ConfigError(
            f"{folder} contains an adapter ({_ADAPTER}) without its model; call merge_and_unload() and "
            "save_pretrained() of peft's model, and use the folder that it writes",
            path=str(folder),
        )
    for name in ("config.json", "tokenizer_config.json"):
        for key, reason in _UNREADABLE.items():
            if _json(folder / name).get(key) is not None:
                raise ConfigError(f"{folder / name} has {key}: {reason}", path=str(folder / name), key=key)


def _json(path: Path) -> dict[str, Any]:
    """Return the values of an optional file."""
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged ({error}); save the model again", path=str(path)) from None
    return values if isinstance(values, dict) else {}


def _check_config(folder: Path, config: Any, architecture: Any) -> None:
    """Raise ConfigError unless a configuration is that of a regressor with one output."""
    saved, path = ", ".join(config.architectures or []), folder / "config.json"
    if architecture is None or config.model_type in SEQUENCE_TO_SEQUENCE:
        raise ConfigError(
            f"{path} is of the family '{config.model_type}', which has no regressor that can be exported; use an "
            "encoder such as BERT, RoBERTa, DeBERTa or ModernBERT",
            path=str(path),
        )
    if saved and architecture.__name__ not in config.architectures:
        raise ConfigError(
            f"{path} describes {shorten(saved, 100)}, not {architecture.__name__}; fine-tune it as {_EXPECTED}, and "
            "save it",
            path=str(path),
        )
    if config.num_labels != 1 or config.problem_type not in (None, "regression"):
        raise ConfigError(
            f"{path} has {counted(config.num_labels, 'label')} and the problem_type {config.problem_type}; expected "
            "one label and regression: prices come from a single output",
            path=str(path),
            labels=config.num_labels,
        )


def _length(tokenizer: Any, backend: Tokenizer, longest: int | None, wanted: int | None) -> int:
    """Return the maximum number of tokens: the wanted one, that of tokenizer.json, or the most that is possible."""
    most = min(longest or MAX_LENGTH, MAX_LENGTH)
    if wanted is not None and wanted > most:
        raise ConfigError(
            f"max_length is {wanted}, but the model accepts at most {most} tokens", parameters=("max_length",)
        )
    if wanted is not None:
        return wanted
    limits = [tokenizer.model_max_length, (backend.truncation or {}).get("max_length", most)]
    for limit in limits:
        if not isinstance(limit, int | float) or limit < 1:
            raise ConfigError(
                f"the tokenizer keeps {shorten(repr(limit), 60)} tokens of a text; expected 1 or more. Name "
                "max_length, or correct model_max_length in tokenizer_config.json and the truncation in tokenizer.json",
                parameters=("folder",),
            )
    length = int(min(most, *limits))
    logger.info(f"the model reads at most {length:,} tokens of a text, as its tokenizer says")
    return length


@contextmanager
def _about_folder() -> Iterator[None]:
    """Make errors about weights name the parameter `folder`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error), parameters=("folder",), **error.facts) from error.__cause__


def export_transformers(
    folder: Path,
    out: Path,
    link: Link,
    columns: Columns,
    *,
    sample: TableSource | None = None,
    max_length: int | None = None,
    precision: str = "fp32",
    overwrite: bool = False,
    comparables: TableSource | None = None,
    key: SigningKey | None = None,
) -> VerificationReport:
    """Export a regressor of transformers into a bundle; see `pricekit.bundles.from_transformers`.

    Args:
        folder: as of `open_regressor`.
        out: the folder of the bundle.
        link: turns its output into a price.
        columns: those of the text and of known prices.
        sample: a table with prices, on whose rows the export is verified; None: invented products.
        max_length: as of `open_regressor`.
        precision: of the graph.
        overwrite: replace what pricekit has written in `out`.
        comparables: a table of products with prices that the bundle shall contain.
        key: signs the bundle; None: nobody does.
    """
    if precision != "fp32" and sample is None:
        raise ConfigError(
            f"{precision} rounds values as real rows need it, and its verification compares SMAPE on them; name a "
            "table with prices, or export as fp32",
            parameters=("sample", "precision"),
        )
    with owned(out, "bundle", ExportError):
        check_apart(out, [folder], ExportError)
        check_output(out, "bundle", "overwrite" if overwrite else "new", ExportError)
        rows = _sample_rows(sample, columns)
        currency = rows.price_style.currency if rows.price is not None else None
        products = read_products(comparables, columns, currency)
        regressor = open_regressor(folder, link, columns, max_length)
        model, preprocessor = regressor.price_model(), regressor.preprocessor
        for table in (table_of_texts(invented_texts(), columns.text[0]), rows):
            _check_tokens(regressor, table)
        prices = predict(model, preprocessor(rows), BATCH_SIZE)
        _check_prices(regressor, rows, prices)
        if sample is not None:
            _report_sample(regressor, rows, prices)
        exported = export_model(model, preprocessor, rows, precision, f"the {regressor.architecture}")
        facts = export_facts(precision, exported.float32_nodes, exported.report) | {
            "transformers": {
                "architecture": regressor.architecture,
                "target": link.target,
                "mean": link.mean,
                "std": link.std,
            },
            "table": None,
            "currency": currency,
            "rows": {},
            "metrics": {},
            "metric": None,
            "constant_score": None,
            "plugins": [],
        }
        card = transformers_card(columns.text[0], regressor.max_length, str(link), facts)
        weights = Weights(regressor.architecture, WeightsSource("a local folder"), "weights of transformers")
        files = exported.files | {CARD: card.encode()}
        publish(out, files, facts, [weights], products=products, key=key)
        return exported.report


def _sample_rows(source: TableSource | None, columns: Columns) -> Table:
    """Return the rows on which the export is verified; raises DataError."""
    if source is None:
        texts = [*invented_texts(), *make_catalog(SINGLE_ROWS)["catalog_content"]]
        return table_of_texts(texts, columns.text[0])
    table = read_usable(source, columns)[0]
    return table.take(np.random.default_rng(0).permutation(len(table))[:SAMPLE_ROWS])


def _check_tokens(regressor: Regressor, table: Table) -> None:
    """Raise ExportError if texts have other tokens in the bundle than in transformers."""
    texts = [text[: CHARS_PER_TOKEN * regressor.max_length] for text in table.text]
    if other := regressor.other_tokens(table, texts):
        raise ExportError(
            f"the tokenizer of the bundle reads {shorten(repr(texts[other[0]]), 60)} in other tokens than "
            f"{type(regressor.tokenizer).__name__} of transformers. Nothing was published; save the model with a "
            "tokenizer that tokenizer.json describes completely, and that cuts long texts at their end",
            parameters=("folder",),
        )


def _check_prices(regressor: Regressor, rows: Table, prices: np.ndarray) -> None:
    """Compare the model that will be exported with transformers, from text to price.

    Args:
        regressor: the model of transformers.
        rows: N rows, of which the first ones are compared.
        prices: of the model that will be exported, float32 (N,).

    Raises:
        ExportError: a price differs.
    """
    texts, limit = rows.text.tolist()[:SINGLE_ROWS], LIMITS["fp32"].price
    with progress("pricing with transformers", len(texts)) as advance:
        for text, price in zip(texts, prices.tolist(), strict=False):
            expected = regressor.price(text[: CHARS_PER_TOKEN * regressor.max_length])
            advance(1)
            if expected is not None and not abs(price - expected) <= limit * expected:
                raise ExportError(
                    f"transformers gives {shorten(repr(text), 60)} the price {expected:.6g}, and the model that would "
                    f"be exported {price:.6g}. Nothing was published; the {regressor.architecture} reads more than "
                    "tokens and their mask, which a bundle does not have",
                    parameters=("folder",),
                )


def _report_sample(regressor: Regressor, rows: Table, prices: np.ndarray) -> None:
    """Say how good the prices of a user's rows are, and whether transformers would read their texts differently."""
    assert rows.price is not None
    score, constant = SMAPE(prices, rows.price), constant_score(rows, rows, SMAPE)
    accuracy = f"SMAPE on {counted(len(rows), 'row')} of the sample is {SMAPE.write(score)}"
    if Goal(SMAPE, score, constant).missed:
        logger.warning(
            f"{accuracy}, and not below that of a constant price, {SMAPE.write(constant)}: check the target, its mean "
            "and its standard deviation"
        )
    else:
        logger.info(accuracy)
    written = rows.frame[regressor.preprocessor.columns.text[0]].fillna("").astype(str).tolist()
    other = regressor.other_tokens(rows, written)
    pairs = [(regressor.price(written[row]), float(prices[row])) for row in other[:SINGLE_ROWS]]
    differences = [abs(price / expected - 1) for expected, price in pairs if expected]
    if differences:
        logger.warning(
            f"transformers gives {len(other):,} of {counted(len(rows), 'text')} other tokens, and prices that differ "
            f"by up to {100 * max(differences):.2g}%, because pricekit reads texts in one form, such as with single "
            f"spaces, and at most {CHARS_PER_TOKEN} characters per token"
        )
