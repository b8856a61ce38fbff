"""The model inputs of a run: in memory, in the cache of a search, and in files of the run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from conftest import tiny_config
from pricekit.runs.inputs import cached_inputs
from pricekit.runs.opened import open_run
from pricekit.runs.prepare import Trial
from pricekit.runs.split import Source, load_split
from pricekit.runs.train import train


def _weights(run):
    return open_run(run).model.state_dict()


def test_a_table_with_lists_is_trained_on_without_the_cache(catalog, tmp_path, logged):
    frame = pd.read_csv(catalog).head(60)
    frame["tags"] = [["a", "b"]] * len(frame)
    frame.to_parquet(tmp_path / "t.parquet")
    config = tiny_config({"training": {"epochs": 1}})
    train(Source(tmp_path / "t.parquet"), config, tmp_path / "run", trial=Trial(cache=tmp_path / "cache"))
    assert "not cached" in " ".join(logged().split())


def test_an_unwritable_cache_is_reported_and_not_required(catalog, tmp_path, logged):
    (tmp_path / "cache").write_text("a file")
    train(Source(catalog), tiny_config(), tmp_path / "run", trial=Trial(cache=tmp_path / "cache"))
    assert "are not cached" in logged()
    assert open_run(tmp_path / "run").predictor()


def test_the_cache_gives_the_same_weights(catalog, run, tmp_path, monkeypatch):
    config, cache = tiny_config(), tmp_path / "cache"
    train(Source(catalog), config, tmp_path / "first", trial=Trial(cache=cache))
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the training and the validation rows
    monkeypatch.setattr(
        "pricekit.features.preprocess.Preprocessor.__call__", None
    )  # all comes from the cache
    split = load_split(Source(catalog), config)
    monkeypatch.setattr("pricekit.runs.train._check_reopened", lambda out, model: None)
    train(Source(catalog), config, tmp_path / "second", trial=Trial(cache=cache))
    for out in ("first", "second"):
        assert all(torch.equal(t, _weights(tmp_path / out)[n]) for n, t in _weights(run).items())
    monkeypatch.undo()
    preprocessor = open_run(run).preprocessor
    changed = replace(split.train, text=split.train.text + "!")
    found = cached_inputs(preprocessor, changed, cache)
    assert np.array_equal(found.tokens.ids, preprocessor(changed).tokens.ids)
    assert len(list((tmp_path / "cache").iterdir())) == 3
    broken, flipped, _ = (tmp_path / "cache").iterdir()
    broken.write_bytes(b"broken")
    content = bytearray(flipped.read_bytes())
    content[-2] ^= 64
    flipped.write_bytes(content)
    for part in (split.train, split.valid, changed):
        again = cached_inputs(preprocessor, part, cache)
        assert np.array_equal(again.tokens.ids, preprocessor(part).tokens.ids)
    assert broken.stat().st_size > 100


def test_the_inputs_of_a_feature_that_reads_files_are_not_cached(catalog, run, tmp_path, monkeypatch):
    preprocessor = open_run(run).preprocessor
    rows = load_split(Source(catalog), tiny_config()).valid.take(np.arange(5))
    monkeypatch.setattr(type(preprocessor.features.parts[0].plugin), "reads_files", True, raising=False)
    for _ in range(2):
        assert len(cached_inputs(preprocessor, rows, tmp_path / "cache")) == 5
    assert not (tmp_path / "cache").exists()
