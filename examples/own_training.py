"""
A policy, a loss, a backbone and an observer of your own
========================================================

Four kinds of plugins in one file: how to train, what to minimise, what reads the text, and who watches.

``pricekit plugins check examples/own_training.py`` checks them, and ``pricekit plugins list --plugin
examples/own_training.py`` shows them beside the built-in ones.
"""

import sys
from typing import ClassVar

import torch
from pydantic import BaseModel, Field

import pricekit as pk

# %%
# A policy for a short look
# -------------------------
#
# A policy chooses the optimizer, the schedule of the learning rate, and the defaults of all settings. This one is for
# a first look at a table: a small model, four epochs, and no second pass over all rows. The decorator registers the
# class below it, by name; the first line of its docstring is what ``pricekit plugins list`` shows.


@pk.plugin.policy("glance")
class Glance(pk.plugin.Policy):
    """a first look in four epochs, with a learning rate that rises and falls linearly"""

    defaults: ClassVar = {
        "backbone": {"name": "bag", "vocab_size": 2000, "buckets": 4096, "width": 16, "members": 1},
        "features": ["optimized22"],
        "head": {"widths": [32], "dropout": [0.0], "norm": "none", "feature_bins": 8},
        "max_length": 64,
        "training": {
            "epochs": 4,
            "batch_size": 32,
            "learning_rate": 0.01,
            "embedding_learning_rate": 0.2,
            "warmup_epochs": 0.5,
        },
        "speed": {"precision": "fp32"},
    }

    def schedule(self, step, warmup_steps, total_steps):
        """Return the factor of the learning rate, 0 to 1."""
        rise = (step + 1) / max(1, warmup_steps)
        fall = (total_steps - step) / max(1, total_steps - warmup_steps)
        return max(0.0, min(1.0, rise, fall))


# %%
# A loss that avoids high prices
# ------------------------------
#
# Suppose that a price that is too high costs more than one that is too low, because nobody buys. ``LogPrice`` converts
# the raw output of the model to a log price. ``terms`` is what training minimises, for each row. The loss aims at a low
# price, so it is not ``central``, and no feature's own estimate of the price is mixed in.


@pk.plugin.loss("cautious")
class Cautious(pk.plugin.LogPrice):
    """the distance of the log prices, where prices that are too high count several times"""

    central = False

    class Options(BaseModel, extra="forbid"):
        """How much more a high price costs."""

        times: float = Field(
            3.0, gt=0, description="cost of a price that is too high, relative to one too low"
        )

    def __init__(self, options):
        super().__init__()
        self.times = options.times

    def terms(self, raw, price):
        """Return the loss of each raw output; raw outputs and prices have the same shape."""
        distance = self.distance(raw, price)
        return torch.where(distance > 0, self.times * distance, -distance)


# %%
# A tiny backbone
# ---------------
#
# A backbone is a tokenizer and an encoder. This encoder hashes each token into one of a few hundred rows of a table,
# and takes the mean of these rows. Padding has ``attention_mask`` 0, so it does not count.


class HashedMean(pk.plugin.Encoder, torch.nn.Module):
    """The mean of the hashed embeddings of a text's tokens."""

    hidden_size = 16

    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.table = torch.nn.Embedding(rows, self.hidden_size)

    def forward(self, input_ids, attention_mask):
        """Encode token ids and their mask, both int64 (B, L), as float32 (B, 16)."""
        weights = attention_mask / attention_mask.sum(1, keepdim=True).clamp(min=1)
        return (self.table(input_ids * 7919 % self.rows) * weights[:, :, None]).sum(1)


@pk.plugin.backbone("tiny")
class Tiny(pk.plugin.Backbone):
    """a tokenizer of 4,000 tokens, and the mean of 512 hashed embeddings"""

    weights_source = None  # training starts from random weights

    def tokenizer(self, texts):
        """Train a tokenizer on the texts."""
        return pk.plugin.train_bpe(texts, 4000, ["[PAD]", "[UNK]"], unknown="[UNK]")

    def architecture(self, tokenizer):
        """Return what a run must store to build the encoder again."""
        return {"rows": 512}

    def encoder(self, architecture, tokenizer, tokens):
        """Build the encoder."""
        return HashedMean(architecture["rows"])


# %%
# An observer
# -----------
#
# An observer needs no name: its hooks are called during each run. This one keeps a diary in a folder of the run that is
# for observers.


@pk.plugin.hookimpl
def pricekit_epoch_ended(folder, record):
    """Write the score of each epoch on the held-out rows into a file."""
    diary = folder / "observers" / "diary.txt"
    diary.parent.mkdir(exist_ok=True)
    with open(diary, "a") as file:
        print(f"{record['valid_smape']:.1f}%", end="  ", file=file)


# %%
# Train with them
# ---------------
#
# ``use_plugins`` loads this file as a plugin, which imports it a second time. The condition keeps that import from
# training, too.

if __name__ == "__main__":
    pk.use_plugins(sys.argv[0])  # this file
    catalog = pk.make_catalog(1000)

    choices = {
        "the policy glance alone": {},
        "with the loss cautious": {"loss": "cautious"},
        "with the loss cautious, 9 times": {"loss": "cautious", "settings": {"loss.times": 9}},
        "with the backbone tiny": {"backbone": "tiny"},
    }
    for name, options in choices.items():
        run = pk.train(catalog, policy="glance", **options)
        held_out = run.held_out
        high = (held_out["predicted"] > held_out["price"]).mean()
        size = sum(file.stat().st_size for file in run.path.glob("*.safetensors"))
        print(f"{name}: {high:.0%} of the prices are too high; the weights have {size / 1000:,.0f} kB")
        print(f"    SMAPE of the epochs: {(run.path / 'observers' / 'diary.txt').read_text()}")
