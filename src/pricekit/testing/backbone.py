"""The checks of a backbone plugin, its tokenizer and its encoder. Imports torch."""

from __future__ import annotations

import builtins
import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from pricekit.config import HeadConfig
from pricekit.core.contracts import Batch
from pricekit.nets.inference import to_tensors, torch_engine
from pricekit.nets.losses import smape
from pricekit.nets.network import PriceModel
from pricekit.predict.limits import check_graph
from pricekit.predict.ort import load_cpu
from pricekit.table import Table
from pricekit.testing.data import DIFFICULT_TEXTS, FEATURES, difference, ordinary_texts
from pricekit.testing.models import export_bytes, stored_into
from pricekit.testing.runner import Checks, Make, fail, is_count, is_float32, require_methods, shown
from pricekit.text.tokens import encode, pad_id_of, pad_rows

LONGEST, ROOM, ROWS, SHORT = 64, 5, 8, 1000
TOLERANCE = 1e-4
"""Relative tolerance: for encodings as before training, for exported prices as in export."""

TOKENS = 64
SPREAD = 4.0
"""The total size of the terms of a raw output; its rounding stays far below the tolerance."""

MANY = 256
"""The most texts of a table that are used."""

UNLIMITED = 1024
"""The number of tokens that an encoder without a max_length is tried with."""

SHAPES = ((1, 1), (2, 7), (3, 17), (ROWS, LONGEST))


def checks(table: Table | None = None) -> Checks:
    """Return the checks; see `pricekit.testing.check_backbone`."""
    texts = ordinary_texts()
    if table is not None:
        texts = [*texts, *table.text.iloc[:MANY].tolist()]
    on_texts = {
        "trains a tokenizer": _tokenizer,
        "tokenizer is the same each time": _same_tokenizer,
        "tokenizer survives JSON": _round_trip,
        "tokenizer accepts every text": _every_text,
        "architecture is JSON": _architecture,
        "hidden_size and members": _sizes,
        "layers and embedding belong to the encoder": _layers,
        "holds weights in parameters and buffers": _holds_all,
        "encodes as float32 (B, hidden_size)": _output,
        "encodes every token": _every_token,
        "encodes texts of max_length": _longest,
        "padding changes nothing": _padding,
        "independent of the other rows of the batch": _batch_sensitivity,
        "deterministic": _twice,
        "gradient reaches every parameter": _gradients,
        "checkpointing changes nothing": _checkpointing,
        "a deep copy is independent": _deep_copy,
        "reopens from a run": _opens_again,
        "exports exactly": _exports,
    }
    return {
        "has tokenizer and encoder": lambda make: require_methods(make(), "tokenizer", "encoder"),
        "max_length is None or a number": _max_length,
        **{name: partial(check, texts=texts) for name, check in on_texts.items()},
    }


@dataclass(frozen=True)
class Built:
    """A new encoder in evaluation mode, and its parts.

    Attributes:
        tokenizer: the trained tokenizer.
        architecture: the architecture as a run stores it.
        encoder: the encoder module.
        batches: `input_ids` and `attention_mask`, int64 (B, L), with rows of many lengths.
        room: how many tokens of padding the batches can still take.
    """

    tokenizer: Tokenizer
    architecture: Any
    encoder: Any
    batches: list[tuple[Tensor, Tensor]]
    room: int

    @torch.no_grad()
    def encoding(self, encoder: nn.Module | None = None) -> Tensor:
        """Return the encoding of the first batch, by another encoder if one is named."""
        encoding: Tensor = (encoder or self.encoder)(*self.batches[0])
        return encoding

    @torch.no_grad()
    def rows_alone(self, lengths: Sequence[int]) -> Tensor:
        """Return the encoding of the first batch, computed row by row, each with its number of tokens."""
        ids, mask = self.batches[0]
        rows = enumerate(lengths)
        return torch.cat([self.encoder(ids[row : row + 1, :n], mask[row : row + 1, :n]) for row, n in rows])


def training_texts(texts: Sequence[str]) -> list[str]:
    """Return texts to train tokenizers on, without the very long ones, which are slow."""
    return [*texts, *(text for text in DIFFICULT_TEXTS if len(text) < SHORT)]


