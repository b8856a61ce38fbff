"""Runs and bundles of other formats are refused in one sentence; a new one may replace them."""

import json
import shutil

import pytest

import pricekit as pk
from conftest import tiny_config
from pricekit.errors import BundleError, TrainingError
from pricekit.formats import FORMAT
from pricekit.support.digests import list_files
from tests.bundle.hostile import write_manifest


def _edit(folder, name, **changes):
    """Change facts of a run, with valid digests; None removes one."""
    facts = json.loads((folder / name).read_text("utf-8")) | changes
    text = json.dumps({key: value for key, value in facts.items() if value is not None})
    list_files(folder, [], {name: text})
    (folder / name).write_text(text)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


@pytest.mark.parametrize(
    ("found", "said"),
    [(None, "no format"), (FORMAT - 1, f"the format {FORMAT - 1}"), (FORMAT + 1, f"the format {FORMAT + 1}")],
)
@pytest.mark.parametrize("name", ["run.json", "source.json"])
def test_a_run_of_another_format_is_refused(copy, name, found, said):
    assert json.loads((copy / name).read_text("utf-8"))["format"] == FORMAT
    _edit(copy, name, format=found)
    with pytest.raises(TrainingError) as error:
        pk.load(copy)
    assert str(error.value) == f"{copy} has {said}, but this pricekit reads the format {FORMAT}; train again"


def test_facts_of_another_format_are_refused_by_what_reads_only_them(copy, raises):
    _edit(copy, "run.json", format=FORMAT - 1)
    for read in (pk.Run, lambda path: pk.leaderboard(path)):
        with raises(TrainingError):
            read(copy)


def test_an_unfinished_run_of_another_format_is_not_resumed_but_replaced(copy, catalog, raises):
    (copy / "run.json").unlink()
    _edit(copy, "source.json", format=FORMAT - 1)
    with raises(TrainingError):
        pk.train(catalog, out=copy, resume=True)
    config = tiny_config({"training": {"epochs": 1}}).model_dump(exclude_unset=True)
    assert pk.train(catalog, out=copy, overwrite=True, settings=config).facts["format"] == FORMAT


def test_a_bundle_of_another_format_is_refused_but_replaced(run, bundle, tmp_path, raises):
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    write_manifest(copy, manifest | {"schema_version": FORMAT - 1})
    with raises(BundleError):
        pk.load(copy)
    pk.Run(run).export(copy, overwrite=True)
    assert len(pk.load(copy).predict(["tea"])) == 1
