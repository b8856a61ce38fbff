"""The timed work: an epoch of training over some rows of a table, by pricekit's own loop."""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pricekit.config import RunConfig, SpeedConfig, build_config
from pricekit.core.loader import registry
from pricekit.datasets import make_catalog
from pricekit.features.fit import fit_features
from pricekit.features.preprocess import Preprocessor, without_price
from pricekit.io.log import logger
from pricekit.nets.network import ModelPlugins, PriceModel, build_model
from pricekit.runs.split import columns_of
from pricekit.table import Columns, Table, read_usable
from pricekit.text.tokens import encode, pad_id_of
from pricekit.training.batches import PricedInputs, epoch_batches
from pricekit.training.loop import Job, Session, start_session, train_epoch
from pricekit.training.machine import DTYPES, choose_precision, fast_math, torch_threads
from pricekit.training.parallel import Processes
from pricekit.training.policies import Policy
from speed.timing import synchronize

INVENTED = 4000
"""Number of rows of the generated catalogue, used without a table."""

ENDLESS = 1_000_000_000
"""Steps of the schedule: it never ends during a benchmark."""

LEARNING_RATE = 1e-6
"""Learning rate of all contenders: the weights hardly change, so that each round computes the same."""

_ENDLESS_EPOCH = {
    "training": {
        "epochs": 1,
        "patience": None,
        "time_budget": None,
        "save_steps": None,
        "learning_rate": LEARNING_RATE,
    },
    "speed": {"progress": False},
}


@dataclass(frozen=True)
class Workload:
    """Rows to train on, and the model that each contender starts from.

    Attributes:
        table: the rows of a round.
        lengths: token counts of all rows of the table, to compute its padding.
    """

    config: RunConfig
    table: Table
    preprocessor: Preprocessor
    examples: PricedInputs
    model: PriceModel
    lengths: np.ndarray

    @property
    def rows(self) -> int:
        """Rows of a round."""
        return len(self.examples.price)

    @property
    def tokens(self) -> int:
        """Real tokens of a round."""
        return int(self.examples.inputs.tokens.lengths.sum())


def make_workload(config: RunConfig, table: Table, rows: int) -> Workload:
    """Make a model and the first rows of a table into a workload; nothing is written."""
    config = build_config([config.model_dump(), _ENDLESS_EPOCH])
    part = table.take(np.arange(min(rows, len(table))))
    plugins = ModelPlugins.create(config)
    tokenizer = plugins.backbone.tokenizer(part.text.tolist())
    columns = Columns(tuple(config.columns.text), config.columns.price, None)
    priced = replace(without_price(part, columns), price=part.known_price)
    features, _ = fit_features(config.features, config.feature_options, priced)
    preprocessor = Preprocessor(
        columns, tokenizer, config.max_length, pad_id_of(tokenizer), features, config.facts_first
    )
    examples = PricedInputs(preprocessor(part), part.known_price)
    torch.manual_seed(config.seed)
    architecture = plugins.backbone.architecture(tokenizer)
    model = build_model(plugins, config, preprocessor, architecture, examples.inputs.tokens)
    model.fit(torch.from_numpy(examples.inputs.features), torch.from_numpy(examples.price))
    lengths = encode(tokenizer, preprocessor.texts(table), config.max_length, preprocessor.pad_id).lengths
    return Workload(config, part, preprocessor, examples, model, lengths)


def fresh_model(workload: Workload, config: RunConfig | None = None) -> PriceModel:
    """Return a new model with the workload's weights; unlike a deep copy it works for every encoder."""
    config = config or workload.config
    plugins = ModelPlugins.create(config)
    architecture = plugins.backbone.architecture(workload.preprocessor.tokenizer)
    model = build_model(plugins, config, workload.preprocessor, architecture, None)
    model.load_state_dict(workload.model.state_dict())
    return model


def own_epoch(workload: Workload, changes: dict[str, Any] | None = None) -> tuple[Session, Any]:
    """Return a session with its own model, and a function that trains one more epoch with it.

    `changes` is a layer of settings over those of the workload.
    """
    config = build_config([workload.config.model_dump(), changes or {}])
    model = fresh_model(workload, config)
    policy: Policy = registry().create("policy", config.policy.name, config.policy.options)
    processes = Processes()
    precision = choose_precision(config.speed, processes.device)
    rows = workload.examples
    job = Job(model, policy, config, rows, rows, processes, precision)
    with tempfile.TemporaryDirectory() as folder:
        session = start_session(job, Path(folder), resume=False, started=time.perf_counter())
    session.time_budget.total_steps = ENDLESS
    never = threading.Event()

    def run() -> None:
        with fast_math(config.speed), torch_threads(session.loader.torch_threads):
            train_epoch(session, never, lambda *_: None)
        state = session.state
        state.epoch, state.steps_in_epoch, state.loss, state.rows = 0, 0, 0.0, 0

    return session, run


def padding(workload: Workload) -> float:
    """Return the tokens computed for each real token in an epoch over the whole table."""
    lengths, config = workload.lengths, workload.config
    multiple, longest = config.speed.length_multiple, config.max_length
    padded = -(-lengths // multiple) * multiple
    computed = 0
    for rows in epoch_batches(padded, config.training, config.speed.sort_window, config.seed, 0):
        computed += len(rows) * min(longest, int(padded[rows].max()))
    return computed / float(lengths.sum())


def training_flops(model: PriceModel) -> float:
    """Return the floating-point operations of training on one token: 6 for each weight of a linear layer.

    The forward product needs two, the backward pass four (Kaplan et al. 2020, arXiv:2001.08361, section 2.1).
    The products inside attention, which grow with the length, are not counted; the true number is higher.
    """
    linear = [m for m in model.encoder.modules() if isinstance(m, nn.Linear)]
    return 6.0 * sum(m.weight.numel() for m in linear)


def matmul_peak(
    precision: str, device: torch.device, speed: SpeedConfig, size: int | None = None, rounds: int = 10
) -> float:
    """Return the peak floating-point operations per second, from the fastest of some large matrix products.

    The switches of training apply: with TF32, float32 products are rounded here, too.
    """
    size = size or (8192 if device.type == "cuda" else 2048)
    dtype = DTYPES.get(precision, torch.float32)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = 0.0
    with fast_math(speed):
        for _ in range(rounds):
            synchronize()
            began = time.perf_counter()
            left @ right
            synchronize()
            best = max(best, 2 * size**3 / (time.perf_counter() - began))
    return best


def read_workload_table(table: Path | None, config: RunConfig) -> Table:
    """Return the usable rows of a table, by default of a generated catalogue."""
    if table is not None:
        return read_usable(table, columns_of(config), limit=config.limit, notices=logger.warning)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "catalogue.parquet"
        make_catalog(INVENTED).to_parquet(path)
        return read_usable(path, Columns(), limit=config.limit, notices=logger.warning)[0]
