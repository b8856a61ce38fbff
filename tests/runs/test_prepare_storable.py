"""What a bundle could not hold is refused before the first epoch."""

import pandas as pd
import pytest

import pricekit as pk
from pricekit.errors import TrainingError

FAST = {"epochs": 1, "features": "fast15", "max_length": 16, "refit": False}


@pytest.mark.parametrize("notice", ["ก" * 1500, "_" * 3000, "iVBORw0KGgo" * 400, "字" * 1200])
def test_a_text_without_spaces_is_no_token(tmp_path, notice):
    frame = pk.make_catalog(60, seed=1)
    frame["catalog_content"] += " " + notice
    model = pk.train(frame, **FAST, out=tmp_path / "run")
    model.export(tmp_path / "bundle")
    row = frame[["catalog_content"]].iloc[:1]
    assert pk.load(tmp_path / "bundle", "ort-cpu").predict(row)[0] == pytest.approx(
        model.predict(row)[0], rel=1e-4
    )


def test_names_that_no_bundle_could_hold_stop_the_training(tmp_path, raises):
    frame = pk.make_catalog(60, seed=1).rename(columns={"catalog_content": "x" * 2000})
    with raises(TrainingError):
        pk.train(pd.DataFrame(frame), text="x" * 2000, **FAST, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
