"""Loss and validation metric by epoch."""

import json

import numpy as np

from pricekit.errors import DataError
from pricekit.plots import LearningCurveDisplay


def write_run(folder, scores, best=None, metric="smape"):
    folder.mkdir(parents=True)
    lines = [
        {"epoch": n + 1, "loss": 1 / (n + 1)} | ({} if score is None else {f"valid_{metric}": score})
        for n, score in enumerate(scores)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if best is not None:
        (folder / "run.json").write_text(json.dumps({"best_epoch": best}))


def test_a_run_has_a_curve_with_its_best_epoch(run):
    shown = LearningCurveDisplay.from_model(run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (curve,) = shown.curves
    assert curve.loss.tolist() == [line["loss"] for line in lines]
    assert curve.score.tolist() == [line["valid_smape"] for line in lines]
    assert curve.best == json.loads((run / "run.json").read_text())["best_epoch"]
    assert shown.ax_.get_ylabel() == "validation SMAPE (%)"
    assert [t.get_text() for t in shown.ax_.get_legend().get_texts()] == [f"best epoch: {curve.best}"]


def test_members_and_folds_are_told_apart(tmp_path):
    for number in range(2):
        write_run(tmp_path / "ensemble" / "members" / str(number), [3, 2], 2)
    shown = LearningCurveDisplay.from_model(tmp_path / "ensemble")
    assert [curve.name for curve in shown.curves] == ["member 0", "member 1"]
    write_run(tmp_path / "fold-0" / "members" / "_$x$", [3, 2], 2, "rmsle")
    write_run(tmp_path / "fold-10", [3, 1, 2], 2, "rmsle")
    write_run(tmp_path / "fold-2", [3.0])
    shown = LearningCurveDisplay.from_model(tmp_path)
    assert [curve.name for curve in shown.curves] == ["fold 0, member _$x$", "fold 2", "fold 10"]
    assert shown.metric.name == "rmsle"
    texts = shown.ax_.get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["fold 0, member _$x$", "fold 2", "fold 10", "best epoch"]
    assert not any(text.get_parse_math() for text in texts)
    assert shown._repr_png_() is not None


def test_the_best_epoch_is_ringed(tmp_path):
    write_run(tmp_path / "run", [30, 20, 25], 2)
    shown = LearningCurveDisplay.from_model(tmp_path / "run")
    rings = [line for line in shown.ax_.get_lines() if line.get_markerfacecolor() == "none"]
    (ring,) = [line for line in rings if len(line.get_xdata())]  # the other one is for the legend
    assert (ring.get_xdata().tolist(), ring.get_ydata().tolist()) == ([2], [20])


def test_a_run_without_validation_rows_shows_its_loss(tmp_path):
    write_run(tmp_path / "run", [None, None], 2)
    shown = LearningCurveDisplay.from_model(tmp_path / "run")
    assert np.isnan(shown.curves[0].score).all()
    assert shown.ax_.get_ylabel() == "training loss (dotted)"
    assert shown.ax_.get_lines()[0].get_ydata().tolist() == [1, 0.5]


def test_a_run_that_is_not_finished_has_no_best_epoch(tmp_path):
    write_run(tmp_path / "run", [30, 20])
    shown = LearningCurveDisplay.from_model(tmp_path / "run")
    assert shown.curves[0].best is None
    assert shown.ax_.get_legend() is None


def test_folders_without_epochs_are_refused(bundle, tmp_path, raises):
    with raises(DataError):
        LearningCurveDisplay.from_model(bundle)
    with raises(DataError):
        LearningCurveDisplay.from_model(tmp_path)
    with raises(DataError):
        LearningCurveDisplay.from_model(tmp_path / "nothing")
    for damaged in ("", "{", "[1]\n", '{"epoch": 1}\n', '{"epoch": 1, "loss": "x"}\n'):
        (tmp_path / "metrics.jsonl").write_text(damaged)
        with raises(DataError):
            LearningCurveDisplay.from_model(tmp_path)
