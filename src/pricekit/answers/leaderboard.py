"""The leaderboard: trained models of one table, ranked by their scores on the rows that all of them hold out.

Only measuring predictions imports torch.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from pricekit.config import read_saved_config
from pricekit.config.layers import by_dotted_name
from pricekit.errors import ConfigError, DataError, PricekitError, TrainingError
from pricekit.evaluation.comparison import ComparedRun, common_rows, compare, row_keys
from pricekit.evaluation.held_out import HeldOut, read_held_out, report_refit
from pricekit.evaluation.scores import MIN_ROWS, metric_of
from pricekit.io.log import logger
from pricekit.io.progress import tracked
from pricekit.io.record import FACTS, check_intact, read_intact, state_of
from pricekit.metrics import METRICS, SMAPE, Metric
from pricekit.table.currency import may_mean
from pricekit.wording import counted

Kind = Literal["run", "ensemble", "cross-validation"]
Settings = Mapping[str, Any]
"""Values by dotted name, such as `training.epochs`."""

_KINDS = ("run", "ensemble", "cross-validation")
_FOR_PREDICTION = ("best.safetensors", "preprocess.json", "tokenizer.json", "backbone.json", "config.toml")

_WORTH = 2
"""Models are named as odd if the others share this many times the rows without them."""

_PLUGINS = ("policy", "backbone", "loss")
"""Sections of a configuration with the name of a plugin and its options."""

_Key = tuple[str, str]
"""The name of a setting, and the plugin whose option it is, or ""."""


@dataclass(frozen=True)
class Entry:
    """One model of a leaderboard.

    Attributes:
        rank: from 1, the best.
        compared: its name, its score, and the difference from the best with its interval and verdict.
        path: its folder.
        kind: run, ensemble or cross-validation.
        parts: the members of an ensemble, or the folds of a cross-validation; 1 for a run.
        seconds: that the training took, of all members or folds.
        seconds_per_row: that a prediction of one row alone takes in torch, of all members, or of one fold; None if it
            was not measured.
        bytes: of the files that a prediction reads, of all members, or of one fold.
        settings: those in which the models differ, by dotted name; without those in which its own members differ.
    """

    rank: int
    compared: ComparedRun
    path: Path
    kind: Kind
    parts: int
    seconds: float
    seconds_per_row: float | None
    bytes: int
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the folder, or its path if the models are in different folders."""
        return self.compared.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        compared = self.compared.to_dict()
        return {
            "rank": self.rank,
            "run": self.name,
            "path": str(self.path),
            "kind": self.kind,
            "parts": self.parts,
            **{name: compared[name] for name in ("score", "difference", "interval", "verdict")},
            "seconds": self.seconds,
            "seconds_per_row": self.seconds_per_row,
            "bytes": self.bytes,
            "settings": self.settings,
        }


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Models of one table, the best first, each compared with the best on the same held-out rows.

    Attributes:
        rows: the number of rows that all models hold out.
        metric: by which they are ranked; lower is better.
        entries: the models.
    """

    rows: int
    metric: Metric
    entries: tuple[Entry, ...]

    @property
    def best(self) -> Entry:
        """The model with the lowest metric."""
        return self.entries[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, as `pricekit compare --json` prints them."""
        return {
            "rows": self.rows,
            "metric": self.metric.name,
            "runs": [entry.to_dict() for entry in self.entries],
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each model, by name.

        Columns: rank, score, difference, low, high, verdict, seconds, seconds_per_row, bytes, kind, path, and the
        settings in which the models differ, by dotted name.
        """
        order = (
            *("rank", "score", "difference", "low", "high", "verdict"),
            *("seconds", "seconds_per_row", "bytes", "kind", "path"),
        )
        rows = []
        for entry in self.entries:
            low, high = entry.compared.interval or (None, None)
            values = entry.to_dict() | {"low": low, "high": high}
            rows.append({name: values[name] for name in order} | entry.settings)
        return pd.DataFrame(rows, index=pd.Index([entry.name for entry in self.entries], name="run"))

    def __repr__(self) -> str:
        """Return one line with at most three models."""
        shown = ", ".join(f"{e.name}: {self.metric.write(e.compared.score)}" for e in self.entries[:3])
        rest = f", … {len(self.entries) - 3} more" if len(self.entries) > 3 else ""
        return f"Leaderboard({counted(self.rows, 'row')}, {self.metric.title}; {shown}{rest})"

    def _repr_html_(self) -> str:
        frame = self.to_frame().drop(columns="path").dropna(axis="columns", how="all")
        return str(frame.to_html(float_format="{:.4g}".format, na_rep="", border=0))


def rank_models(paths: Sequence[Path], metric: str | None = None, *, latency: bool = False) -> Leaderboard:
    """Rank models of one table.

    Args:
        paths: folders of runs, ensembles and cross-validations, or folders that contain them.
        metric: by which to rank; None: that which most of the models were trained to minimise.
        latency: also measure the time that a prediction of one row takes, which opens each model in torch.

    Raises:
        ConfigError: there is no path, or an unknown metric, or the saved settings of a model are damaged.
        DataError: a path is no model, or no two models hold out the same rows.
        TrainingError: a model is unfinished or damaged.
        ModuleNotFoundError: scipy is not installed.
    """
    if not paths:
        raise ConfigError(
            "a leaderboard needs at least one model or folder of models", parameters=("models",)
        )
    metric_of([], metric)  # for its error, before files are read
    contenders = keep_sharing(find_contenders(paths))
    report_refit(one.path for one in contenders)
    ((usual, _),) = Counter(one.metric for one in contenders).most_common(1)
    judged_by = METRICS.get(metric or usual, SMAPE)
    one_folder = len({one.path.resolve().parent for one in contenders}) == 1
    by_name = {one.path.resolve().name if one_folder else str(one.path): one for one in contenders}
    rows = common_rows({name: one.held_out for name, one in by_name.items()})
    weight = next(iter(rows.values())).weight
    scores = {name: judged_by(each.predicted, each.price, weight) for name, each in rows.items()}
    names = sorted(scores, key=lambda name: scores[name])
    compared = compare({name: rows[name] for name in names}, judged_by)
    ranked = [by_name[name] for name in names]
    seconds: list[float | None] = [None] * len(ranked)
    if latency:
        from pricekit.runs.ensemble import seconds_per_row  # imports torch

        with tracked("measuring predictions of one row", ranked) as models:
            seconds = [sum(map(seconds_per_row, one.runs)) for one in models]
    settings = differences([one.settings for one in ranked])
    entries = tuple(
        Entry(
            rank=place + 1,
            compared=compared.runs[place],
            path=one.path,
            kind=one.kind,
            parts=one.parts,
            seconds=one.seconds,
            seconds_per_row=seconds[place],
            bytes=one.bytes,
            settings=settings[place],
        )
        for place, one in enumerate(ranked)
    )
    return Leaderboard(compared.rows, judged_by, entries)


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
    contenders: dict[Path, Contender] = {}
    for path in paths:
        state = state_of(path)
        single = not path.is_dir() or state.kind in (*_KINDS, "bundle") or state.name == "damaged"
        inside = [read_contender(path)] if single else list(_read_children(path))
        if not inside:
            raise DataError(
                f"{path} contains no finished model; expected runs, ensembles or cross-validations directly inside it",
                path=str(path),
            )
        for one in inside:
            contenders.setdefault(one.path.resolve(), one)
    return list(contenders.values())


def read_contender(path: Path) -> Contender:
    """Read a finished model; errors are those of `find_contenders`."""
    held_out, kind = read_held_out(path), cast("Kind", state_of(path).kind)
    facts = read_intact(path, FACTS[kind])
    try:
        runs = _runs(path, kind, facts)
        files = [run / name for run in runs for name in _FOR_PREDICTION]
        facts_of_runs = [read_intact(run, "run.json") for run in runs]
        seconds = facts["seconds"] if "seconds" in facts else sum(one["seconds"] for one in facts_of_runs)
        return Contender(
            path=path,
            kind=kind,
            parts=len(facts["folds"] if kind == "cross-validation" else runs),
            held_out=held_out,
            currency=facts_of_runs[0]["currency"],
            metric=str(facts["metric"]),
            seconds=float(seconds),
            bytes=sum(file.stat().st_size for file in files if file.is_file()),
            runs=runs,
            settings=tuple(map(_settings_of, runs)),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path} is damaged ({error!r}); train again", path=str(path)) from None


def _read_children(path: Path) -> Iterator[Contender]:
    """Yield the finished models directly inside a folder, and log which ones are left out."""
    unfinished = []
    for child in sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")):
        state = state_of(child)
        if state.kind == "search":
            logger.info(f"{child} is a search; name {child / 'run'} to rank the model that it found")
        elif state.kind in _KINDS and state.name in ("absent", "unfinished"):
            unfinished.append(str(child))
        elif state.kind in _KINDS or state.name == "damaged":
            try:
                yield read_contender(child)
            except PricekitError as error:
                logger.warning(f"{child} is left out: {error}")
    if unfinished:
        logger.info(f"left out, because they are not finished: {', '.join(unfinished)}")


def _runs(path: Path, kind: str, facts: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the runs that price a row together."""
    if kind == "cross-validation":
        fold = path / f"fold-{int(facts['folds'][0]['fold'])}"
        return _runs(fold, state_of(fold).kind, {})
    if kind == "ensemble":
        names = [str(member["folder"]) for member in read_intact(path, "ensemble.json")["members"]]
        if any(Path(name).name != name for name in names):
            raise ValueError(f"expected names of folders, found {names}")
        return tuple(path / "members" / name for name in names)
    return (path,)


def _settings_of(run: Path) -> Settings:
    check_intact(run, ["config.toml"])
    return by_dotted_name(read_saved_config(run / "config.toml").model_dump())


def keep_sharing(contenders: Sequence[Contender]) -> list[Contender]:
    """Return the models that share held-out rows, and log which ones are left out and why.

    This is the largest set of models that share at least ten rows, or, if there is none, any rows. Rows are the same
    if number, id, price and currency are equal.

    Raises:
        DataError: no two models share a row.
    """
    holders = _holders(contenders)
    kept = _largest(holders, holders.models, min(MIN_ROWS, *(len(one.held_out) for one in contenders)))
    if kept.sum() == 1 and len(contenders) > 1:
        common_rows({str(one.path): one.held_out for one in contenders})  # raises DataError for other reasons
        currencies = ", ".join(f"{one.path}: {one.currency}" for one in contenders)
        raise DataError(
            f"the models predict prices in different currencies ({currencies}); rank those of one currency"
        )
    chosen = [one for one, keep in zip(contenders, kept, strict=True) if keep]
    if odd := [one for one, keep in zip(contenders, kept, strict=True) if not keep]:
        usual = _usual_currency(chosen)
        reasons = ", ".join(f"{one.path} ({_reason(one, chosen[0], usual)})" for one in odd)
        they = "it does" if len(odd) == 1 else "they do"
        logger.warning(
            f"left out, because {they} not hold out the rows that the other {len(chosen)} share: {reasons}. Train all "
            "models on one table with one seed, or cross-validate them, which holds out every row"
        )
    _report_fewer(chosen, _Holders(holders.models[:, kept], holders.counts))
    return chosen


@dataclass(frozen=True)
class _Holders:
    """Which models hold out the same rows.

    Attributes:
        models: different sets of models that hold out a row, bool (S, M).
        counts: the rows that exactly these models hold out, int (S,).
    """

    models: np.ndarray
    counts: np.ndarray

    def shared(self, chosen: np.ndarray) -> int:
        """Return the number of rows that all chosen models, bool (M,), hold out."""
        return int(self.counts[self.models[:, chosen].all(1)].sum())


def _holders(contenders: Sequence[Contender]) -> _Holders:
    usual = _usual_currency(contenders)
    keys = pd.concat(
        [
            row_keys(one.held_out)
            .to_frame(index=False)
            .assign(currency=_currency_of(one, usual), model=number)
            for number, one in enumerate(contenders)
        ]
    )
    row = keys.groupby(["row", "id", "price", "currency"], sort=False, dropna=False).ngroup().to_numpy()
    held = np.zeros((row.max() + 1, len(contenders)), bool)
    held[row, keys["model"].to_numpy()] = True
    return _Holders(*np.unique(held, axis=0, return_counts=True))


def _largest(holders: _Holders, sets: np.ndarray, least: int) -> np.ndarray:
    """Return the largest set of models that share a minimum number of rows, or else any, bool (M,).

    Of sets of equal size, it is the one with the most rows.

    Args:
        holders: which models hold out which rows.
        sets: to choose from, bool (S, M). Those of `holders` are enough: all sets would take exponential time.
        least: number of rows.
    """
    sizes = sets.sum(1)
    for size in sorted(set(sizes[sizes > 1].tolist()), reverse=True):  # most often, the first one is enough
        best = max(sets[sizes == size], key=lambda chosen: (holders.shared(chosen), chosen.tolist()))
        if holders.shared(best) >= least:
            return np.asarray(best)
    return np.asarray(sets[sizes.argmax()])


def _currency_of(one: Contender, usual: str) -> str:
    """Return the currency of a model, or the usual one if it is unknown or may mean that: "$" may mean USD."""
    own = one.currency or usual
    return usual if may_mean(own, usual) or may_mean(usual, own) else own


def _usual_currency(contenders: Sequence[Contender]) -> str:
    known = Counter(one.currency for one in contenders if one.currency).most_common(1)
    return known[0][0] if known else ""


def _reason(one: Contender, other: Contender, currency: str) -> str:
    if _currency_of(one, currency) != currency:
        return f"prices in {one.currency} instead of {currency}"
    numbers = np.intersect1d(one.held_out.rows, other.held_out.rows)
    same = row_keys(one.held_out).isin(row_keys(other.held_out)).sum()
    return "other ids or prices" if len(numbers) - same >= MIN_ROWS else "another table or another seed"


def _report_fewer(chosen: Sequence[Contender], holders: _Holders) -> None:
    """Log that models hold out more rows than all of them share; warn if a few of them are the reason."""
    count, sizes = holders.shared(np.ones(len(chosen), bool)), [len(one.held_out) for one in chosen]
    if count == max(sizes):
        return
    only = f"only the {counted(count, 'row')} that all {len(chosen)} hold out count"
    most = _largest(holders, holders.models[~holders.models.all(1)], _WORTH * count)
    odd, shared = (
        [str(one.path) for one, keep in zip(chosen, most, strict=True) if not keep],
        holders.shared(most),
    )
    if shared >= _WORTH * count and 2 * len(odd) < len(chosen):
        logger.warning(
            f"{only}; without {', '.join(odd)}, the others share {counted(shared, 'row')}: to rank them on these, name "
            "only the others"
        )
    else:
        logger.info(f"{only}; the models hold out between {min(sizes):,} and {max(sizes):,}")


def differences(models: Sequence[Sequence[Settings]]) -> list[dict[str, Any]]:
    """Return for each model the settings whose values differ between the models.

    Options of a plugin are compared between the models that use it. A setting in which the members of one ensemble
    differ is left out for this ensemble.

    Args:
        models: for each model, the settings of its run, or of each of its members.

    Example:
        >>> differences([[{"seed": 0, "loss.name": "smape"}], [{"seed": 1, "loss.name": "smape"}]])
        [{'seed': 0}, {'seed': 1}]
    """
    tables = [_values(runs) for runs in models]
    cells: defaultdict[_Key, set[tuple[str, ...]]] = defaultdict(set)
    for table in tables:
        for key, values in table.items():
            cells[key].add(tuple(sorted(values)))
    differ = [key for key, several in cells.items() if len(several) > 1]
    return [
        {
            key[0].removesuffix(".name"): next(iter(table[key].values()))
            for key in differ
            if len(table.get(key, ())) == 1
        }
        for table in tables
    ]


def _values(runs: Sequence[Settings]) -> dict[_Key, dict[str, Any]]:
    """Return the different values of each setting of a model, by their JSON."""
    values: defaultdict[_Key, dict[str, Any]] = defaultdict(dict)
    for settings in runs:
        for name, value in settings.items():
            section, _, option = name.partition(".")
            plugin = settings[f"{section}.name"] if section in _PLUGINS and option != "name" else ""
            values[name, plugin][json.dumps(value, sort_keys=True)] = value
    return dict(values)
