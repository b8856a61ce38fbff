"""The checks of a backbone: built-in backbones pass, and each check detects a faulty one."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import models, processors
from torch import nn

from pricekit.nets import transformer
from pricekit.nets.bag import Bag
from pricekit.nets.lstm import Lstm
from pricekit.nets.mlp import Mlp
from pricekit.nets.transformer import (
    DebertaOptions,
    SmallTransformer,
    UnpaddedOptions,
)
from pricekit.table import Columns, read_frame
from pricekit.testing import CheckFailed, check_backbone
from pricekit.text.tokens import train_bpe
from tests.nets.test_contract import tiny

WIDTH = 4


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tiny models wait for their threads longer than they compute."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class MeanEncoder(nn.Module):
    """The mean of the token embeddings, through one layer."""

    hidden_size, members = WIDTH, 1

    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    @property
    def layers(self):
        return [self.embedding, self.linear]

    def pooled(self, input_ids, attention_mask):
        mask = attention_mask[:, :, None].float()
        return (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)

    def forward(self, input_ids, attention_mask):
        return torch.tanh(self.linear(self.pooled(input_ids, attention_mask)))


class Right:
    max_length = 24
    encoder_class = MeanEncoder

    def tokenizer(self, texts):
        return train_bpe(texts, 300, ["[PAD]", "[UNK]"], unknown="[UNK]")

    def architecture(self, tokenizer):
        return {"size": tokenizer.get_vocab_size()}

    def encoder(self, architecture, tokenizer, tokens):
        return self.encoder_class(architecture["size"])


def changed(**parts):
    return type("Wrong", (Right,), parts)


def encoding(**parts):
    """Right, with parts of its encoder changed."""
    return changed(encoder_class=type("Encoder", (MeanEncoder,), parts))


def after(change):
    """Right, with its encoding changed by a function of (encoder, encoding, ids, mask)."""
    return encoding(
        forward=lambda self, ids, mask: change(self, MeanEncoder.forward(self, ids, mask), ids, mask)
    )


def tokenizing(change):
    """Right, with its tokenizer changed."""

    def tokenizer(self, texts):
        found = Right.tokenizer(self, texts)
        return change(found) or found

    return changed(tokenizer=tokenizer)


def drop_merges(tokenizer):
    tokenizer.model.dropout = 0.5


def end_with_unknown_id(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(single="$A [X]", special_tokens=[("[X]", 9999)])


class WithUnused(MeanEncoder):
    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.pooler = nn.Linear(WIDTH, WIDTH)


class Checkpointed(MeanEncoder):
    scale = 1.0

    def gradient_checkpointing_enable(self):
        self.scale = 2.0

    def forward(self, input_ids, attention_mask):
        return self.scale * super().forward(input_ids, attention_mask)


class Closure(MeanEncoder):
    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.look_up = lambda ids: self.embedding(ids)

    def pooled(self, input_ids, attention_mask):
        mask = attention_mask[:, :, None].float()
        return (self.look_up(input_ids) * mask).sum(1) / mask.sum(1)


class KeepsOutside(MeanEncoder):
    """Stores a value in an attribute that no checkpoint contains."""

    made = itertools.count(1)

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.scale = next(self.made)

    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask) * self.scale


class Positions(MeanEncoder):
    """Has 64 positions, whatever max_length says."""

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.position = nn.Embedding(64, WIDTH)

    def pooled(self, input_ids, attention_mask):
        mask = attention_mask[:, :, None].float()
        position = self.position(torch.arange(input_ids.shape[1]))
        return ((self.embedding(input_ids) + position) * mask).sum(1) / mask.sum(1)


class Part(MeanEncoder):
    """Adds what `make` returns, which is 1 of each unit, stored in `scale` as it is."""

    make = None

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.scale = type(self).make()

    def forward(self, input_ids, attention_mask):
        scale = self.scale[0] if isinstance(self.scale, list) else self.scale
        encoding = super().forward(input_ids, attention_mask)
        return scale(encoding) if isinstance(scale, nn.Module) else scale * encoding


def holding(make):
    return changed(encoder_class=type("Encoder", (Part,), {"make": staticmethod(make)}))


class ByHash(MeanEncoder):
    """Shifts the ids by Python's hash of a text."""

    def pooled(self, input_ids, attention_mask):
        return super().pooled((input_ids + hash("tea")) % self.embedding.num_embeddings, attention_mask)


class ByHashAtFirst(MeanEncoder):
    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.shift = hash("tea") % 7

    def pooled(self, input_ids, attention_mask):
        return super().pooled((input_ids + self.shift) % self.embedding.num_embeddings, attention_mask)


class Bags(MeanEncoder):
    """Looks up and averages in one operation, which sees no mask."""

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.embedding = nn.EmbeddingBag(vocab_size, WIDTH)

    def pooled(self, input_ids, attention_mask):
        return self.embedding(input_ids)