def build(make: Make, texts: Sequence[str]) -> Built:
    """Build tokenizer and encoder as training does."""
    plugin = make()
    tokenizer = plugin.tokenizer(training_texts(texts))
    architecture = json.loads(json.dumps(plugin.architecture(tokenizer)))
    longest = min(LONGEST, plugin.max_length or LONGEST)
    room, pad_id = min(ROOM, longest - 1), pad_id_of(tokenizer)
    mixed = [*texts[:4], "", "tea", "Item Name: green tea, 12 oz", DIFFICULT_TEXTS[4], *texts[4:]]
    tokens = encode(tokenizer, mixed, longest - room, pad_id)
    encoder = plugin.encoder(architecture, tokenizer, tokens)
    if not isinstance(encoder, nn.Module):
        fail(
            f"encoder returned {shown(encoder)}",
            "a torch.nn.Module",
            "derive the encoder from torch.nn.Module",
        )
    starts = range(0, len(tokens) - ROWS, ROWS)
    padded = [pad_rows(tokens, np.arange(start, start + ROWS), pad_id) for start in starts]
    batches = [(torch.from_numpy(ids), torch.from_numpy(mask)) for ids, mask in padded]
    return Built(tokenizer, architecture, encoder.eval(), batches, room)


def _max_length(make: Make) -> None:
    longest = getattr(make(), "max_length", "absent")
    if longest is not None and not is_count(longest):
        fail(f"max_length is {longest!r}", "None or an int of at least 1", "write max_length = None")


def _trained(plugin: Any, texts: Sequence[str]) -> Tokenizer:
    tokenizer = plugin.tokenizer(training_texts(texts))
    if not isinstance(tokenizer, Tokenizer):
        fail(
            f"tokenizer returned {type(tokenizer).__module__}.{type(tokenizer).__qualname__}",
            "a tokenizers.Tokenizer",
            "for a transformers tokenizer, return its backend_tokenizer",
        )
    return tokenizer


def _tokenizer(make: Make, texts: Sequence[str]) -> None:
    tokenizer = _trained(make(), texts)
    size, pad_id = tokenizer.get_vocab_size(), pad_id_of(tokenizer)
    if not 0 <= pad_id < size:
        fail(
            f"the padding id is {pad_id}, the vocabulary size {size}",
            "an id in the vocabulary",
            "fix enable_padding",
        )
    if not tokenizer.encode("Item Name: green tea, 12 oz").ids:
        fail(
            "an ordinary text has no tokens",
            "at least one",
            "train on the given texts, or check the normalizer",
        )
    if pad_id in np.unique(encode(tokenizer, texts, TOKENS, -1).ids):
        fail(
            f"the padding id {pad_id} is also the token {tokenizer.id_to_token(pad_id)!r} of texts",
            "an id that no text contains",
            "train with a special token such as [PAD] as the first one, or set its id by enable_padding",
        )


def _same_tokenizer(make: Make, texts: Sequence[str]) -> None:
    first, second = (_trained(make(), texts).to_str() for _ in range(2))
    if first != second:
        fail(
            "the same texts give another tokenizer the second time",
            "the same one, so that a training with the same seed can be repeated",
            "use no random numbers, and sort what comes from a set",
        )


def _round_trip(make: Make, texts: Sequence[str]) -> None:
    tokenizer = _trained(make(), texts)
    again = Tokenizer.from_str(tokenizer.to_str())
    encoded = (one.encode_batch(training_texts(texts)) for one in (tokenizer, again))
    for text, one, other in zip(training_texts(texts), *encoded, strict=True):
        if one.ids != other.ids:
            fail(
                f"after a round trip through JSON, the tokenizer gives different ids for {text[:60]!r}",
                "the same ids, because a bundle stores only the JSON",
                "use no components written in Python, such as a custom pre-tokenizer",
            )


def _every_text(make: Make, texts: Sequence[str]) -> None:
    tokenizer = _trained(make(), texts)
    ids = encode(tokenizer, DIFFICULT_TEXTS, TOKENS, pad_id_of(tokenizer)).ids
    size = tokenizer.get_vocab_size()
    if ids.min() < 0 or ids.max() >= size:
        fail(
            f"the tokenizer gave ids from {ids.min()} to {ids.max()} with a vocabulary of {size}",
            "ids from 0 to below the vocabulary size, because the encoder looks them up",
            "add every special token to the vocabulary",
        )


def _architecture(make: Make, texts: Sequence[str]) -> None:
    plugin = make()
    values = plugin.architecture(_trained(plugin, texts))
    if not isinstance(values, dict):
        fail(
            f"architecture returned {shown(values)}", "a dict", "return {} if the options define the encoder"
        )
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(
            f"architecture is not JSON: {error}",
            "finite numbers, strings, lists and dicts",
            "leave out other values",
        )


