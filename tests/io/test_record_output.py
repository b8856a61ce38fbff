"""Runs and bundles of other formats are refused in one sentence; a new one may replace them."""

import json
import shutil
from dataclasses import replace

import pytest

import pricekit as pk
from conftest import tiny_config
from pricekit.errors import BundleError, TrainingError
from pricekit.io.record import FORMAT, read_record, write_record
from tests.predict.hostile import write_manifest


def _with_format(folder, number):
    write_record(folder, replace(read_record(folder), format=number))


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_a_run_of_another_format_is_refused(copy, number):
    _with_format(copy, number)
    with pytest.raises(TrainingError) as error:
        pk.load(copy)
    said = f"{copy} has the format {number}, but this pricekit reads the format {FORMAT}; train again"
    assert str(error.value) == said


def test_an_unfinished_run_of_another_format_is_not_resumed_but_replaced(copy, catalog, raises):
    write_record(copy, replace(read_record(copy), state="unfinished", format=FORMAT - 1))
    with raises(TrainingError):
        pk.train(catalog, out=copy, resume=True)
    config = tiny_config({"training": {"epochs": 1}}).model_dump(exclude_unset=True)
    assert pk.train(catalog, out=copy, overwrite=True, settings=config).metrics
    assert read_record(copy).format == FORMAT


def test_a_bundle_of_another_format_is_refused_but_replaced(run, bundle, tmp_path, raises):
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    write_manifest(copy, manifest | {"schema_version": FORMAT - 1})
    with raises(BundleError):
        pk.load(copy)
    pk.load(run).export(copy, overwrite=True)
    assert len(pk.load(copy).predict(["tea"])) == 1
