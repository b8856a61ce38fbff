"""A bundle by value: another process opens it without its folder, with the same prices to the bit."""

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np

from pricekit.errors import BundleError, ConfigError
from pricekit.predict.folders import Job
from pricekit.predict.predictor import Shipped
from pricekit.runs.load import load_model

TEXTS = ["Item Name: Green Tea, 20 Count", "Item Name: Rye Bread\nValue: 500\nUnit: g"]
OPEN = """
import pickle, sys
shipped = pickle.load(open(sys.argv[1], "rb"))
assert shipped() is shipped()
sys.stdout.buffer.write(shipped().predict(%r).tobytes())
"""


def test_another_process_opens_it_without_the_folder(bundle, tmp_path):
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    predictor = load_model(copy, "ort-cpu")
    (tmp_path / "shipped").write_bytes(pickle.dumps(Shipped.of(predictor)))
    shutil.rmtree(copy)
    words = [sys.executable, "-c", OPEN % TEXTS, tmp_path / "shipped"]
    found = subprocess.run(words, capture_output=True, check=True).stdout
    assert found == predictor.predict(TEXTS).astype(np.float32).tobytes()


def test_a_changed_bundle_and_a_run_are_not_sent(bundle, run, tmp_path, raises):
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    predictor = replace(load_model(copy, "ort-cpu"), digest="0" * 64)
    with raises(BundleError):
        Shipped.of(predictor)
    with raises(ConfigError, "model"):
        Job.of(load_model(run)).shipped()


def test_a_worker_with_another_bundle_is_refused(bundle, raises):
    job = Job.of(load_model(bundle, "ort-cpu"))
    job.check()
    with raises(BundleError):
        type(job)(job.model, "0" * 64, job.columns).check()