def _sizes(make: Make, texts: Sequence[str]) -> None:
    encoder = build(make, texts).encoder
    hidden, members = getattr(encoder, "hidden_size", None), getattr(encoder, "members", None)
    if not (is_count(hidden) and is_count(members) and hidden >= members):
        fail(
            f"hidden_size is {hidden!r}, members {members!r}",
            "positive ints, with hidden_size >= members",
            "set both on the encoder",
        )
    if hidden % members:
        fail(
            f"hidden_size {hidden} is not a multiple of members {members}", "a multiple", "change hidden_size"
        )


def _layers(make: Make, texts: Sequence[str]) -> None:
    """`layers` and `embedding`, which select learning rates, hold parameters of the encoder, each once."""
    encoder = build(make, texts).encoder
    own = {id(parameter) for parameter in encoder.parameters()}
    held = [id(parameter) for layer in getattr(encoder, "layers", ()) for parameter in layer.parameters()]
    table = getattr(encoder, "embedding", nn.Module())
    if len(held) > len(set(held)) or not {*held, *(id(p) for p in table.parameters())} <= own:
        fail(
            "layers or embedding hold a parameter twice, or a parameter that is not the encoder's",
            "modules of the encoder, each in one layer",
            "list modules of the encoder, the embeddings first",
        )
    sizes = {id(parameter): parameter.numel() for parameter in encoder.parameters()}
    if held and sum(map(sizes.__getitem__, held)) < sum(sizes.values()) / 2:
        fail(
            "layers hold less than half of the encoder's parameters",
            "all of its layers, because training.layer_decay leaves the others as they are",
            "list all layers from the input up, the embeddings first",
        )


def _holds_all(make: Make, texts: Sequence[str]) -> None:
    """Every tensor in an attribute, and every module in a list or a dict, is saved and moved with the encoder."""
    encoder = build(make, texts).encoder
    own = {id(part) for part in (*encoder.modules(), *encoder.parameters(), *encoder.buffers())}
    for path, module in encoder.named_modules():
        for name, value in vars(module).items():
            if name in _OF_TORCH:
                continue
            values = value.values() if isinstance(value, dict) else value
            for part in values if isinstance(value, (list, tuple, dict)) else (value,):
                if isinstance(part, (Tensor, nn.Module)) and id(part) not in own:
                    fail(
                        f"{'.'.join(filter(None, (path, name)))} holds a {type(part).__name__} that is no part of the "
                        "encoder: it is not trained, not saved, and not moved to a GPU",
                        "only parameters, buffers and modules",
                        "use nn.Parameter for what is learned, register_buffer for what is fitted, and nn.ModuleList "
                        "for several modules",
                    )


_OF_TORCH = frozenset(vars(nn.Module()))
"""The attributes that a module has itself, such as its parameters."""


def _output(make: Make, texts: Sequence[str]) -> None:
    """The output has the right shape and dtype and is finite."""
    built = build(make, texts)
    encoding, shape = built.encoding(), (len(built.batches[0][0]), built.encoder.hidden_size)
    if not is_float32(encoding, Tensor, shape):
        fail(
            f"the encoder returned {shown(encoding)}",
            f"float32 of shape {shape}",
            "pool over the tokens and return float32",
        )
    if not encoding.isfinite().all():
        row = int((~encoding.isfinite()).nonzero()[0, 0])
        fail(
            f"the encoding of {built.tokenizer.decode(built.batches[0][0][row].tolist())[:60]!r} is not finite",
            "finite numbers",
            "clamp divisors to at least 1",
        )


@torch.no_grad()
def _every_token(make: Make, texts: Sequence[str]) -> None:
    built = build(make, texts)
    size, width = built.tokenizer.get_vocab_size(), built.batches[0][0].shape[1]
    for ids in torch.split(torch.arange(size), ROWS * width):
        rows = functional.pad(ids, (0, -len(ids) % width)).view(-1, width)
        try:
            encoding = built.encoder(rows, torch.ones_like(rows))
        except (IndexError, RuntimeError) as error:
            fail(
                f"the encoder fails for an id from {ids[0]} to {ids[-1]}: {type(error).__name__}: {error}",
                f"an encoding of each of the {size} ids of the vocabulary",
                "size the embedding by tokenizer.get_vocab_size()",
            )
        if not encoding.isfinite().all():
            fail(
                f"the encoding of the ids {ids[0]} to {ids[-1]} is not finite",
                "finite numbers",
                "check its weights",
            )


