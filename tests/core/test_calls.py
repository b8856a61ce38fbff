"""Observers receive the events of a run, and a failing observer stops nothing."""

import json

import pytest

from pricekit.core import hookspecs
from pricekit.core.calls import plugin_call
from pricekit.core.loader import registry

OBSERVER = """
import json
from pathlib import Path
import pricekit

def note(event, **facts):
    with Path({log!r}).open("a") as file:
        print(json.dumps([event, facts], default=str), file=file)

@pricekit.plugin.hookimpl
def pricekit_run_started(folder, config, rows, resumed):
    config["backbone"]["name"] = "changed by an observer"
    note("started", folder=folder, rows=rows, resumed=resumed, epochs=config["training"]["epochs"])

@pricekit.plugin.hookimpl
def pricekit_epoch_ended(record):
    note("epoch", **record)

@pricekit.plugin.hookimpl
def pricekit_checkpoint_saved(path):
    note("saved", path=path.name, there=path.is_file())

@pricekit.plugin.hookimpl
def pricekit_run_ended(outcome, facts):
    note("ended", outcome=outcome, metrics=facts.get("metrics"))

@pricekit.plugin.hookimpl
def pricekit_bundle_exported(folder, bundle, manifest):
    note("exported", folder=folder, bundle=bundle, precision=manifest["precision"])
"""

SMALL = [
    "--set",
    "backbone.width=8",
    "--set",
    "backbone.buckets=64",
    "--features",
    "fast15",
]


@pytest.fixture
def observed(tmp_path):
    """A plugin file that records its events, and a function that reads them."""
    log, file = tmp_path / "log.jsonl", tmp_path / "observer.py"
    file.write_text(OBSERVER.format(log=str(log)))
    return file, lambda: [json.loads(line) for line in log.read_text().splitlines()]


def test_observers_receive_all_events_from_start_to_bundle(pricekit, catalog, tmp_path, observed):
    file, told = observed
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    assert pricekit("train", catalog, "--out", run, "--epochs", 2, *SMALL, "--plugin", file)[0] == 0
    assert pricekit("export", run, "--out", bundle, "--plugin", file)[0] == 0
    events = told()
    assert [event for event, _ in events if event != "saved"] == [
        "started",
        "epoch",
        "epoch",
        "ended",
        "exported",
    ]
    of = dict(events)
    assert of["started"] == {
        "folder": str(run),
        "rows": {"train": 340, "valid": 60},
        "resumed": False,
        "epochs": 2,
    }
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [facts for event, facts in events if event == "epoch"] == records
    facts = json.loads((run / "run.json").read_text())
    assert of["ended"] == {"outcome": "finished", "metrics": facts["metrics"]}
    saved = [facts for event, facts in events if event == "saved"]
    assert {s["path"] for s in saved} == {"last.safetensors", "best.safetensors"}
    assert all(s["there"] for s in saved)
    assert of["exported"] == {"folder": str(run), "bundle": str(bundle), "precision": "fp32"}
    assert 'name = "bag"' in (run / "config.toml").read_text()


def test_observers_see_interrupted_and_resumed_runs(pricekit, catalog, tmp_path, observed, monkeypatch):
    from pricekit.training import loop

    file, told = observed
    report_epoch = loop.report_epoch

    def interrupted(*arguments, **options):
        report_epoch(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "report_epoch", interrupted)
        train = ["train", catalog, "--out", tmp_path / "run", "--plugin", file]
        assert pricekit(*train, "--epochs", 2, *SMALL)[0] == 130
    assert told()[-1] == ["ended", {"outcome": "interrupted", "metrics": None}]
    assert pricekit(*train, "--resume")[0] == 0
    assert [facts["resumed"] for event, facts in told() if event == "started"] == [False, True]
    assert told()[-1][1]["outcome"] == "finished"


def test_a_failing_observer_is_reported_once_and_stops_nothing(pricekit, catalog, tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_epoch_ended(record):\n"
        "    raise OSError(f'the server is away in epoch {record[\"epoch\"]}')\n"
        "@pricekit.plugin.hookimpl\ndef pricekit_run_ended(outcome): raise SystemExit(outcome)\n"
    )
    code, _, err = pricekit(
        "train", catalog, "--out", tmp_path / "run", "--epochs", 3, *SMALL, "--plugin", file
    )
    assert code == 0
    said = " failed to observe {}; the run continues: "
    assert "failing.py file " in err
    assert err.count(said.format("epoch_ended") + "OSError: the server is away in epoch 1") == 1
    assert err.count(said.format("epoch_ended")) == 1
    assert err.count(said.format("run_ended") + "SystemExit: finished") == 1


TRACKER = """
from pathlib import Path
import pricekit

pricekit_tracker = {name!r}

def note(text):
    with Path({log!r}).open("a") as file:
        print(text, file=file)

@pricekit.plugin.hookimpl
def pricekit_cross_validation_started(folder, config, folds, resumed):
    note(f"{{folder.name}} of {{folds}}")

@pricekit.plugin.hookimpl
def pricekit_cross_validation_ended(folder, outcome, facts):
    note(f"{{folder.name}} {{outcome}} {{len(facts['folds'])}}")

@pricekit.plugin.hookimpl
def pricekit_run_started(folder):
    note(f"{{folder.name}} started")

@pricekit.plugin.hookimpl
def pricekit_bundle_exported(bundle):
    note(f"{{bundle.name}} exported")
"""


