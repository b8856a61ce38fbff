"""Tokenizer and features, fitted on the training rows or taken over from the run that this one continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pricekit.core.calls import plugin_call
from pricekit.core.contracts import State
from pricekit.features.fit import Sample, fit_features, too_slow
from pricekit.preprocess import Inputs, Preprocessor, without_price
from pricekit.runs.refit import all_rows
from pricekit.runs.setup import Setup, plugins_of
from pricekit.runs.source import Split, columns_of
from pricekit.runs.warm.start import WarmStart
from pricekit.tokens import pad_id_of


@dataclass(frozen=True)
class Fitted:
    """The parts that are fitted on the training rows before the model is built.

    Attributes:
        preprocessor: turns a table into model inputs.
        architecture: the values that the backbone stores to rebuild its encoder.
        out_of_fold: training columns of features that use the price, float32 (N,) each, by name; NaN for rows from
            which nothing was learned, so that what the features return for them is out of fold.
        held_out: the same columns of the validation rows, if features have learned from these rows, too.
        init: what was taken over from the run that this one continues; None if it starts from the beginning.
    """

    preprocessor: Preprocessor
    architecture: State
    out_of_fold: Mapping[str, np.ndarray]
    held_out: Mapping[str, np.ndarray] = field(default_factory=dict)
    init: Mapping[str, Any] | None = None

    def complete(self, train: Inputs) -> Fitted:
        """Return this with the values of rows outside of the sample, from the inputs of the training rows."""
        names = self.preprocessor.features.names
        columns = {name: train.features[:, names.index(name)].copy() for name in self.out_of_fold}
        return replace(self, out_of_fold=columns)


def without_slow_features(setup: Setup, sample: Sample, seconds: float) -> Setup:
    """Return the setup without the features that learn from prices and take longer than they may."""
    config, train = setup.config, sample.table
    table = without_price(train, columns_of(config))
    options, price = config.feature_options, train.known_price
    slow = too_slow(config.features, options, table, price, seconds, sample.folds)
    kept = [name for name in config.features if name not in slow]
    options = {name: given for name, given in options.items() if name in kept}
    config = config.model_copy(update={"features": kept, "feature_options": options})
    return replace(setup, config=config, entries=plugins_of(config))


def fit_parts(setup: Setup, sample: Sample, known: Mapping[str, np.ndarray], cache: Path | None) -> Fitted:
    """Train or load the tokenizer and fit the features; see `fit_features` for `known`, which has all rows."""
    config, backbone, train = setup.config, setup.plugins.backbone, sample.table
    with plugin_call("backbone", config.backbone.name, "making its tokenizer"):
        tokenizer = backbone.tokenizer(train.text.tolist())
        architecture = backbone.architecture(tokenizer)
    columns = replace(columns_of(config), id_required=False)
    features, out_of_fold = fit_features(
        config.features,
        config.feature_options,
        without_price(train, columns),
        train.known_price,
        {name: column[sample.rows] for name, column in known.items()},
        folds=sample.folds,
        show_progress=config.speed.progress,
        cache=cache,
    )
    preprocessor = Preprocessor(
        columns, tokenizer, config.max_length, pad_id_of(tokenizer), features, config.facts_first
    )
    spread = {
        name: known[name] if name in known else sample.spread(out_of_fold[name]) for name in out_of_fold
    }
    return Fitted(preprocessor, architecture, spread)


def continue_parts(warm: WarmStart, split: Split, known: Mapping[str, np.ndarray]) -> Fitted:
    """Take over tokenizer and features from the run to continue; `known` are the columns of `known_columns`.

    A validation table of the user's is not learned from.
    """
    own = split.own
    preprocessor, facts = warm.fit(all_rows(split) if own else split.train)
    out_of_fold = known or warm.out_of_fold(split.train)
    held_out = warm.out_of_fold(split.valid) if own and not known else {}
    return Fitted(preprocessor, warm.architecture, out_of_fold, held_out, facts)
