"""The end of a search: the choice, both models, their scores on the rows that no trial saw, and the files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pricekit.config import RunConfig
from pricekit.formats import FORMAT
from pricekit.metrics import metric_named
from pricekit.runs.load import load_model
from pricekit.runs.split import Source
from pricekit.runs.train import train_unless_finished
from pricekit.support.digests import unlist_files
from pricekit.support.files import write_atomically, write_text
from pricekit.support.log import logger
from pricekit.workflows.tuning import folder as files
from pricekit.workflows.tuning.choice import Difference, choose, difference
from pricekit.workflows.tuning.space import with_values
from pricekit.workflows.tuning.study import (
    BASE,
    STATES,
    base_trial,
    best_trial,
    importances,
    trials_table,
)
from pricekit.workflows.tuning.trial import Task

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


def finish(task: Task, study: Study) -> dict[str, Any]:
    """Choose, train both models, score them on the final rows, and write the files of the result.

    Args:
        task: the search.
        study: with the finished trial of the configuration that it started from.

    Returns:
        The content of `tune.json`, without the seconds.
    """
    metric, rows, out = metric_named(task.config.metric), task.rows, task.folder
    chosen, found = choose(task, study, metric)
    base, best = base_trial(study), best_trial(study)
    assert base is not None
    unlist_files(out, [files.CONFIG, files.TRIALS, files.IMPORTANCE, files.FINAL, files.FACTS])
    better = BASE not in chosen.user_attrs
    logger.info(_verdict(chosen, best, found, better=better))
    config = with_values(task.config, chosen.params) if better else task.config
    tuned = _model(task, config, files.RUN)
    default = _model(task, task.config, files.DEFAULT) if better else tuned
    final = difference(metric, rows.final, tuned, default)
    _write_final(task, default, tuned)
    trials, importance = trials_table(study, task.space), importances(study)
    for name, table in ((files.TRIALS, trials), (files.IMPORTANCE, importance)):
        write_text(out / name, table.to_csv(index=False))
    write_text(out / files.CONFIG, config.to_toml())
    states = {name: (trials["state"] == name).sum() for name in STATES}
    return {
        "format": FORMAT,
        "table": task.table,
        "metric": metric.name,
        "rows": {
            "search": len(rows.plan.table),
            "final": len(rows.final),
            "rejected": len(rows.plan.rejected),
        },
        "folds": rows.plan.folds,
        "trials": {name: int(count) for name, count in states.items() if count},
        "chosen": chosen.number,
        "best": best.number,
        "default_score": base.value,
        "best_score": best.value,
        "on_folds": None if found is None else found.to_dict(),
        "on_final_rows": final.to_dict(),
        "settings": {
            each.name: {"default": each.value, "tuned": chosen.params[each.name] if better else each.value}
            for each in task.space
        },
    }


def _write_final(task: Task, default: np.ndarray, tuned: np.ndarray) -> None:
    """Write the final rows with the prices of both models, float64 (N,) each."""
    rows = task.rows.final
    columns = {
        "id": rows.ids.astype(str).to_numpy(),
        "price": rows.known_price,
        "default": default,
        "tuned": tuned,
    }
    with write_atomically(task.folder / files.FINAL) as temporary:
        pd.DataFrame(columns).to_parquet(temporary, index=False)


def _verdict(chosen: FrozenTrial, best: FrozenTrial, found: Difference | None, *, better: bool) -> str:
    """Return a sentence about the choice."""
    start = "the settings that the search started from"
    if better:
        return f"trial {chosen.number} is better on the folds than {start}, beyond chance"
    if found is None:
        return f"no trial is better on the folds than {start}: they are kept"
    return (
        f"trial {best.number} has the best score on the folds, but it is not better beyond chance than {start}: "
        "they are kept"
    )


def _model(task: Task, config: RunConfig, name: str) -> np.ndarray:
    """Train a model as `train` does, on all rows that trials see; return its prices of the others, float64 (N,)."""
    run, split = task.folder / name, task.rows.whole(config)
    own = config.for_rows(len(split.train))
    if (run / "config.toml").is_file() and (run / "config.toml").read_text("utf-8") != own.to_toml():
        files.clear_model(run)  # of an earlier choice
    which = "original" if config == task.config else "chosen"
    logger.info(f"training with the {which} settings: {run}")
    train_unless_finished(Source(Path(task.table)), config, run, split, resume=True)
    return np.asarray(load_model(run).predict(task.rows.final), np.float64)
