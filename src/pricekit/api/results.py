"""Handles of trained models in folders: a run or an ensemble, a cross-validation, a search. They import no torch."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pricekit.errors import check_intact, path_of, read_intact
from pricekit.options import PathLike
from pricekit.output import finished_record

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from pricekit.config import RunConfig
    from pricekit.evaluation.scores import Scores
    from pricekit.exporting.verify import VerificationReport
    from pricekit.prediction.predictor import Predictor


class _Handle:
    """What every handle has.

    Args:
        path: the folder.
        name: of the file with its facts.
        kinds: of the folder.
    """

    def __init__(self, path: PathLike, name: str, *kinds: str) -> None:
        self.path = path_of(path, "path")
        finished_record(self.path, *kinds)
        self.facts = read_intact(self.path, name)
        self._owner: _Handle | None = None  # keeps the object alive that owns the temporary folder

    def __fspath__(self) -> str:
        return str(self.path)


class Run(_Handle):
    """A trained model in a folder: a run of `pricekit.train`, or an ensemble of `pricekit.ensemble`.

    Every function that takes the path of a model also takes this object.

    Args:
        path: the folder of a finished run or ensemble.

    Attributes:
        path: the folder.
        facts: the content of `run.json`: table, rows, plugins, metrics and times.
        members: the members of an ensemble (path, weight, score); empty for a run.

    Raises:
        TrainingError: the folder contains no finished run.

    Example:
        >>> import pricekit as pk
        >>> run = pk.train(pk.make_catalog(200), epochs=1)
        >>> sorted(run.metrics)
        ['mae', 'mdape', 'r2_log', 'rmsle', 'smape']
        >>> run.held_out.columns[:6].tolist()
        ['row', 'id', 'fold', 'text', 'price', 'predicted']
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(path, "run.json", "run", "ensemble")
        listed = self.path / "ensemble.json"
        record = read_intact(self.path, listed.name) if listed.exists() else {"members": []}
        self.members: list[dict[str, Any]] = record["members"]

    def __repr__(self) -> str:
        return f"Run('{self.path}', {_score(self.facts)})"

    def _repr_html_(self) -> str:
        return _html_table(repr(self), self.metrics)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics on the held-out rows by name: first that of the training, such as `smape` in percent.

        After a refit, these are the metrics of the first pass, which was not trained on the held-out rows; `facts` then
        contains `refit`.
        """
        return dict(self.facts["metrics"])

    @property
    def held_out(self) -> pd.DataFrame:
        """The rows that the model, or before a refit its first pass, was not trained on, (N, 6 or more).

        Columns: `row`, `id`, `fold`, `text`, `price` and `predicted` (float64, in the table's currency), and columns
        of the table with few different values.
        """
        from pricekit.evaluation.held_out import read_held_out_frame

        return read_held_out_frame(self.path)

    def load(self) -> Predictor:
        """Open the model to predict many times; see `pricekit.load`."""
        from pricekit.api.models import load

        return load(self)

    def predict(self, rows: Any, interval: float | None = None) -> np.ndarray | pd.DataFrame:
        """Open the model and predict once: float32 (N,), or a frame with an interval; see `Predictor.predict`."""
        return self.load().predict(rows, interval)

    def evaluate(self, table: Any = None, **options: Any) -> Scores:
        """Score the model on a table or on its held-out rows; see `pricekit.evaluate`."""
        from pricekit.api.models import evaluate

        return evaluate(self, table, **options)

    def export(
        self,
        out: PathLike,
        *,
        precision: Literal["fp32", "fp16", "int8"] = "fp32",
        triton: PathLike | None = None,
        overwrite: bool = False,
    ) -> VerificationReport:
        """Export the model into a bundle; see `pricekit.export`."""
        from pricekit.api.models import export

        return export(self, out, precision=precision, triton=triton, overwrite=overwrite)


class CrossValidation(_Handle):
    """A cross-validation in a folder: one run per fold of a table.

    Args:
        path: the folder of a finished cross-validation.

    Attributes:
        path: the folder.
        facts: the content of `cv.json`.

    Raises:
        TrainingError: the folder contains no finished cross-validation.

    Example:
        >>> import pricekit as pk
        >>> cv = pk.cross_validate(pk.make_catalog(200), folds=2, epochs=1)
        >>> len(cv.runs), len(cv.held_out)
        (2, 200)
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(path, "cv.json", "cross-validation")

    def __repr__(self) -> str:
        return f"CrossValidation('{self.path}', folds={len(self.facts['folds'])}, {_score(self.facts)})"

    def _repr_html_(self) -> str:
        return _html_table(repr(self), self.metrics)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics over all rows, each predicted by the run of the fold that held it out."""
        return {name: value for name, value in self.facts["scores"].items() if isinstance(value, float)}

    @property
    def held_out(self) -> pd.DataFrame:
        """All rows with their predictions, (N, 6 or more); the columns of `Run.held_out`."""
        from pricekit.evaluation.held_out import read_held_out_frame

        return read_held_out_frame(self.path)

    @property
    def runs(self) -> list[Run]:
        """The run of each fold."""
        runs = [Run(self.path / f"fold-{fold['fold']}") for fold in self.facts["folds"]]
        for run in runs:
            run._owner = self
        return runs

    @property
    def scores(self) -> Scores:
        """The scores of all rows, by group and with their spread over the folds."""
        from pricekit.api.models import evaluate

        return evaluate(self)


class Tuning(_Handle):
    """A search for better settings, in a folder.

    Args:
        path: the folder of a finished search.

    Attributes:
        path: the folder.
        facts: the content of `tune.json`.

    Raises:
        TrainingError: the folder contains no finished search.

    Example:
        >>> import pricekit as pk
        >>> found = pk.tune(pk.make_catalog(200), trials=2, folds=2, epochs=1, features="fast15")
        >>> found.verdict in ("better", "cannot tell", "worse")
        True
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(path, "tune.json", "search")

    def __repr__(self) -> str:
        final, name = self.facts["on_final_rows"], self.facts["metric"]
        return f"Tuning('{self.path}', {name}={final['tuned']:.4g}, default={final['default']:.4g})"

    def _repr_html_(self) -> str:
        return str(self.settings.to_html(float_format="{:.3g}".format, na_rep="", border=0))

    @property
    def config(self) -> RunConfig:
        """The chosen configuration."""
        from pricekit.config import read_saved_config

        check_intact(self.path, ["config.toml"])
        return read_saved_config(self.path / "config.toml")

    @property
    def settings(self) -> pd.DataFrame:
        """The searched settings by name: default, tuned, importance (float, or NaN); the most important first."""
        import pandas as pd

        found = pd.DataFrame.from_dict(self.facts["settings"], orient="index", columns=["default", "tuned"])
        importance = self.importance.set_index("setting")["importance"]
        found["importance"] = importance.reindex(found.index).astype(float)
        return found.rename_axis("setting").sort_values("importance", ascending=False, kind="stable")

    @property
    def importance(self) -> pd.DataFrame:
        """How much each setting mattered: setting, importance; empty with fewer than two finished trials."""
        return self._read_csv("importance.csv")

    @property
    def trials(self) -> pd.DataFrame:
        """Every trial: trial, state, score (the mean over the folds), seconds, error, and its settings by name."""
        return self._read_csv("trials.csv")

    @property
    def run(self) -> Run:
        """The model with the chosen settings, trained on all rows that trials saw."""
        run = Run(self.path / "run")
        run._owner = self
        return run

    @property
    def scores(self) -> dict[str, float]:
        """The metric on the rows that no trial saw, of both models: `tuned` and `default`."""
        return {name: float(self.facts["on_final_rows"][name]) for name in ("tuned", "default")}

    @property
    def verdict(self) -> str:
        """Whether the chosen model is "better" or "worse" on these rows beyond chance, or "cannot tell"."""
        return str(self.facts["on_final_rows"]["verdict"])

    def _read_csv(self, name: str) -> pd.DataFrame:
        import pandas as pd

        check_intact(self.path, [name])
        return pd.read_csv(self.path / name)


def _score(facts: Mapping[str, Any]) -> str:
    from pricekit.evaluation.scores import goal_of

    goal = goal_of(facts)
    return f"{goal.metric.name}={goal.metric.write(goal.score)}"


def _html_table(title: str, values: Mapping[str, float]) -> str:
    cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{v:,.2f}</td></tr>" for k, v in values.items())
    return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"
