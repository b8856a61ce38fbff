"""The models of a leaderboard: find them in folders, and read what their files say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pricekit.config import read_saved_config
from pricekit.config.layers import leaves
from pricekit.errors import DataError, PricekitError, TrainingError, check_intact
from pricekit.evaluation.held_out import HeldOut, read_held_out
from pricekit.formats import check_run_format
from pricekit.support.log import logger

Kind = Literal["run", "ensemble", "cross-validation"]
Settings = Mapping[str, Any]
"""Values by dotted name, such as `training.epochs`."""

# The modules that write these files import torch.
_MARKS: dict[Kind, tuple[str, ...]] = {
    "cross-validation": ("cv.toml", "cv.json"),
    "ensemble": ("members.toml", "ensemble.json"),
    "run": ("source.json",),
}
_FACTS: dict[Kind, str] = {"cross-validation": "cv.json", "ensemble": "run.json", "run": "run.json"}
_FOR_PREDICTION = ("best.safetensors", "preprocess.json", "tokenizer.json", "backbone.json", "config.toml")
_SEARCH = "tune.toml"


@dataclass(frozen=True)
class Contender:
    """A finished model, as its files describe it.

    Attributes:
        path: its folder.
        kind: of the folder.
        parts: the members of an ensemble, or the folds of a cross-validation; 1 for a run.
        held_out: the rows that it was not trained on, with its predictions.
        currency: of the prices; None if the table does not tell.
        metric: the name of the metric that its training minimised.
        seconds: that the training took, of all members or folds.
        bytes: of the files that a prediction reads; those of the first fold for a cross-validation.
        runs: folders of the runs that price a row together; those of the first fold for a cross-validation.
        settings: of each of `runs`.
    """

    path: Path
    kind: Kind
    parts: int
    held_out: HeldOut
    currency: str | None
    metric: str
    seconds: float
    bytes: int
    runs: tuple[Path, ...]
    settings: tuple[Settings, ...]


def find_contenders(paths: Iterable[Path]) -> list[Contender]:
    """Read models, and the finished ones directly inside folders that are no models.

    What is unfinished or damaged in such a folder is left out, with a message. A model that is found twice counts once.

    Args:
        paths: folders of runs, ensembles and cross-validations, or folders that contain them.

    Raises:
        DataError: a path is no such folder, or a folder contains no finished model, or a model has no held-out rows.
        TrainingError: a model is unfinished or damaged.
        ConfigError: the saved settings of a model are damaged.
    """
    found: dict[Path, Contender] = {}
    for path in paths:
        inside = [read_contender(path)] if _is_single(path) else list(_read_children(path))
        if not inside:
            raise DataError(
                f"{path} contains no finished model; expected runs, ensembles or cross-validations directly inside it",
                path=str(path),
            )
        for one in inside:
            found.setdefault(one.path.resolve(), one)
    return list(found.values())


def read_contender(path: Path) -> Contender:
    """Read a finished model; errors are those of `find_contenders`."""
    kind = _kind_of(path)
    if kind is None:
        held_out = read_held_out(path)  # it says what the folder is
        raise DataError(f"{path} is not a model, but contains {len(held_out)} held-out rows", path=str(path))
    if not (path / _FACTS[kind]).is_file():
        raise TrainingError(f"{path} is not finished: it has no {_FACTS[kind]}; resume it", path=str(path))
    facts = _read_json(path, _FACTS[kind])
    check_run_format(facts, path)
    held_out = read_held_out(path)
    try:
        parts = _parts(path, kind, facts)
        runs = tuple(_runs(path, kind, parts))
        facts_of_runs = [_read_json(run, "run.json") for run in runs]
        seconds = facts["seconds"] if "seconds" in facts else sum(one["seconds"] for one in facts_of_runs)
        return Contender(
            path=path,
            kind=kind,
            parts=max(1, len(parts)),
            held_out=held_out,
            currency=facts_of_runs[0]["currency"],
            metric=str(facts["metric"]),
            seconds=float(seconds),
            bytes=sum(_size(run / name) for run in runs for name in _FOR_PREDICTION),
            runs=runs,
            settings=tuple(map(_settings_of, runs)),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path} is damaged ({error!r}); train again", path=str(path)) from None


def _is_single(path: Path) -> bool:
    """Return whether a path is read as one model, or rejected as one, and not as a folder of models."""
    return not path.is_dir() or _kind_of(path) is not None or _is_bundle(path)


def _is_bundle(path: Path) -> bool:
    return (path / "manifest.json").is_file()


def _kind_of(path: Path) -> Kind | None:
    return next((kind for kind, names in _MARKS.items() if any((path / n).is_file() for n in names)), None)


def _read_children(path: Path) -> Iterator[Contender]:
    """Yield the finished models directly inside a folder, and log which ones are left out."""
    unfinished = []
    for child in sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")):
        kind = _kind_of(child)
        if (child / _SEARCH).is_file():
            logger.info(f"{child} is a search; name {child / 'run'} to rank the model that it found")
        elif kind is not None and not (child / _FACTS[kind]).is_file():
            unfinished.append(str(child))
        elif kind is not None:
            try:
                yield read_contender(child)
            except PricekitError as error:
                logger.warning(f"{child} is left out: {error}")
    if unfinished:
        logger.info(f"left out, because they are not finished: {', '.join(unfinished)}")


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    check_intact(folder, [name])
    try:
        return dict(json.loads((folder / name).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(
            f"{folder / name} is missing or damaged ({error}); train again", path=str(folder)
        ) from None


def _parts(path: Path, kind: Kind, facts: Mapping[str, Any]) -> list[Path]:
    """Return the folders of the members or folds; none for a run."""
    if kind == "cross-validation":
        return [path / f"fold-{int(fold['fold'])}" for fold in facts["folds"]]
    if kind == "ensemble":
        members = _read_json(path, "ensemble.json")["members"]
        names = [str(one["folder"]) for one in members]
        if any(Path(name).name != name for name in names):
            raise ValueError(f"expected names of folders, found {names}")
        return [path / "members" / name for name in names]
    return []


def _runs(path: Path, kind: Kind, parts: Sequence[Path]) -> Iterator[Path]:
    """Yield the runs that price a row together."""
    if kind == "run":
        yield path
    elif kind == "ensemble":
        yield from parts
    else:
        fold = parts[0]
        inner: Kind = "ensemble" if _kind_of(fold) == "ensemble" else "run"
        yield from _runs(fold, inner, _parts(fold, inner, {}))


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _settings_of(run: Path) -> Settings:
    check_intact(run, ["config.toml"])
    config = read_saved_config(run / "config.toml").model_dump()
    return {".".join(path): value for path, value in leaves(config) if value != {}}
