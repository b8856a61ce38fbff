"""The checks of an encoder that learns, and is kept; this module imports torch."""

from __future__ import annotations

import copy

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from pricekit.testing.models import TOLERANCE, build, stored_into
from pricekit.testing.runner import Make, fail


def gradients(make: Make) -> None:
    """From several batches together: a row of embeddings is reached only where its token occurs."""
    built = build(make)
    encoder = built.encoder.train()
    with torch.no_grad():  # what starts at 0, as gates may, lets no gradient through at first
        for parameter in encoder.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    for batch in built.batches:
        encoding = encoder(*batch)
        (encoding * torch.randn_like(encoding)).sum().backward()
    trained = {name: p for name, p in encoder.named_parameters() if p.requires_grad}
    wrong = [name for name, parameter in trained.items() if not _reached(parameter.grad)]
    if wrong:
        fail(
            f"no gradient, or none that is finite and not 0, reaches {', '.join(wrong)}",
            "one for every parameter",
            "leave out what the encoding does not use, or freeze it with requires_grad_(False)",
        )


def _reached(gradient: Tensor | None) -> bool:
    if gradient is None:
        return False
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.isfinite().all() and values.any())


def checkpointing(make: Make) -> None:
    """Where there is `gradient_checkpointing_enable`."""
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
            "after gradient_checkpointing_enable the encoding or a gradient is another",
            "the same: it only saves memory",
            "use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
        )


def _alike(found: Tensor, expected: Tensor) -> bool:
    found, expected = found.to_dense(), expected.to_dense()
    return torch.allclose(found, expected, rtol=1e-3, atol=TOLERANCE * float(expected.abs().max()))


def layers(make: Make) -> None:
    """What rates by layer and the rate of embeddings are given to."""
    encoder = build(make).encoder
    own = {id(parameter) for parameter in encoder.parameters()}
    held = [id(parameter) for layer in getattr(encoder, "layers", ()) for parameter in layer.parameters()]
    table = getattr(encoder, "embedding", nn.Module())
    if len(held) > len(set(held)) or not {*held, *(id(p) for p in table.parameters())} <= own:
        fail(
            "layers or embedding hold a parameter twice, or one that is not the encoder's",
            "modules of the encoder, each in one layer",
            "list the encoder's own modules, the embeddings first",
        )


def deep_copy(make: Make) -> None:
    """As the moving average of the weights is one."""
    built = build(make)
    expected = built.encoding()
    twin = copy.deepcopy(built.encoder)
    with torch.no_grad():
        for tensor in (*built.encoder.parameters(), *built.encoder.buffers()):
            tensor.zero_()
        found = twin(*built.batches[0])
    if not torch.equal(found, expected):
        fail(
            "a deep copy changes with the encoder that it was copied from, or begins with another encoding",
            "one of its own: training.ema_decay averages such a copy",
            "hold no bound method and no closure over the module: look parameters up through self",
        )


def opens_again(make: Make) -> None:
    """From architecture, tokenizer and weights, as a run is opened."""
    built = build(make)
    expected = built.encoding()
    tokenizer = Tokenizer.from_str(built.tokenizer.to_str())
    fresh = make().encoder(built.architecture, tokenizer, None).eval()
    stored_into(fresh, built.encoder)
    with torch.no_grad():
        found = fresh(*built.batches[0])
    if not torch.equal(found, expected):
        fail(
            "made anew from architecture and tokenizer, and given the weights, it has another encoding",
            "the same to the bit",
            "keep what is learned or fitted in parameters and buffers, what is chosen in the options, and what a "
            "folder of weights says in architecture",
        )
