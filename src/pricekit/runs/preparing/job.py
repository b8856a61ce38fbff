"""The job of a pass: its rows, their model inputs, and a new model."""

from __future__ import annotations

import torch

from pricekit.core.calls import plugin_call
from pricekit.features.fit import some_rows
from pricekit.model.network import PriceModel, build_model
from pricekit.runs.checks import check_inputs
from pricekit.runs.inputs import TRAIN, InputFiles
from pricekit.runs.preparing.fitted import Fitted
from pricekit.runs.refit import FirstPass, all_rows
from pricekit.runs.setup import Setup
from pricekit.runs.source import Split
from pricekit.runs.warm.start import WarmStart
from pricekit.table import Table
from pricekit.training.batches import PricedInputs
from pricekit.training.session import Job


def rows_of(split: Split, first: FirstPass | None) -> Table:
    """Return the rows that a pass trains on."""
    return all_rows(split) if first else split.train


def inputs_of(fitted: Fitted, table: Table, files: InputFiles, name: str) -> PricedInputs:
    """Return the inputs of training or validation rows, with the columns that were learned from other rows."""
    columns = fitted.out_of_fold if name == TRAIN else fitted.held_out
    inputs = files.inputs(name, fitted.preprocessor, table, columns)
    weight = None if table.weight is None else table.weight / table.weight.mean()
    return PricedInputs(inputs, table.known_price, weight)


def new_model(setup: Setup, fitted: Fitted, train: PricedInputs, warm: WarmStart | None = None) -> PriceModel:
    """Return a model with random or pretrained weights, its constants fitted on the training rows.

    A run that continues another one has that run's weights and constants.
    """
    config = setup.config
    torch.manual_seed(config.seed)
    if warm is not None:
        return warm.model(setup.plugins, config, fitted.preprocessor, train.inputs.tokens)
    model = build_model(setup.plugins, config, fitted.preprocessor, fitted.architecture, train.inputs)
    with plugin_call("loss", config.loss.name, "fitting to the training prices"):
        features = train.inputs.features[some_rows(len(train.price))]
        model.fit(torch.from_numpy(features), torch.from_numpy(train.price))
    return model


def job_of(
    setup: Setup, fitted: Fitted, model: PriceModel, train: PricedInputs, valid: PricedInputs | None, run: str
) -> Job:
    """Return the job of these parts; raises the errors of `check_inputs`."""
    for rows in [train, *([] if valid is None else [valid])]:
        check_inputs(rows, fitted.preprocessor.features.names)
    return Job(model, setup.policy, setup.config, train, valid, setup.processes, setup.precision, run)