class InTheClass(Right):
    """Stores in the class how many tokens it was trained on."""

    tokens = 1

    def encoder(self, architecture, tokenizer, tokens):
        if tokens is not None:
            type(self).tokens = len(tokens.ids)
        encoder = MeanEncoder(architecture["size"])
        encoder.forward = lambda ids, mask: MeanEncoder.forward(encoder, ids, mask) * type(self).tokens
        return encoder


class Normed(MeanEncoder):
    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.norm = nn.BatchNorm1d(WIDTH, track_running_stats=False)

    def forward(self, input_ids, attention_mask):
        return self.norm(super().forward(input_ids, attention_mask))


class Fitted(MeanEncoder):
    """A weight of tokens that no checkpoint contains."""

    def __init__(self, vocab_size, persistent=False):
        super().__init__(vocab_size)
        self.register_buffer("idf", torch.ones(vocab_size), persistent=persistent)

    def pooled(self, input_ids, attention_mask):
        mask = (self.idf[input_ids] * attention_mask)[:, :, None]
        return (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)


class Idf(Right):
    def encoder(self, architecture, tokenizer, tokens):
        encoder = Fitted(architecture["size"])
        if tokens is not None:
            encoder.idf[tokens.ids[0]] = 9.0
        return encoder


class Remembers(Right):
    """Stores in itself what it needs later."""

    def tokenizer(self, texts):
        trained = super().tokenizer(texts)
        self.size = trained.get_vocab_size()
        return trained

    def encoder(self, architecture, tokenizer, tokens):
        return MeanEncoder(self.size)


