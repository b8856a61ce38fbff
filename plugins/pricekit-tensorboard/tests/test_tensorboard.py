import json

import pytest

import pricekit as pk
from conftest import TINY, tiny_config

pytest.importorskip("tensorboard")
FOLDER = "observers/tensorboard"


def train(table, out, **options):
    """Train a tiny model that TensorBoard follows; return the facts about its run."""
    pk.train(table, out=out, config=TINY, track="tensorboard", **options)
    return facts_of(out)


def facts_of(out):
    return json.loads((out / "run.json").read_text())


def events(out):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(out / FOLDER), size_guidance={"scalars": 0}).Reload()


def scalars(out, tag):
    return [(event.step, event.value) for event in events(out).Scalars(tag)]


def lines(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_each_epoch_is_written_at_its_number(catalog, tmp_path, logged):
    out = tmp_path / "my run"
    train(catalog, out)
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
    facts = train(catalog, out)
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


def test_a_resumed_run_continues_its_log_without_duplicate_epochs(catalog, tmp_path, interrupt):
    """A run interrupted before the second epoch's checkpoint trains and logs that epoch again."""
    out = tmp_path / "run"
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        train(catalog, out, epochs=4)
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2]
    pk.train(catalog, out=out, resume=True)
    facts = facts_of(out)
    assert len(list((out / FOLDER).iterdir())) == 2
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2, 3, 4]
    assert [value for _, value in scalars(out, "loss/train")] == pytest.approx(
        [line["loss"] for line in lines(out)]
    )
    assert [step for step, _ in scalars(out, "final/smape")] == [facts["best_epoch"]]
    assert "_hparams_/session_start_info" in events(out)._plugin_to_tag_to_content["hparams"]


def test_a_new_run_in_the_same_folder_leaves_no_event_of_the_old_one(catalog, tmp_path):
    out = tmp_path / "run"
    train(catalog, out)
    other = out / FOLDER / "events.out.tfevents.1700000000.host.1.0"
    kept = [other, out / FOLDER / "notes.txt", out / "events.out.tfevents.1.h.1.0.pricekit"]
    for path in kept:
        path.write_bytes(b"")
    train(catalog, out, epochs=2, overwrite=True)
    assert [step for step, _ in scalars(out, "loss/train")] == [1, 2]
    assert all(path.exists() for path in kept)
    assert len(list((out / FOLDER).iterdir())) == 3


def test_an_unwritable_log_does_not_stop_training(catalog, tmp_path, caplog):
    out = tmp_path / "run"
    train(catalog, out, epochs=1)
    for path in (out / FOLDER).iterdir():
        path.unlink()
    (out / FOLDER).rmdir()
    (out / FOLDER).write_text("a file")
    caplog.clear()
    train(catalog, out, overwrite=True)
    assert len(lines(out)) == 3
    assert (out / FOLDER).read_text() == "a file"
    assert caplog.text.count("failed to observe") == 1


def test_listing_plugins_does_not_import_it(program):
    names = {"pricekit_tensorboard", "tensorboard", "torch"}
    plugins = "pricekit-tensorboard"
    assert not names & program("--help", plugins=plugins)[1]
    assert names & program("plugins", "list", plugins=plugins)[1] == {"pricekit_tensorboard"}
    assert not names & program("plugins", "list", plugins="")[1]


def test_the_installed_plugin_is_found(catalog, tmp_path, program):
    (tmp_path / "tiny.toml").write_text(tiny_config({"track": ["tensorboard"]}).to_toml())
    words = ["train", catalog, "--config", tmp_path / "tiny.toml", "--out", tmp_path / "run"]
    said, _ = program(*words, plugins="pricekit-tensorboard")
    assert said.count("tensorboard --logdir") == 1
    assert [step for step, _ in scalars(tmp_path / "run", "loss/train")] == [1, 2, 3]