@torch.no_grad()
def _longest(make: Make, texts: Sequence[str]) -> None:
    built, longest = build(make, texts), make().max_length
    length = min(longest or UNLIMITED, UNLIMITED)
    rows = _resized(built, 2, length, padded=False)
    try:
        encoding = built.encoder(*(torch.from_numpy(rows[name]) for name in ("input_ids", "attention_mask")))
    except (IndexError, RuntimeError) as error:
        fail(
            f"the encoder fails for {length} tokens: {type(error).__name__}: {error}",
            f"an encoding, because its max_length is {longest}",
            "set max_length to the number of positions",
        )
    if not encoding.isfinite().all():
        fail(f"the encoding of {length} tokens is not finite", "finite numbers", "set max_length")


def _padding(make: Make, texts: Sequence[str]) -> None:
    """Padding, whatever its amount and ids, does not change the encoding."""
    built = build(make, texts)
    ids, mask = built.batches[0]
    other = functional.pad(torch.where(mask > 0, ids, ids.flip(1)), (0, built.room), value=int(ids[0, 0]))
    with torch.no_grad():
        padded = built.encoder(other, functional.pad(mask, (0, built.room)))
    fix = "apply attention_mask wherever tokens are mixed"
    changed = "with different ids and more padding where attention_mask is 0"
    _require_close(padded, built.encoding(), changed, fix)
    _require_close(built.rows_alone(mask.sum(1).tolist()), built.encoding(), "without padding", fix)


def _batch_sensitivity(make: Make, texts: Sequence[str]) -> None:
    """A row alone has the encoding that it has in the batch; the length stays the same."""
    built = build(make, texts)
    rows, length = built.batches[0][0].shape
    fix = "compute no mean, norm or maximum over the rows of a batch"
    _require_close(built.rows_alone([length] * rows), built.encoding(), "alone in a batch", fix)