@pytest.fixture
def tracker(tmp_path):
    """A plugin file with the tracker `mine`, and a function that returns what it has noted."""
    log, file = tmp_path / "log.txt", tmp_path / "tracker.py"
    file.write_text(TRACKER.format(name="mine", log=str(log)))
    return file, lambda: log.read_text().splitlines() if log.exists() else []


def test_a_tracker_observes_only_runs_that_ask_for_it(pricekit, catalog, tmp_path, tracker):
    file, noted = tracker
    train = ["train", catalog, "--epochs", 1, *SMALL, "--plugin", file]
    assert pricekit(*train, "--out", tmp_path / "silent")[0] == 0
    assert pricekit("export", tmp_path / "silent", "--out", tmp_path / "b1", "--plugin", file)[0] == 0
    assert noted() == []
    assert pricekit(*train, "--out", tmp_path / "asking", "--track", "mine")[0] == 0
    assert pricekit("export", tmp_path / "asking", "--out", tmp_path / "b2", "--plugin", file)[0] == 0
    assert noted() == ["asking started", "b2 exported"]


def test_a_cross_validation_has_events_around_those_of_its_folds(pricekit, catalog, tmp_path, tracker):
    file, noted = tracker
    cv = ["cv", catalog, "--folds", 2, "--epochs", 1, *SMALL, "--plugin", file, "--out", tmp_path / "cv"]
    assert pricekit(*cv, "--set", "track=['mine']")[0] == 0
    assert noted() == ["cv of 2", "fold-0 started", "fold-1 started", "cv finished 2"]


def test_an_unknown_tracker_is_an_error_with_the_nearest_name(pricekit, catalog, tmp_path, tracker):
    file, _ = tracker
    train = ["train", catalog, "--out", tmp_path / "run", "--plugin", file, "--track"]
    code, _, err = pricekit(*train, "mime")
    assert (code, "there is no tracker 'mime'; available: mine" in err) == (3, True)
    code, _, err = pricekit(*train, "mlflow")
    assert (code, "pricekit-mlflow" in err, "Check --track." in err) == (3, True, True)
    assert not (tmp_path / "run").exists()


def test_a_tracker_needs_a_proper_name(pricekit, catalog, tmp_path):
    file = tmp_path / "tracker.py"
    file.write_text(TRACKER.format(name="My Tracker", log=""))
    code, _, err = pricekit("train", catalog, "--out", tmp_path / "run", "--plugin", file)
    assert (code, "pricekit_tracker is 'My Tracker'" in err) == (3, True)


def test_every_event_has_an_observer_hook():
    events = {name for name in vars(hookspecs) if name.startswith("pricekit_") and "register" not in name}
    assert events == {
        *("pricekit_run_started", "pricekit_epoch_ended", "pricekit_checkpoint_saved"),
        *("pricekit_run_ended", "pricekit_bundle_exported"),
        *("pricekit_cross_validation_started", "pricekit_cross_validation_ended"),
    }
    assert all(getattr(registry().manager.hook, event).spec for event in events)


@pytest.mark.parametrize(
    "cause", [KeyboardInterrupt(), MemoryError(), OSError(28, "No space left on device")]
)
def test_a_failing_machine_is_not_the_fault_of_a_plugin(cause):
    def call():
        try:
            raise cause
        except BaseException as error:
            raise RuntimeError("the kernel failed") from error

    with pytest.raises(type(cause)), plugin_call("loss", "smape", "computing"):
        call()


WRITER = """
import pricekit

@pricekit.plugin.hookimpl
def pricekit_run_started(folder):
    (folder / "observers" / "mine").mkdir(parents=True)
    (folder / "observers" / "mine" / "log.txt").write_text("started")
    {started}

@pricekit.plugin.hookimpl
def pricekit_bundle_exported(folder, bundle):
    {exported}
"""


@pytest.fixture
def writer(tmp_path, catalog, pricekit):
    """Train and export with a plugin that runs these lines when it observes; return what both commands say."""

    def run(started="pass", exported="pass"):
        file = tmp_path / "writer.py"
        file.write_text(WRITER.format(started=started, exported=exported))
        train = ["train", catalog, "--out", tmp_path / "run", "--epochs", 1, "--no-refit", *SMALL]
        export = ["export", tmp_path / "run", "--out", tmp_path / "bundle"]
        return [" ".join(pricekit(*words, "--plugin", file)[2].split()) for words in (train, export)]

    return run


@pytest.mark.parametrize("line", ["(folder / 'notes.txt').write_text('')", "(folder / 'notes').mkdir()"])
def test_what_an_observer_writes_in_a_run_is_named(writer, tmp_path, line):
    train, export = writer(started=line)
    assert f"wrote {tmp_path / 'run' / 'notes'}" in train
    assert f"an observer writes only below {tmp_path / 'run' / 'observers' / 'NAME'}" in train
    assert "writer.py file" in train
    assert "the bundle is in" in export


def test_an_observer_that_changes_a_file_of_pricekit_is_named_before_the_damage_is(writer):
    train, export = writer(started="(folder / 'backbone.json').write_text('{}')")
    assert "backbone.json when it observed run_started" in train
    assert "backbone.json was altered or damaged" in train + export


def test_what_an_observer_writes_in_a_bundle_is_named_and_not_read(writer, pricekit, tmp_path, catalog):
    train, export = writer(exported="(bundle / 'notes.txt').write_text('')")
    assert "an observer writes" not in train
    assert f"wrote {tmp_path / 'bundle' / 'notes.txt'} when it observed bundle_exported" in export
    predict = ["predict", tmp_path / "bundle", catalog, "--out", tmp_path / "prices.csv"]
    assert pricekit(*predict, "--engine", "ort-cpu")[0] == 0
