"""Damaged files of runs, ensembles and cross-validations are named before they are used."""

import json
import shutil

import pytest

import pricekit as pk
from conftest import TINY, tiny_config
from pricekit.errors import BundleError, DataError, PricekitError, TrainingError
from pricekit.io.digests import LISTING, read_listing
from pricekit.io.files import RECORD
from pricekit.io.record import staging_of, state_of
from pricekit.runs.folder import STARTED
from pricekit.runs.opened import open_run, read_sample
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.training import loop
from pricekit.training.checkpoint import BEST

READ = ["source.json", "config.toml", "tokenizer.json", "preprocess.json", "backbone.json", "intervals.json"]


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


@pytest.fixture(scope="module")
def stopped(catalog, tmp_path_factory):
    """A run that was interrupted in its second epoch."""
    out = tmp_path_factory.mktemp("stopped") / "run"

    def validate(session, *rest, call=loop.validate):
        if session.state.epoch:
            raise KeyboardInterrupt
        return call(session, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "validate", validate)
        with pytest.raises(KeyboardInterrupt):
            train(Source(catalog), tiny_config(), out)
    return out


def test_a_run_lists_what_is_read_again(run):
    listed = read_listing(run)
    assert {*READ, BEST, "run.json", "held_out.parquet", "sample.parquet", "split.parquet"} <= set(listed)
    assert {"last.safetensors", "metrics.jsonl", LISTING}.isdisjoint(listed)


@pytest.mark.parametrize("name", [*READ, BEST, "run.json"])
def test_a_damaged_file_of_a_run_is_named(copy, name, raises):
    _flip(copy / name)
    with raises(TrainingError):
        open_run(copy)


@pytest.fixture(scope="module")
def another(catalog, tmp_path_factory):
    """A run of another seed; read only."""
    out = tmp_path_factory.mktemp("another") / "run"
    train(Source(catalog), tiny_config({"seed": 1, "training": {"epochs": 1}}), out)
    return out


@pytest.mark.parametrize("name", ["source.json", "run.json", "config.toml", BEST])
def test_a_file_of_another_run_is_named(copy, another, name, raises):
    shutil.copyfile(another / name, copy / name)
    with raises(TrainingError):
        open_run(copy)


def test_an_edited_configuration_is_named(copy, raises):
    path = copy / "config.toml"
    path.write_text(path.read_text().replace("max_length = 64", "max_length = 65"))
    with raises(TrainingError):
        pk.load(copy).predict(["tea"])
    with raises(TrainingError):
        pk.train(copy / "table.csv", out=copy, resume=True)


def test_held_out_rows_sample_and_facts_are_checked(copy, raises):
    opened, handle = open_run(copy), pk.load(copy)
    _flip(copy / "held_out.parquet")
    with raises(DataError):
        handle.held_out  # noqa: B018
    with raises(DataError):
        pk.load(copy).evaluate()
    _flip(copy / "sample.parquet")
    with raises(TrainingError):
        read_sample(opened)
    _flip(copy / "run.json")
    with raises(TrainingError):
        pk.load(copy)


@pytest.mark.parametrize("name", sorted({*STARTED} - {"out_of_fold.parquet", "pseudo_labelled.parquet"}))
def test_an_unfinished_run_is_checked_before_any_work(stopped, tmp_path, name, raises):
    copy = shutil.copytree(stopped, tmp_path / "copy")
    _flip(copy / name)
    with raises(TrainingError):
        train(Source(copy / "no table"), tiny_config(), copy, mode="resume")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"kind": "run", "format": 5, "state": "done", "pass": "first"}']
)
def test_a_damaged_record_is_not_reported_as_an_absent_run(stopped, tmp_path, catalog, content, raises):
    copy = shutil.copytree(stopped, tmp_path / "copy")
    (copy / RECORD).write_text(content)
    assert state_of(copy).name == "damaged"
    with raises(BundleError):
        pk.load(copy)
    with raises(TrainingError, "overwrite", "out"):
        pk.train(catalog, out=copy, resume=True)
    pk.train(catalog, out=copy, overwrite=True, settings=TINY | {"training": {"epochs": 1}})
    assert state_of(copy).name == "finished"