def shuffled(self, texts):
    texts = list(texts)
    return Right.tokenizer(self, np.random.default_rng().choice(texts, len(texts) // 2).tolist())


def without_padding(self, texts):
    return train_bpe(texts, 300, ["Item", "[UNK]"], unknown="[UNK]")


class ZeroGate(MeanEncoder):
    """A gate that starts at zero hides the layers below; this is not an error."""

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.gate = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, input_ids, attention_mask):
        return self.gate * super().forward(input_ids, attention_mask)


WRONG = {
    "has tokenizer and encoder": [
        changed(encoder=None),
        changed(Options=type("Options", (), {})),
    ],
    "max_length is None or a number": [
        changed(max_length=0),
        changed(max_length="512"),
        changed(max_length=512.0),
    ],
    "trains a tokenizer": [
        tokenizing(lambda t: t.model),
        tokenizing(lambda t: t.enable_padding(pad_id=300)),
        tokenizing(lambda t: setattr(t, "model", models.WordLevel({"[PAD]": 0}, "[U]"))),
        changed(tokenizer=without_padding),
        tokenizing(lambda t: t.enable_padding(pad_id=40)),
    ],
    "tokenizer is the same each time": [changed(tokenizer=shuffled)],
    "tokenizer survives JSON": [tokenizing(drop_merges)],
    "tokenizer accepts every text": [tokenizing(end_with_unknown_id)],
    "architecture is JSON": [
        changed(architecture=lambda s, t: {"size": np.int64(300)}),
        changed(architecture=lambda s, t: ["a"]),
        changed(architecture=lambda s, t: {"scale": float("nan")}),
        changed(architecture=lambda s, t: {"folder": Path("weights")}),
    ],
    "hidden_size and members": [
        encoding(members=3),
        encoding(hidden_size=None),
        changed(encoder=lambda s, a, t, tokens: len),
        encoding(members=0),
    ],
    "layers and embedding belong to the encoder": [
        encoding(layers=property(lambda s: [s.embedding, s.embedding])),
        encoding(layers=property(lambda s: [nn.Linear(1, 1)])),
        encoding(layers=property(lambda s: [s.linear])),
    ],
    "holds weights in parameters and buffers": [
        holding(lambda: torch.ones(WIDTH)),
        holding(lambda: torch.ones(WIDTH, requires_grad=True)),
        holding(lambda: [nn.Linear(WIDTH, WIDTH)]),
    ],
    "encodes every token": [changed(architecture=lambda s, t: {"size": t.get_vocab_size() - 1})],
    "encodes texts of max_length": [
        changed(encoder_class=Positions, max_length=None),
        changed(encoder_class=Positions, max_length=65),
    ],
    "encodes as float32 (B, hidden_size)": [
        encoding(hidden_size=5),
        after(lambda s, x, ids, mask: x.double()),
        after(lambda s, x, ids, mask: x / (mask.sum(1, keepdim=True) > 1)),
        after(lambda s, x, ids, mask: x.half()),
        after(lambda s, x, ids, mask: (x,)),
        after(lambda s, x, ids, mask: s.embedding(ids)),
    ],
    "padding changes nothing": [
        encoding(pooled=lambda s, ids, mask: s.embedding(ids).mean(1)),
        after(lambda s, x, ids, mask: x / ids.shape[1]),
        after(lambda s, x, ids, mask: x + s.embedding(ids[:, -1])),
        encoding(pooled=lambda s, ids, mask: s.embedding(ids).amax(1)),
        changed(encoder_class=Bags),
    ],
    "independent of the other rows of the batch": [
        after(lambda s, x, ids, mask: x - x.mean(0)),
        changed(encoder_class=Normed),
        after(lambda s, x, ids, mask: x / x.norm()),
    ],
    "deterministic": [
        after(lambda s, x, ids, mask: nn.functional.dropout(x, 0.5, True)),
        after(lambda s, x, ids, mask: x + 0 * ids.clamp_(max=9)[:, :1]),
        after(lambda s, x, ids, mask: x * float(np.random.default_rng().uniform())),
    ],
    "gradient reaches every parameter": [
        changed(encoder_class=WithUnused),
        after(lambda s, x, ids, mask: x.detach() + s.linear.bias),
        after(lambda s, x, ids, mask: x - x),
        encoding(pooled=lambda s, ids, mask: MeanEncoder.pooled(s, ids, mask).detach()),
    ],
    "checkpointing changes nothing": [changed(encoder_class=Checkpointed)],
    "a deep copy is independent": [changed(encoder_class=Closure)],
    "reopens from a run": [
        changed(encoder_class=KeepsOutside),
        changed(encoder=lambda s, a, t, tokens: MeanEncoder(len(tokens.ids))),
        Idf,
        Remembers,
        InTheClass,
        changed(encoder_class=ByHash),
        changed(encoder_class=ByHashAtFirst),
        changed(encoder=lambda s, a, t, tokens: MeanEncoder(int(tokens.ids.max()) + 1)),
    ],
    "exports exactly": [
        after(lambda s, x, ids, mask: x * (1.01 if torch.compiler.is_exporting() else 1.0)),
        after(lambda s, x, ids, mask: x if x.sum() > 0 else 2 * x),
    ],
}


def right(layers):
    """The built-in plugins in tiny sizes, and a toy."""
    random = {"random_weights": True}

    def pretrained(architecture, options, **numbers):
        return lambda: tiny(architecture, options, num_hidden_layers=layers, **numbers)

    bag = Bag.Options(vocab_size=300, buckets=64, width=4, members=2)
    lstm = Lstm.Options(vocab_size=300, embedding=6, width=5, layers=layers)
    small = SmallTransformer.Options(vocab_size=300, width=16, layers=layers, heads=2, pooling="lead")
    whole = DebertaOptions(**random, slice_positions=False, pooling="cls")
    return {
        "bag": lambda: Bag(bag),
        "lstm": lambda: Lstm(lstm),
        "mlp": Mlp,
        "roberta-base": pretrained(transformer.ROBERTA_BASE, UnpaddedOptions(**random, pooling="cls")),
        "deberta-v3-small": pretrained(
            transformer.DEBERTA_V3_SMALL, DebertaOptions(**random), position_buckets=8
        ),
        # Their graphs are like those of the two above.
        "transformer": lambda: SmallTransformer(small),
        "distilroberta": pretrained(transformer.DISTILROBERTA, UnpaddedOptions(**random)),
        "deberta-v3-base": pretrained(transformer.DEBERTA_V3_BASE, whole, position_buckets=8),
        "right": Right,
    }


def each():
    """All checks of all backbones; the export, which takes seconds, has one layer, and is mostly a slow test."""
    for name, make in right(layers=2).items():
        yield from ((name, check, ()) for check in check_backbone(make) if check.name != "exports exactly")
    for name, make in list(right(layers=1).items())[:5]:
        marks = () if name in ("bag", "lstm") else pytest.mark.slow
        yield from ((name, check, marks) for check in check_backbone(make) if check.name == "exports exactly")


@pytest.mark.parametrize(
    "check", [pytest.param(check, id=f"{name}: {check}", marks=marks) for name, check, marks in each()]
)
def test_a_correct_backbone_passes(check):
    check()


def test_a_gate_that_starts_at_0_is_not_an_error():
    make = changed(encoder_class=ZeroGate)
    next(check for check in check_backbone(make) if check.name.startswith("gradient"))()


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, makes in WRONG.items() for make in makes])
def test_a_faulty_backbone_fails_its_check(name, make, raises):
    check = next(check for check in check_backbone(make) if check.name == name)
    with raises(CheckFailed):
        check()


def test_every_check_has_a_faulty_plugin_that_fails_it():
    assert set(WRONG) == {check.name for check in check_backbone(Right)}


def test_the_texts_of_a_table_are_tried(raises):
    def tokenizer(self, texts):
        if any("mate" in text for text in texts):
            raise ValueError("no mate")
        return Right.tokenizer(self, texts)

    table = read_frame(pd.DataFrame({"title": ["yerba mate", "tea"]}), Columns(("title",), None))
    without, tried = (
        next(c for c in check_backbone(changed(tokenizer=tokenizer), rows) if c.name == "trains a tokenizer")
        for rows in (None, table)
    )
    without()
    with raises(CheckFailed):
        tried()
