"""
Train in several processes with Ray
===================================

Ray Train starts the workers and connects them; each calls ``pricekit.train``. Needs ``pip install "ray[train]"``.
"""

import tempfile
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import pricekit as pk

# %%
# What each worker does
# ---------------------
#
# The workers share the rows of each step, and the first one writes the run. All of them read ``table`` and ``out``, so
# with several machines both are on a shared disk. If a worker dies, Ray starts all of them again, and ``resume=True``
# continues from the last checkpoint. Without a checkpoint, it starts the run.


def train_worker(config: dict[str, Any]) -> None:
    """Train with the other workers; called in each of them."""
    run = pk.train(
        config["table"], out=config["out"], resume=True, epochs=3, settings={"training.save_steps": 50}
    )
    ray.train.report({"smape": run.metrics["smape"]})


# %%
# Start two workers
# -----------------
#
# Give each worker a GPU with ``use_gpu=True``.

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "products.csv", Path(folder) / "run"
        pk.make_catalog(600).to_csv(table, index=False)
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        trainer = TorchTrainer(
            train_worker,
            train_loop_config={"table": str(table), "out": str(out)},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder, failure_config=FailureConfig(max_failures=2)),
        )
        trainer.fit()
        ray.shutdown()
        run = pk.load(out)
        print(f"SMAPE of the held-out rows: {run.metrics['smape']:.1f}%")