def test_a_damaged_list_is_named(copy, raises):
    _flip(copy / LISTING)
    with raises(TrainingError):
        open_run(copy)


def test_runs_without_a_list_open_and_resume(copy, catalog):
    (copy / LISTING).unlink()
    open_run(copy)
    train(Source(catalog), tiny_config(), copy, mode="resume")
    open_run(copy)


def test_a_finished_run_that_is_resumed_replaces_its_damaged_facts(copy, catalog):
    smape = json.loads((copy / "run.json").read_text())["metrics"]["smape"]
    for name in ("run.json", "held_out.parquet", "intervals.json"):
        _flip(copy / name)
    facts = train(Source(catalog), tiny_config(), copy, mode="resume")
    assert facts["metrics"]["smape"] == smape
    assert open_run(copy).facts["metrics"]["smape"] == smape


@pytest.mark.parametrize(
    ("finished", "name"),
    [
        (True, "backbone.json"),
        (False, "source.json"),
        *(
            pytest.param(finished, name, marks=pytest.mark.slow)
            for finished in (True, False)
            for name in ("backbone.json", "files.json", "source.json", "config.toml", "run.json")
            if (finished, name) not in ((True, "backbone.json"), (False, "source.json"))
        ),
    ],
)
def test_a_damaged_run_is_overwritten(run, stopped, catalog, pricekit, tmp_path, finished, name):
    """Also an unfinished one, in its place, and an unfinished replacement of a run."""
    copy = shutil.copytree(run if finished else stopped, tmp_path / "run")
    (copy / "notes.txt").write_text("mine")
    for damaged in (copy, shutil.copytree(stopped, staging_of(copy))):
        (damaged / name).write_text("{")
    tiny = ("--epochs", 1, "--no-refit", "--features", "optimized22", "--set", "backbone.vocab_size=500")
    code, out, err = pricekit("train", catalog, "--out", copy, "--overwrite", *tiny)
    assert (code, f"the run is in {copy}" in out + err) == (0, True)
    open_run(copy)
    assert (copy / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_replacement_that_is_damaged_is_still_an_unfinished_one(copy, catalog, raises):
    damaged = shutil.copytree(copy, staging_of(copy))
    (damaged / "backbone.json").write_text("{")
    with raises(TrainingError, "resume", "overwrite", "out"):
        pk.train(catalog, out=copy, settings=TINY)


@pytest.mark.parametrize(
    "names",
    [
        ("files.json", "run.json"),
        ("files.json", "source.json", "run.json"),
        ("source.json", "run.json"),
        ("backbone.json",),
    ],
)
def test_a_folder_that_is_no_run_is_not_overwritten(catalog, tmp_path, names):
    """Other programs have files of these names, too."""
    content = dict.fromkeys((*names, "tokenizer.json"), b'{"digest": 1}')
    if "source.json" in names:
        content["source.json"] = b"{"
        content["config.toml"] = b""
    (tmp_path / "mine").mkdir()
    for name, text in content.items():
        (tmp_path / "mine" / name).write_bytes(text)
    with pytest.raises(TrainingError):
        pk.train(catalog, out=tmp_path / "mine", overwrite=True, settings=TINY)
    assert {file.name: file.read_bytes() for file in (tmp_path / "mine").iterdir()} == content
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.fixture(scope="module")
def folders(catalog, tmp_path_factory):
    """A cross-validation, and an ensemble of it and a run."""
    out = tmp_path_factory.mktemp("folders")
    settings = TINY | {"training": {"epochs": 1}}
    pk.cross_validate(catalog, out=out / "cv", folds=2, settings=settings)
    pk.cross_validate(catalog, out=out / "other", folds=2, settings=settings | {"seed": 1})
    pk.ensemble([out / "cv", out / "other"], out=out / "ensemble")
    return out


@pytest.mark.parametrize(
    "name",
    ["ensemble.json", "run.json", "intervals.json", "members/0/files.json", f"members/1/{BEST}", LISTING],
)
def test_a_damaged_file_of_an_ensemble_is_named(folders, tmp_path, name, raises):
    copy = shutil.copytree(folders / "ensemble", tmp_path / "copy")
    pk.load(copy)
    _flip(copy / name)
    with raises(TrainingError):
        pk.load(copy).predict(["tea"])


def test_exchanged_members_of_an_ensemble_are_found(folders, tmp_path, raises):
    copy = shutil.copytree(folders / "ensemble", tmp_path / "copy")
    (copy / "members" / "0").rename(copy / "members" / "x")
    (copy / "members" / "1").rename(copy / "members" / "0")
    (copy / "members" / "x").rename(copy / "members" / "1")
    with raises(TrainingError):
        pk.load(copy).predict(["tea"])


def test_a_damaged_run_joins_no_ensemble(folders, tmp_path, raises):
    copy = shutil.copytree(folders / "cv", tmp_path / "copy")
    _flip(copy / "fold-1" / BEST)
    with raises(TrainingError):
        pk.ensemble([copy, folders / "other"], out=tmp_path / "ensemble")


@pytest.mark.parametrize(
    "name", ["cv.toml", "plan.json", "folds.parquet", "fold-1/run.json", f"fold-0/{BEST}"]
)
def test_a_damaged_file_of_a_cross_validation_is_named(catalog, folders, tmp_path, name, raises):
    copy = shutil.copytree(folders / "cv", tmp_path / "copy")
    _flip(copy / name)
    with raises(TrainingError):
        pk.cross_validate(catalog, out=copy, resume=True)


@pytest.mark.parametrize("name", ["cv.json", "held_out.parquet"])
def test_damaged_results_of_a_cross_validation_are_named_and_made_again(
    catalog, folders, tmp_path, name, raises
):
    copy = shutil.copytree(folders / "cv", tmp_path / "copy")
    _flip(copy / name)
    with raises(PricekitError):
        pk.CrossValidation(copy).held_out  # noqa: B018
    pk.cross_validate(catalog, out=copy, resume=True)
    assert pk.CrossValidation(copy).held_out.equals(pk.CrossValidation(folders / "cv").held_out)


@pytest.mark.parametrize("finished", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_damaged_cross_validation_is_overwritten(catalog, folders, tmp_path, finished):
    copy = shutil.copytree(folders / "cv", tmp_path / "copy")
    for name in ("files.json", "plan.json", "fold-0/files.json", "fold-1/source.json"):
        _flip(copy / name)
    if not finished:
        (copy / "cv.json").unlink()
    pk.cross_validate(catalog, out=copy, folds=2, settings=TINY | {"training": {"epochs": 1}}, overwrite=True)
    assert pk.CrossValidation(copy).held_out.equals(pk.CrossValidation(folders / "cv").held_out)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_run_without_its_source_is_replaced_on_request(copy, catalog, raises):
    (copy / "source.json").unlink()
    with raises(TrainingError, "resume", "overwrite", "out"):
        train(Source(catalog), tiny_config(), copy)
    train(Source(catalog), tiny_config({"training": {"epochs": 1}}), copy, mode="overwrite")
    assert open_run(copy).facts


UNLISTED = (
    "out_of_fold.parquet",
    "pseudo_labelled.parquet",
    "asset-notes.bin",
    "refit/notes.txt",
    "notes.txt",
)


@pytest.mark.parametrize("name", UNLISTED)
def test_a_file_that_pricekit_did_not_write_damages_no_run(run, stopped, catalog, tmp_path, name):
    finished, resumed = (shutil.copytree(each, tmp_path / each.name) for each in (run, stopped.parent))
    resumed /= "run"
    for folder in (finished, resumed):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("of a plugin")
    assert pk.Model(finished).predict(["Green Tea"]).tolist() == pk.Model(run).predict(["Green Tea"]).tolist()
    pk.train(catalog, out=resumed, resume=True)
    pk.train(catalog, out=finished, resume=True)
    assert open_run(resumed).facts["metrics"] == open_run(run).facts["metrics"]


def test_the_error_of_a_damaged_run_names_the_files_of_others(copy, raises):
    _flip(copy / BEST)
    for name in ("b.txt", "a.txt", "d.txt", "sub/c.txt", "observers/mine/log.txt"):
        (copy / name).parent.mkdir(exist_ok=True, parents=True)
        (copy / name).write_text("of a plugin")
    with raises(TrainingError, path=str(copy)):
        pk.Model(copy).predict(["Green Tea"])