def _require_close(encoding: Tensor, expected: Tensor, condition: str, fix: str) -> None:
    error = float((encoding - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
    if not error <= TOLERANCE:
        fail(
            f"{condition}, the encoding of a row differs by {error:.2g} of the largest value",
            f"a difference of at most {TOLERANCE:g}",
            fix,
        )


def _twice(make: Make, texts: Sequence[str]) -> None:
    """Evaluation mode uses no random numbers."""
    built = build(make, texts)
    before = [tensor.clone() for tensor in built.batches[0]]
    same = torch.equal(built.encoding(), built.encoding())
    if not all(map(torch.equal, built.batches[0], before)):
        fail(
            "the encoder changes the ids or the mask that it gets",
            "no change",
            "use no operation in place on input_ids and attention_mask",
        )
    if not same:
        fail(
            "in evaluation mode, the second call gives a different encoding",
            "bitwise equal encodings",
            "apply dropout and other randomness only if self.training",
        )


def _gradients(make: Make, texts: Sequence[str]) -> None:
    """Over several batches, gradients reach every trainable parameter; an embedding needs a batch with its token."""
    built = build(make, texts)
    encoder = built.encoder.train()
    if not any(parameter.requires_grad for parameter in encoder.parameters()):
        return
    with torch.no_grad():  # gates that start at 0 would block the gradients
        for parameter in encoder.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    for batch in built.batches:
        encoding = encoder(*batch)
        (encoding * torch.randn_like(encoding)).sum().backward()
    trained = {name: p for name, p in encoder.named_parameters() if p.requires_grad}
    wrong = []
    for name, parameter in trained.items():
        gradient = torch.zeros(1) if parameter.grad is None else parameter.grad
        values = gradient.coalesce().values() if gradient.is_sparse else gradient
        if not (values.isfinite().all() and values.any()):
            wrong.append(name)
    if wrong:
        fail(
            f"no finite, nonzero gradient reaches {', '.join(wrong)}",
            "a gradient for every parameter",
            "remove parameters that the encoding does not use, or freeze them with requires_grad_(False)",
        )


def _checkpointing(make: Make, texts: Sequence[str]) -> None:
    """`gradient_checkpointing_enable`, if present, changes neither the encoding nor the gradients."""
    built = build(make, texts)
    if not hasattr(built.encoder, "gradient_checkpointing_enable"):
        return
    encoder, results = built.encoder.train(), []
    for _ in range(2):
        encoder.zero_grad()
        torch.manual_seed(0)  # the same dropout
        encoding = encoder(*built.batches[0])
        encoding.square().sum().backward()
        results.append(
            [encoding.detach(), *(p.grad.clone() for p in encoder.parameters() if p.grad is not None)]
        )
        encoder.gradient_checkpointing_enable()
    plain, again = results
    if len(plain) != len(again) or not all(map(_alike, again, plain)):
        fail(
            "gradient_checkpointing_enable changes the encoding or a gradient",
            "no change, because it only saves memory",
            "use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
        )


def _alike(tensor: Tensor, expected: Tensor) -> bool:
    tensor, expected = tensor.to_dense(), expected.to_dense()
    return torch.allclose(tensor, expected, rtol=1e-3, atol=TOLERANCE * float(expected.abs().max()))


def _deep_copy(make: Make, texts: Sequence[str]) -> None:
    """A deep copy, such as the moving average of the weights, is independent of the encoder."""
    built = build(make, texts)
    expected = built.encoding()
    twin = copy.deepcopy(built.encoder)
    with torch.no_grad():
        for tensor in (*built.encoder.parameters(), *built.encoder.buffers()):
            tensor.zero_()
    if not torch.equal(built.encoding(twin), expected):
        fail(
            "a deep copy changes with the original encoder, or has a different encoding from the start",
            "an independent copy, because training.ema_decay averages the weights in one",
            "store no bound method and no closure over the module: access parameters through self",
        )


def _opens_again(make: Make, texts: Sequence[str]) -> None:
    """Architecture, tokenizer and weights restore the encoder, as when a run is opened."""
    built = build(make, texts)
    tokenizer = Tokenizer.from_str(built.tokenizer.to_str())
    expected = built.encoding()
    build(make, texts[: len(texts) // 2])  # another encoder of the same process
    with _other_hashes():
        fresh = make().encoder(built.architecture, tokenizer, None).eval()
        stored_into(fresh, built.encoder)
        encoding = built.encoding(fresh)
    if not torch.equal(encoding, expected):
        fail(
            "an encoder restored from architecture, tokenizer and weights has a different encoding",
            "bitwise equal encodings",
            "store learned or fitted values in parameters and buffers, choices in the options, and the sizes read "
            "from a weights folder in architecture; Python's hash() differs in each process: use zlib.crc32",
        )


@contextmanager
def _other_hashes() -> Iterator[None]:
    """Let `hash` return other numbers for texts, as it does in another process."""
    own = builtins.hash
    builtins.hash = lambda value: own(value) ^ 1 if isinstance(value, (str, bytes)) else own(value)
    try:
        yield
    finally:
        builtins.hash = own


def _exports(make: Make, texts: Sequence[str]) -> None:
    """The exported graph gives the prices of the model, for many shapes, with and without padding."""
    built = build(make, texts)
    model = PriceModel(built.encoder, HeadConfig(), smape(), FEATURES).eval()
    longest = built.batches[0][0].shape[1] + built.room
    _spread(model, _resized(built, ROWS, longest, padded=True))
    # torch.export treats a length of 1 as a constant.
    example = _resized(built, 3, max(2, min(17, longest)), padded=True)
    content = export_bytes(model, example)
    check_graph(content, "the graph")
    reference, graph = torch_engine(model), load_cpu(content)
    for rows, length in SHAPES:
        for padded in (True, False):
            batch = _resized(built, rows, min(length, longest), padded=padded)
            error = difference(graph(batch), reference(batch))
            if not error <= TOLERANCE:
                fail(
                    f"for shape {batch['input_ids'].shape}, prices of ONNX Runtime and torch differ by {error:.2g}",
                    f"a relative difference of at most {TOLERANCE:g}",
                    "let no Python number depend on batch size, length or values: tracing fixes it",
                )


def _resized(built: Built, rows: int, length: int, *, padded: bool) -> Batch:
    """Return the first batch, repeated or cut to a shape; without padding, every token counts."""
    ids, mask = (tensor.numpy() for tensor in built.batches[0])
    row, position = np.arange(rows) % len(ids), np.arange(length)
    live = position < mask[row].sum(1)[:, None] if padded else np.ones((rows, length), bool)
    return {
        "input_ids": ids[row][:, position % ids.shape[1]],
        "attention_mask": live.astype(np.int64),
        "features": np.zeros((rows, FEATURES), np.float32),
    }


@torch.no_grad()
def _spread(model: PriceModel, batch: Batch) -> None:
    """Scale the heads so that prices depend on the encoding: with new weights all prices may be nearly equal."""
    tensors = to_tensors(batch)
    encoding = model.encoder(tensors["input_ids"], tensors["attention_mask"])
    for head, group in zip(model.heads, encoding.chunk(model.members, 1), strict=True):
        last: Any = head[-1]  # type: ignore[index]
        weight = last.weight[0, : group.shape[1]]
        last.weight.mul_(SPREAD / (group.abs() @ weight.abs()).mean().clamp(min=1e-12))
        last.bias.copy_(-(group @ weight).mean())
