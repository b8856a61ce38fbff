"""Pretrained weights: found in a folder, in the local cache of the hub or on the hub, then loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers
from transformers import PreTrainedModel

from pricekit.errors import ConfigError, is_panic
from pricekit.io.causes import raise_outside_cause
from pricekit.io.record import check_intact
from pricekit.wording import counted, listed, shorten

_TOKENIZER = ("tokenizer.json", "spm.model", "vocab.txt", "vocab.json")
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
PRETRAINED = "pretrain.json"
"""Describes a folder of weights that `pretrain` has written, with digests in `files.json`."""

POOLING_FILE, SENTENCE_FILE = "1_Pooling/config.json", "config_sentence_transformers.json"
"""Files in which sentence-transformers keeps the pooling and the prefixes of texts."""

_EXPECTED = "config.json, tokenizer.json and model.safetensors"
_PATTERNS = [
    *("config.json", "tokenizer*.json", "spm.model", "*.spm", "vocab.*", "merges.txt", "model*.safetensors*"),
    *(POOLING_FILE, SENTENCE_FILE),
]
_OF_MACHINE = ("attn_implementation", "_attn_implementation")
"""Keys of config.json that say how a machine computes, and not what."""


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
            f"the weights {weights} are not a folder; expected one with {_EXPECTED}",
            parameters=("weights",),
        )
    return _checked(_from_hub(weights, backbone))


def _checked(folder: Path) -> Path:
    missing = _missing(folder)
    if _WEIGHTS in missing:
        pickled = sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt"))
        if pickled:
            raise _unusable(
                folder,
                f"the weights in {folder} are only pickled ({', '.join(pickled)}); a pickle can run any code, so it is "
                "not opened. If you trust it, convert it once: load it with transformers and call "
                "save_pretrained(folder), which writes model.safetensors; then use that folder as weights",
            )
    if missing:
        raise ConfigError(
            f"the weights in {folder} lack {shorten(', '.join(missing), 300)}; expected {_EXPECTED}, or {_INDEX} "
            "with all files that it names. Download them again",
            parameters=("weights",),
            missing=missing,
        )
    if (folder / PRETRAINED).is_file():
        check_intact(folder, None, "pretrain again", ConfigError)
    return folder


def _missing(folder: Path) -> list[str]:
    """Return the files that a folder of weights lacks; raise ConfigError if the index of its weights is damaged."""
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    if not any((folder / name).is_file() for name in _TOKENIZER):
        missing.append("tokenizer.json")
    if (folder / _WEIGHTS).is_file():
        return missing
    if not (folder / _INDEX).is_file():
        return [*missing, _WEIGHTS]
    try:
        named = json.loads((folder / _INDEX).read_text("utf-8"))["weight_map"]
        files = sorted(set(named.values()))
        if outside := [name for name in files if Path(name).name != name]:
            raise ValueError(f"it names {shorten(repr(outside[0]), 80)}, which is no file of the folder")
        return missing + [name for name in files if not (folder / name).is_file()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder / _INDEX, f"{type(error).__name__}: {error}") from None


def _unusable(path: Path, problem: str) -> ConfigError:
    """Return the error about a folder of weights, or a file in it."""
    return ConfigError(problem, parameters=("weights",), path=str(path))


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{path} is damaged ({reason}); download the weights again", parameters=("weights",))


def _from_hub(repository: str, backbone: str) -> Path:
    from huggingface_hub import snapshot_download

    with quiet_transformers():
        for cached in (True, False):
            try:
                folder = Path(
                    snapshot_download(
                        repository, allow_patterns=_PATTERNS, local_files_only=cached, etag_timeout=5
                    )
                )
                if not (cached and _missing(folder)):  # otherwise a download was interrupted: go on with it
                    return folder
            except Exception as error:  # no network, no such repository, no access: many kinds of errors
                raise_outside_cause(error)
                reason = shorten(str(error), 160)
    raise ConfigError(
        f"the weights '{repository}' of the backbone '{backbone}' are not on this machine, and downloading them failed "
        f"({reason}). Download https://huggingface.co/{repository} once ({_EXPECTED}) into a folder and use that "
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
    """Return the values of config.json, with `model_type`, without what only concerns the machine that wrote it.

    Raises:
        ConfigError: the file is damaged, or the padding id is not in the vocabulary.
    """
    path = folder / "config.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if not isinstance(values["model_type"], str):
            raise ValueError("model_type is not a text")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, str(error)) from None
    size, padding = values.get("vocab_size"), values.get("pad_token_id")
    most = size if type(size) is int else math.inf
    if padding is not None and (type(padding) is not int or not 0 <= padding < most):
        raise _unusable(
            path,
            f"{path} has pad_token_id {padding!r} and vocab_size {size!r}; expected null or an id that is smaller than "
            "vocab_size. Download the weights again, or correct the file",
        )
    return {key: value for key, value in values.items() if key not in _OF_MACHINE}


@contextmanager
def naming(path: Path, values: Mapping[str, Any]) -> Iterator[None]:
    """Turn an error of transformers about the values of a configuration into a ConfigError that names their file."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # transformers and torch raise many kinds
        raise_outside_cause(error)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        reason = reason.removeprefix("TypeError: ")
        if isinstance(error, KeyError):
            name = next((key for key, value in values.items() if error.args == (value,)), "a value")
            reason = f"{name} is {error}, which transformers does not know"
        raise _unusable(
            path,
            f"{path} describes no encoder that can be built: {shorten(reason, 300)}; download the weights again, or "
            "correct the file",
        ) from None


