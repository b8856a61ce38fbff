import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from conftest import tiny_config as tiny_config_of
from pricekit.core.loader import load
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop

pytest.importorskip("tensorboard")
FOLDER = "observers/tensorboard"


@pytest.fixture(autouse=True)
def _observed(monkeypatch):
    """Load this package as the only observer."""
    found = load([EntryPoint("tensorboard", "pricekit_tensorboard", "pricekit")])
    assert not found.failed
    for name in ("core.calls", "runs.prepare", "runs.folder"):
        monkeypatch.setattr(f"pricekit.{name}.registry", lambda: found)


def tiny_config(*layers):
    return tiny_config_of({"track": ["tensorboard"]}, *layers)


def events(out):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(out / FOLDER), size_guidance={"scalars": 0}).Reload()


def scalars(out, tag):
    return [(event.step, event.value) for event in events(out).Scalars(tag)]


def lines(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_each_epoch_is_written_at_its_number(catalog, tmp_path, logged):
    out = tmp_path / "my run"
    train(Source(catalog), tiny_config(), out)
    written = lines(out)
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2, 3]
    for tag, key in {
        "loss/train": "loss",
        "smape/validation": "valid_smape",
        "learning_rate": "learning_rate",
        "rows_per_second": "rows_per_second",
    }.items():
        assert [value for _, value in scalars(out, tag)] == pytest.approx([line[key] for line in written])
    assert "epoch" not in events(out).Tags()["scalars"]
    assert logged().count(f"tensorboard --logdir '{out}/{FOLDER}'") == 1


def test_the_numbers_of_a_gpu_have_a_group(tmp_path):
    from pricekit_tensorboard import events as log

    log.start(tmp_path, {}, resumed=False)
    log.write_epoch(tmp_path, {"epoch": 1, "step": 6, "gpu_memory_gib": 2.0, "gpu_utilization": 90.0})
    log.end(tmp_path, "failed", {})
    assert scalars(tmp_path, "gpu/memory_gib") == [(1, 2.0)]
    assert scalars(tmp_path, "gpu/utilization") == [(1, 90.0)]


def test_the_end_has_the_final_metrics_and_all_settings(catalog, tmp_path):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    out = tmp_path / "run"
    facts = train(Source(catalog), tiny_config(), out)
    for name, value in facts["metrics"].items():
        assert scalars(out, f"final/{name}") == [(facts["best_epoch"], pytest.approx(value))]
    start, end = (
        HParamsPluginData.FromString(
            events(out).SummaryMetadata(f"_hparams_/session_{part}_info").plugin_data.content
        )
        for part in ("start", "end")
    )
    settings = start.session_start_info.hparams
    assert settings["backbone.name"].string_value == "bag"
    assert settings["training.learning_rate"].number_value == 0.01
    assert settings["columns.text"].string_value == "['catalog_content']"
    assert end.session_end_info.status == 1  # success


def test_a_resumed_run_continues_its_log_without_duplicate_epochs(catalog, tmp_path, monkeypatch):
    """A run killed before the second epoch's checkpoint trains and logs that epoch again."""
    out, config = tmp_path / "run", tiny_config({"training": {"epochs": 4}})

    def save(self, name, call=loop.Session.save):
        if self.state.epoch == 2 and name == "last.safetensors":
            raise KeyboardInterrupt
        call(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Session, "save", save)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), config, out)
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2]
    facts = train(Source(catalog), config, out, mode="resume")
    assert len(list((out / FOLDER).iterdir())) == 2
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2, 3, 4]
    assert [value for _, value in scalars(out, "loss/train")] == pytest.approx(
        [line["loss"] for line in lines(out)]
    )
    assert [step for step, _ in scalars(out, "final/smape")] == [facts["best_epoch"]]
    assert "_hparams_/session_start_info" in events(out)._plugin_to_tag_to_content["hparams"]


def test_a_new_run_in_the_same_folder_leaves_no_event_of_the_old_one(catalog, tmp_path):
    out = tmp_path / "run"
    train(Source(catalog), tiny_config(), out)
    other = out / FOLDER / "events.out.tfevents.1700000000.host.1.0"
    kept = [other, out / FOLDER / "notes.txt", out / "events.out.tfevents.1.h.1.0.pricekit"]
    for path in kept:
        path.write_bytes(b"")
    train(Source(catalog), tiny_config({"training": {"epochs": 2}}), out, mode="overwrite")
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2]
    assert all(path.exists() for path in kept)
    assert len(list((out / FOLDER).iterdir())) == 3


def test_an_unwritable_log_does_not_stop_training(catalog, tmp_path, caplog):
    out = tmp_path / "run"
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), out)
    for path in (out / FOLDER).iterdir():
        path.unlink()
    (out / FOLDER).rmdir()
    (out / FOLDER).write_text("a file")
    caplog.clear()
    train(Source(catalog), tiny_config(), out, mode="overwrite")
    assert len(lines(out)) == 3
    assert (out / FOLDER).read_text() == "a file"
    assert caplog.text.count("failed to observe") == 1


CLI = """
import sys
from pricekit.cli.main import main
try:
    main()
finally:
    print("imported:", *(n for n in ("pricekit_tensorboard", "tensorboard", "torch") if n in sys.modules))
"""


def cli(*arguments, plugins="pricekit-tensorboard"):
    """Run the command line in a separate process; return its output and its imports."""
    done = subprocess.run(
        [sys.executable, "-c", CLI, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PRICEKIT_LOAD_PLUGINS": plugins},
    )
    assert done.returncode == 0, done.stderr
    said, _, imported = (done.stderr + done.stdout).rpartition("imported:")
    return said, imported.split()


def test_listing_plugins_does_not_import_it():
    assert cli("--help")[1] == []
    assert cli("plugins", "list")[1] == ["pricekit_tensorboard"]
    assert cli("plugins", "list", plugins="")[1] == []


def test_the_installed_plugin_is_found(catalog, tmp_path):
    (tmp_path / "tiny.toml").write_text(tiny_config().to_toml())
    said, _ = cli("train", catalog, "--config", tmp_path / "tiny.toml", "--out", tmp_path / "run")
    assert said.count("tensorboard --logdir") == 1
    assert [step for step, _ in scalars(tmp_path / "run", "loss/train")] == [1, 2, 3]
