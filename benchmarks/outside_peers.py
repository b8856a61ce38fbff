"""Fit CatBoost or AutoGluon on `train.parquet` of a folder, and write `log_price.npy` for `held.parquet`.

`column_peers.py` runs this script in the peers' own environment, which has no pricekit.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = "log_price"
QUANTILES = 0.05, 0.25, 0.5, 0.75, 0.95
LONG_CHARACTERS = 25
"""Columns with longer cells on average, and many different ones, are texts for CatBoost."""


def main() -> None:
    """Read the folder, the name of the peer and its time limit in seconds from the command line."""
    folder, peer, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    train, held = (pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "held"))
    prices = catboost(train, held) if peer == "catboost" else autogluon(train, held, peer, seconds, folder)
    np.save(folder / f"{TARGET}.npy", np.asarray(prices, dtype=np.float64), allow_pickle=False)


def autogluon(train: pd.DataFrame, held: pd.DataFrame, peer: str, seconds: int, folder: Path) -> np.ndarray:
    """Fit AutoGluon's preset within its time limit."""
    from autogluon.tabular import TabularPredictor

    task: dict[str, object] = {"problem_type": "regression", "eval_metric": "mean_absolute_error"}
    if peer.endswith("quantiles"):
        task = {"problem_type": "quantile", "quantile_levels": list(QUANTILES)}
    predictor = TabularPredictor(label=TARGET, path=str(folder / "models"), **task)
    settings = {"presets": "best_quality" if "best" in peer else "medium_quality"}
    if peer.endswith("unstacked"):
        settings["dynamic_stacking"] = False
    predictor.fit(train, time_limit=seconds, num_cpus=1, num_gpus=0, **settings)
    print(predictor.leaderboard(silent=True)[["model", "score_val", "fit_time"]].head(8).to_string())
    return predictor.predict(held).to_numpy()


def catboost(train: pd.DataFrame, held: pd.DataFrame) -> np.ndarray:
    """Fit CatBoost with text and categorical columns; the number of rounds comes from an inner held-out fifth.

    The rounds are few, because a round with text columns takes a quarter of a second on one core.
    """
    from catboost import CatBoostRegressor

    words = [name for name in held if held[name].dtype == object]
    for part in (train, held):
        part[words] = part[words].fillna("").replace("", "missing")
    texts = [name for name in words if _is_text(train[name])]
    columns = {"text_features": texts, "cat_features": [name for name in words if name not in texts]}
    for part in (train, held):
        part[texts] = part[texts].replace("_", " ", regex=True)  # CatBoost splits at spaces
    inputs, target = train.drop(columns=TARGET), train[TARGET]
    order = np.random.default_rng(0).permutation(len(train))
    fit, inner = order[len(train) // 5 :], order[: len(train) // 5]
    settings = {"learning_rate": 0.12, "depth": 6, "thread_count": 1, "random_seed": 0, "verbose": 200}
    settings |= {"loss_function": "MAE", "allow_writing_files": False, **columns}
    first = CatBoostRegressor(iterations=400, **settings)
    evaluated = inputs.iloc[inner], target.iloc[inner]
    first.fit(inputs.iloc[fit], target.iloc[fit], eval_set=evaluated, early_stopping_rounds=40)
    model = CatBoostRegressor(iterations=first.get_best_iteration() + 1, **settings)
    return model.fit(inputs, target).predict(held)


def _is_text(cells: pd.Series) -> bool:
    return cells.str.len().mean() > LONG_CHARACTERS or cells.nunique() > 0.5 * len(cells)


if __name__ == "__main__":
    main()