def put_before(tokenizer: Tokenizer, prefix: str) -> None:
    """Make a tokenizer put a prefix before each text."""
    if prefix:
        own = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(prefix), *own])


def set_padding(tokenizer: Tokenizer, pad_id: int | None, source: str) -> None:
    """Set the id that pads batches: that of the configuration, or else the tokenizer's own; no truncation.

    Raises:
        ConfigError: none of them has a token, and no token has the id 0; the message names `source`.
    """
    known = tokenizer.id_to_token(pad_id) if pad_id is not None else None
    tokenizer.no_truncation()
    if known is not None:
        tokenizer.enable_padding(pad_id=pad_id, pad_token=known)
    elif not tokenizer.padding:
        if (first := tokenizer.id_to_token(0)) is None:
            raise ConfigError(
                f"{source} has no token that pads texts: config.json has pad_token_id {json.dumps(pad_id)}, and no "
                "token has the id 0. Use the tokenizer of these weights, or set pad_token_id to the id of a token",
                parameters=("weights",),
            )
        tokenizer.enable_padding(pad_id=0, pad_token=first)


def check_ids(tokenizer: Tokenizer, rows: int | None, folder: Path) -> None:
    """Raise ConfigError if a token has an id for which the encoder has no embedding."""
    token, highest = max(tokenizer.get_vocab().items(), key=lambda entry: entry[1], default=("", -1))
    if rows is not None and highest >= rows:
        raise _unusable(
            folder,
            f"the tokenizer in {folder} does not fit config.json: its token {shorten(repr(token), 60)} has the id "
            f"{highest:,}, and vocab_size is {rows:,}. Use config.json, tokenizer.json and weights of one model",
        )


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder of weights; it is converted if there is no tokenizer.json.

    Raises:
        ConfigError: the folder contains no tokenizer that can be opened.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return open_tokenizer(folder)[1]
    with _opening_tokenizer(folder):
        return Tokenizer.from_file(str(path))


def open_tokenizer(folder: Path) -> tuple[Any, Tokenizer]:
    """Return the tokenizer of transformers for a folder, and the fast tokenizer in it, which may be converted.

    Raises:
        ConfigError: the folder contains no tokenizer that can be opened.
    """
    from transformers import AutoTokenizer

    with _opening_tokenizer(folder), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return tokenizer, tokenizer.backend_tokenizer


@contextmanager
def _opening_tokenizer(folder: Path) -> Iterator[None]:
    """Turn the errors of libraries about the tokenizer of a folder into a ConfigError."""
    try:
        yield
    except BaseException as error:  # tokenizers raises bare Exception and panics, and the conversion anything
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        raise_outside_cause(error)
        reason = shorten(str(error), 200)
        raise _unusable(
            folder,
            f"{folder} contains no fast tokenizer that can be opened ({reason}); expected tokenizer.json. To convert "
            "spm.model, pip install sentencepiece protobuf",
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
        ConfigError: the weights are damaged, lack tensors of the model, or have some of another shape.
    """
    try:
        with quiet_transformers():
            loaded, report = model.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                output_loading_info=True,
                **arguments,
            )
    except Exception as error:  # a damaged file raises many kinds
        raise_outside_cause(error)
        reason = shorten(str(error), 200)
        raise _unusable(
            folder,
            f"the weights in {folder} cannot be loaded into '{name}': {reason}; download them again",
        ) from None
    shapes = sorted(report["mismatched_keys"])
    if different := [f"{name} {list(had)} instead of {list(needed)}" for name, had, needed in shapes]:
        raise _unusable(
            folder,
            f"the weights in {folder} do not fit their config.json: {counted(len(different), 'tensor')} of another "
            f"shape, {listed(different, 3)}. Use config.json and weights of one model, or correct its "
            "vocab_size and other sizes",
        )
    encoder = f"{loaded.base_model_prefix}."
    missing = sorted(key for key in report["missing_keys"] if key.startswith(encoder) or not new_head)
    if missing:
        raise ConfigError(
            f"the weights in {folder} lack {len(missing)} tensors of '{name}', such as {missing[0]}: they are "
            "from another architecture",
            parameters=("weights",),
            missing=missing,
        )
    # The architecture fixes some parameters, such as sines of positions, and loading makes them trainable.
    pretrained: PreTrainedModel = loaded
    with torch.device("meta"):
        new = type(pretrained)(pretrained.config)
    for name, parameter in new.named_parameters():
        if not parameter.requires_grad:
            pretrained.get_parameter(name).requires_grad_(False)
    return pretrained
