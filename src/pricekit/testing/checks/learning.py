"""The checks of training and storing an encoder. Imports torch."""

from __future__ import annotations

import copy

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from pricekit.testing.models import TOLERANCE, build, stored_into
from pricekit.testing.runner import Make, fail


def gradients(make: Make) -> None:
    """Over several batches, gradients reach every parameter; an embedding needs a batch with its token."""
    built = build(make)
    encoder = built.encoder.train()
    with torch.no_grad():  # gates that start at 0 would block the gradients
        for parameter in encoder.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    for batch in built.batches:
        encoding = encoder(*batch)
        (encoding * torch.randn_like(encoding)).sum().backward()
    trained = {name: p for name, p in encoder.named_parameters() if p.requires_grad}
    wrong = [name for name, parameter in trained.items() if not _reached(parameter.grad)]
    if wrong:
        fail(
            f"no finite, nonzero gradient reaches {', '.join(wrong)}",
            "a gradient for every parameter",
            "remove parameters that the encoding does not use, or freeze them with requires_grad_(False)",
        )


def _reached(gradient: Tensor | None) -> bool:
    if gradient is None:
        return False
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.isfinite().all() and values.any())


def checkpointing(make: Make) -> None:
    """`gradient_checkpointing_enable`, if present, changes neither the encoding nor the gradients."""
    built = build(make)
    if not hasattr(built.encoder, "gradient_checkpointing_enable"):
        return
    encoder, found = built.encoder.train(), []
    for _ in range(2):
        encoder.zero_grad()
        torch.manual_seed(0)  # the same dropout
        encoding = encoder(*built.batches[0])
        encoding.square().sum().backward()
        found.append(
            [encoding.detach(), *(p.grad.clone() for p in encoder.parameters() if p.grad is not None)]
        )
        encoder.gradient_checkpointing_enable()
    plain, again = found
    if len(plain) != len(again) or not all(map(_alike, again, plain)):
        fail(
            "gradient_checkpointing_enable changes the encoding or a gradient",
            "no change, because it only saves memory",
            "use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
        )


def _alike(found: Tensor, expected: Tensor) -> bool:
    found, expected = found.to_dense(), expected.to_dense()
    return torch.allclose(found, expected, rtol=1e-3, atol=TOLERANCE * float(expected.abs().max()))


def layers(make: Make) -> None:
    """`layers` and `embedding`, which select learning rates, hold parameters of the encoder, each once."""
    encoder = build(make).encoder
    own = {id(parameter) for parameter in encoder.parameters()}
    held = [id(parameter) for layer in getattr(encoder, "layers", ()) for parameter in layer.parameters()]
    table = getattr(encoder, "embedding", nn.Module())
    if len(held) > len(set(held)) or not {*held, *(id(p) for p in table.parameters())} <= own:
        fail(
            "layers or embedding hold a parameter twice, or a parameter that is not the encoder's",
            "modules of the encoder, each in one layer",
            "list modules of the encoder, the embeddings first",
        )


def deep_copy(make: Make) -> None:
    """A deep copy, such as the moving average of the weights, is independent of the encoder."""
    built = build(make)
    expected = built.encoding()
    twin = copy.deepcopy(built.encoder)
    with torch.no_grad():
        for tensor in (*built.encoder.parameters(), *built.encoder.buffers()):
            tensor.zero_()
        found = twin(*built.batches[0])
    if not torch.equal(found, expected):
        fail(
            "a deep copy changes with the original encoder, or has a different encoding from the start",
            "an independent copy, because training.ema_decay averages the weights in one",
            "store no bound method and no closure over the module: access parameters through self",
        )


def opens_again(make: Make) -> None:
    """Architecture, tokenizer and weights restore the encoder, as when a run is opened."""
    built = build(make)
    expected = built.encoding()
    tokenizer = Tokenizer.from_str(built.tokenizer.to_str())
    fresh = make().encoder(built.architecture, tokenizer, None).eval()
    stored_into(fresh, built.encoder)
    with torch.no_grad():
        found = fresh(*built.batches[0])
    if not torch.equal(found, expected):
        fail(
            "an encoder restored from architecture, tokenizer and weights has a different encoding",
            "bitwise equal encodings",
            "store learned or fitted values in parameters and buffers, choices in the options, and the sizes read "
            "from a weights folder in architecture",
        )
