"""The weights of an encoder that a user names: an ONNX file, or a folder of a transformers model."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from pricekit.plugin import BundleError, ConfigError, check_graph, shorten, temporary_folder
from pricekit_images.encoder import LARGEST_SIDE, MOST_VALUES, Encoder, Facts

if TYPE_CHECKING:
    import torch

OPSET = 20
USUAL_SIDE = 224
MOST_DIFFERENCE = 1e-3
"""Largest difference of the exported graph from the model, relative to the largest value."""
_reading = Lock()
_CONFIG, _PREPROCESSOR = "config.json", "preprocessor_config.json"
_VISION = "vision_model"
_SUMMARY = ("pooler.", "head.")
"""Modules of a vision model that only its own summary of a picture needs: of most families, and of SigLIP."""


def read_weights(path: Path, side: int) -> tuple[bytes, Facts]:
    """Return an encoder's graph and what it needs besides.

    Args:
        path: an ONNX file with one input, (1, 3, H, W), or a folder of a transformers model with safetensors. Beside an
            ONNX file, and in a folder, `preprocessor_config.json` may have `image_mean` and `image_std`.
        side: width and height of the input; 0: those that the model states, otherwise 224.

    Raises:
        ConfigError: the encoder cannot be used.
    """
    with _reading:  # a feature is fitted by several threads, to parts of the rows
        return _read_once(path.absolute(), side, _stamp(path))


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what tells whether files have changed."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    facts = [(file.name, file.stat()) for file in files if file.is_file()]
    return tuple((name, found.st_mtime_ns, found.st_size) for name, found in facts)


@lru_cache(1)
def _read_once(path: Path, side: int, stamp: tuple[tuple[str, int, int], ...]) -> tuple[bytes, Facts]:
    if path.is_dir():
        facts = _facts_of(path, side)
        graph = _exported(path, facts)
    elif path.is_file():
        graph = path.read_bytes()
        facts = _facts_of(path.parent, side)
    else:
        raise _unusable(
            path, "it does not exist; expected an ONNX file, or the folder of a transformers model"
        )
    return graph, _tried(path, graph, facts, side)


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"feature_options.images.weights is {str(path)!r}: {why}", parameters=("settings",), path=str(path)
    )


def _facts_of(folder: Path, side: int) -> Facts:
    """Return the size and the colours that the files of a folder state."""
    model, colours = _read(folder / _CONFIG), _read(folder / _PREPROCESSOR)
    vision = model.get("vision_config")
    stated = model.get("image_size") or (vision.get("image_size") if isinstance(vision, dict) else None)
    sides = [side, stated, colours.get("crop_size"), colours.get("size"), USUAL_SIDE]
    found = Facts(next(value for value in map(_side, sides) if value))
    try:
        mean, deviation = ([float(v) for v in colours[name]] for name in ("image_mean", "image_std"))
        if len(mean) == len(deviation) == 3 and min(deviation) > 0:
            return replace(found, mean=mean, deviation=deviation)
    except (KeyError, TypeError, ValueError):
        pass
    return found


def _side(given: Any) -> int:
    """Return the side that a configuration states as a number, a list or an object; 0 if it states none."""
    if isinstance(given, dict):
        given = given.get("height") or given.get("shortest_edge")
    if isinstance(given, list) and given:
        given = given[0]
    return given if type(given) is int and 0 < given <= LARGEST_SIDE else 0


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _tried(path: Path, graph: bytes, facts: Facts, side: int) -> Facts:
    """Check a graph, and run it on a grey picture; return the facts with the length of the vector."""
    try:
        check_graph(graph, f"the graph {path.name}")
    except BundleError as error:
        raise _unusable(path, f"no bundle can contain it: {error}") from None
    try:
        encoder = Encoder(graph, facts)
        (given,) = encoder._session.get_inputs()
        if len(given.shape) != 4:
            raise _unusable(path, f"its input has the shape {given.shape}; expected (1, 3, height, width)")
        stated = [size for size in given.shape[2:] if isinstance(size, int)]
        if not side and stated:
            encoder.facts = facts = replace(facts, side=stated[0])
        vector = encoder.encode(np.zeros((1, 3, facts.side, facts.side), np.float32))
    except ConfigError:
        raise
    except Exception as error:
        reason = shorten(f"{type(error).__name__}: {error}", 300)
        raise _unusable(
            path,
            f"it does not encode a picture of {facts.side} x {facts.side} pixels ({reason}); expected a graph "
            "with one input (1, 3, height, width)",
        ) from None
    if not 0 < len(vector) <= MOST_VALUES or not np.isfinite(vector).all():
        raise _unusable(
            path, f"it returns {len(vector):,} numbers for a picture, or some that are not finite"
        )
    return replace(facts, values=len(vector))


def _exported(folder: Path, facts: Facts) -> bytes:
    """Return the graph of a transformers model, after a comparison with the model."""
    if not (folder / _CONFIG).is_file() or not list(folder.glob("*.safetensors")):
        raise _unusable(
            folder, f"the folder has no {_CONFIG}, or no weights in safetensors; others are not read"
        )
    try:
        import torch

        pooled = _loaded(folder)
        example = torch.rand(1, 3, facts.side, facts.side, generator=torch.Generator().manual_seed(0))
        with temporary_folder() as temporary, torch.no_grad():
            expected = pooled(example).numpy()
            _export(pooled, example, temporary / "encoder.onnx")
            graph = (temporary / "encoder.onnx").read_bytes()
    except ModuleNotFoundError as error:
        raise _unusable(
            folder, f"fitting needs {error.name}, which is not installed: pip install 'pricekit[train]'"
        ) from None
    except ConfigError:
        raise
    except Exception as error:
        reason = shorten(f"{type(error).__name__}: {error}", 300)
        raise _unusable(folder, f"it cannot be read or exported as a vision encoder ({reason})") from error
    found = Encoder(graph, facts).encode(example.numpy())
    difference = float(np.abs(found - expected).max() / max(1e-9, np.abs(expected).max()))
    if not difference <= MOST_DIFFERENCE:
        raise _unusable(folder, f"its graph differs from the model by {difference:.1e} of the largest value")
    return graph


def _loaded(folder: Path) -> torch.nn.Module:
    """Return the vision model of a folder with its summary; raise ConfigError if weights are missing."""
    from transformers import AutoModel

    from pricekit.plugin import quiet_transformers

    with quiet_transformers():
        model, found = AutoModel.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
        )
    vision = getattr(model, _VISION, model)
    own = "" if vision is model else f"{_VISION}."  # the weights of a text model beside it may be missing
    other = {name: (had, need) for name, had, need in found["mismatched_keys"] if name.startswith(own)}
    if other:
        name = min(other)
        had, need = map(list, other[name])
        raise _unusable(
            folder,
            f"{len(other)} tensors of the weights have another shape than {_CONFIG} says, such as {name}: {had} "
            f"instead of {need}; use the {_CONFIG} and the weights of one model",
        )
    missing = {name.removeprefix(own) for name in found["missing_keys"] if name.startswith(own)}
    if lacking := sorted(name for name in missing if not name.startswith(_SUMMARY)):
        raise _unusable(
            folder,
            f"the weights lack {len(lacking)} of {len(vision.state_dict())} tensors of a {type(vision).__name__}, "
            f"such as {lacking[0]}; download all files of the model again, or use another one",
        )
    return _pooled(vision.eval().float(), summary=not missing)


def _pooled(model: torch.nn.Module, *, summary: bool) -> torch.nn.Module:
    """Return a module that maps pixels to one vector.

    It is the model's own summary if `summary` and the model has one, or else the mean over all places.
    """
    import torch

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            found = self.model(pixel_values=pixel_values)
            hidden = getattr(found, "pooler_output", None) if summary else None
            hidden = found.last_hidden_state if hidden is None else hidden
            vector: torch.Tensor = hidden
            if vector.dim() == 4:
                return vector.flatten(2).mean(2)
            return vector.mean(1) if vector.dim() == 3 else vector

    return Pooled().eval()


def _export(model: torch.nn.Module, example: torch.Tensor, file: Path) -> None:
    import logging
    import warnings

    import torch

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecations; the result is compared
        torch.onnx.export(
            model,
            (example,),
            file,
            input_names=["pixel_values"],
            output_names=["vector"],
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
