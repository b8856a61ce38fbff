"""Pretrained weights: found in a folder, in the local cache of the hub or on the hub, then loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers
from transformers import PreTrainedModel

from pricekit.errors import ConfigError, check_intact, is_panic
from pricekit.support.causes import raise_outside_cause
from pricekit.support.text import shorten

_TOKENIZER = ("tokenizer.json", "spm.model", "vocab.txt", "vocab.json")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PRETRAINED = "pretrain.json"
"""Describes a folder of weights that `pretrain` has written, with digests in `files.json`."""

POOLING_FILE, SENTENCE_FILE = "1_Pooling/config.json", "config_sentence_transformers.json"
"""Files in which sentence-transformers keeps the pooling and the prefixes of texts."""

_PATTERNS = [
    "config.json",
    "tokenizer*.json",
    "spm.model",
    "*.spm",
    "vocab.*",
    "merges.txt",
    "model*.safetensors*",
]
_PATTERNS += [POOLING_FILE, SENTENCE_FILE]


def find_weights(weights: str, backbone: str) -> Path:
    """Return the folder of pretrained weights; download it if it is neither a folder nor in the cache.

    Args:
        weights: a folder, or an id on the hub.
        backbone: name of the backbone, for messages.

    Raises:
        ConfigError: there is no such folder, a file is missing, or the hub cannot be reached.
    """
    folder = Path(weights).expanduser()
    if folder.is_dir():
        return _checked(folder)
    if folder.exists() or folder.is_absolute() or weights.startswith((".", "~")) or weights.count("/") > 1:
        raise ConfigError(
            f"the weights {weights} are not a folder; expected one with {_expected()}",
            parameters=("weights",),
        )
    return _checked(_from_hub(weights, backbone))


def _expected() -> str:
    return "config.json, tokenizer.json and model.safetensors"


def _checked(folder: Path) -> Path:
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    if not any((folder / name).is_file() for name in _TOKENIZER):
        missing.append("tokenizer.json")
    if not any((folder / name).is_file() for name in _WEIGHTS):
        pickled = sorted(p.name for p in folder.glob("*.bin")) + sorted(p.name for p in folder.glob("*.pt"))
        if pickled:
            raise ConfigError(
                f"the weights in {folder} are only pickled ({', '.join(pickled)}); a pickle can run any code, so it is "
                "not opened. If you trust it, convert it once: load it with transformers and call "
                "save_pretrained(folder), which writes model.safetensors; then use that folder as weights",
                parameters=("weights",),
                path=str(folder),
            )
        missing.append("model.safetensors")
    if missing:
        raise ConfigError(
            f"the weights in {folder} lack {', '.join(missing)}; expected {_expected()}",
            parameters=("weights",),
            missing=missing,
        )
    if (folder / PRETRAINED).is_file():
        check_intact(folder, None, "pretrain again", ConfigError)
    return folder


def _from_hub(repository: str, backbone: str) -> Path:
    from huggingface_hub import snapshot_download

    with quiet_transformers():
        for cached in (True, False):
            try:
                found = snapshot_download(
                    repository, allow_patterns=_PATTERNS, local_files_only=cached, etag_timeout=5
                )
                return Path(found)
            except Exception as error:  # no network, no such repository, no access: many kinds of errors
                raise_outside_cause(error)
                reason = shorten(str(error), 160)
    raise ConfigError(
        f"the weights '{repository}' of the backbone '{backbone}' are not on this machine, and downloading them failed "
        f"({reason}). Download https://huggingface.co/{repository} once ({_expected()}) into a folder and use that "
        "folder as weights. The backbone bag needs no download, and random weights are enough to measure speed",
        parameters=("weights", "backbone"),
        repository=repository,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the progress bars and reports of transformers and the hub while the block runs."""
    from huggingface_hub.utils import logging as typed_hub_logging
    from transformers.utils import logging as typed_logging

    logging: Any = typed_logging  # without types
    hub_logging: Any = typed_hub_logging
    before, hub_before = logging.get_verbosity(), hub_logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        hub_logging.set_verbosity(hub_before)
        if bars:
            logging.enable_progress_bar()


def read_config(folder: Path) -> dict[str, Any]:
    """Return the values of config.json, with `model_type`; raise ConfigError if it is damaged."""
    path = folder / "config.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if not isinstance(found["model_type"], str):
            raise ValueError("model_type is not a text")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is damaged ({error}); download the weights again", parameters=("weights",)
        ) from None
    return found


def put_before(tokenizer: Tokenizer, prefix: str) -> None:
    """Make a tokenizer put a prefix before each text."""
    if prefix:
        own = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(prefix), *own])


def set_padding(tokenizer: Tokenizer, pad_id: int | None) -> None:
    """Set the id that pads batches: that of the configuration, or else the tokenizer's own; no truncation."""
    known = tokenizer.id_to_token(pad_id) if pad_id is not None else None
    tokenizer.no_truncation()
    if known is not None:
        tokenizer.enable_padding(pad_id=pad_id, pad_token=known)
    elif not tokenizer.padding:
        tokenizer.enable_padding(pad_id=0, pad_token=tokenizer.id_to_token(0))


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder of weights; it is converted if there is no tokenizer.json.

    Raises:
        ConfigError: the folder contains no tokenizer that can be opened.
    """
    path = folder / "tokenizer.json"
    try:
        if path.is_file():
            return Tokenizer.from_file(str(path))
        from transformers import AutoTokenizer

        with quiet_transformers():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer
    except BaseException as error:  # tokenizers raises bare Exception and panics, and the conversion anything
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise_outside_cause(error)
        reason = shorten(str(error), 200)
        raise ConfigError(
            f"{folder} contains no fast tokenizer that can be opened ({reason}); expected tokenizer.json. To convert "
            "spm.model, pip install sentencepiece protobuf",
            parameters=("weights",),
            path=str(folder),
        ) from None


def load_model(
    model: Any, config: Any, folder: Path, name: str, arguments: Mapping[str, Any], *, new_head: bool = False
) -> PreTrainedModel:
    """Return a model with the weights of a folder, in float32.

    Args:
        model: the library's class.
        config: the configuration of the model.
        folder: the folder of the weights.
        name: the name of the backbone, for messages.
        arguments: additional arguments of the class.
        new_head: whether the head that predicts masked tokens may be new if the folder has none.

    Raises:
        ConfigError: the weights are damaged, or lack tensors of the model.
    """
    try:
        with quiet_transformers():
            made, found = model.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **arguments,
            )
    except Exception as error:  # a damaged file raises many kinds
        raise_outside_cause(error)
        reason = shorten(str(error), 200)
        raise ConfigError(
            f"the weights in {folder} cannot be loaded into '{name}': {reason}; download them again",
            parameters=("weights",),
            path=str(folder),
        ) from None
    encoder = f"{made.base_model_prefix}."
    missing = sorted(key for key in found["missing_keys"] if key.startswith(encoder) or not new_head)
    if missing:
        raise ConfigError(
            f"the weights in {folder} lack {len(missing)} tensors of '{name}', such as {missing[0]}: they are "
            "from another architecture",
            parameters=("weights",),
            missing=missing,
        )
    loaded: PreTrainedModel = made
    return loaded
