"""Every family of encoders trains, resumes, is exported in three precisions and predicts without torch."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import pricekit as pk
from pricekit.datasets import make_catalog
from pricekit.runs.opened import open_run
from pricekit.training import loop
from tests.nets.tiny_weights import KINDS, write_weights

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = sys.modules["peft"] = None
import pricekit as pk
pk.load(sys.argv[1]).predict_file(sys.argv[2], sys.argv[3])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rank"), [*((kind, 0) for kind in KINDS), ("roberta", 2), ("deberta-v2", 2), ("modernbert", 2)]
)
def test_a_family_trains_resumes_exports_and_predicts_without_torch(kind, rank, tmp_path, monkeypatch):
    table = make_catalog(120, seed=1)
    table.to_csv(tmp_path / "t.csv", index=False)
    settings = {
        "training.epochs": 2,
        "training.batch_size": 16,
        "training.refit": False,
        "head.feature_bins": 0,
    }
    if rank:
        pytest.importorskip("peft")
        settings |= {"backbone.lora": rank, "training.ema_decay": 0.9}
    weights = write_weights(tmp_path / "weights", kind, table["catalog_content"].tolist())
    options = {"backbone": "encoder", "weights": weights, "features": ["fast15"], "max_length": 160}
    whole = pk.train(tmp_path / "t.csv", out=tmp_path / "whole", settings=settings, **options)

    def stop(self, pause, call=loop.Session.after_pause):
        call(self, pause)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.Session, "after_pause", stop)
        with pytest.raises(KeyboardInterrupt):
            pk.train(tmp_path / "t.csv", out=tmp_path / "resumed", settings=settings, **options)
    resumed = pk.train(tmp_path / "t.csv", out=tmp_path / "resumed", resume=True)
    states = [open_run(run.path).model.state_dict() for run in (whole, resumed)]
    assert all(torch.equal(states[0][name], tensor) for name, tensor in states[1].items())
    adapters = [tensor for name, tensor in states[0].items() if ".lora_B." in name]
    assert bool(adapters) == bool(rank)
    assert all(tensor.any() for tensor in adapters)

    expected = pk.load(whole.path).predict(table)
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 0.02), ("int8", 0.2)):
        bundle = tmp_path / precision
        report = pk.load(whole.path).export(bundle, precision=precision)
        assert len(report.checks) == 24
        assert report.largest_difference < tolerance
        prices = tmp_path / f"{precision}.csv"
        subprocess.run([sys.executable, "-c", WITHOUT_TORCH, bundle, tmp_path / "t.csv", prices], check=True)
        found = pd.read_csv(prices)["price"]
        assert np.abs(found / expected - 1).max() < tolerance
