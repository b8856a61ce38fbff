"""Files priced by the workers of a Ray cluster: equal to those of one process, whatever is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import pricekit as pk
from pricekit.plugin import BundleError, ConfigError, DataError, PluginError
from pricekit.plugin.runners import Address, Job, Outcome, Part, open_predictor, parts_of

ray = pytest.importorskip("ray")
from pricekit_ray import cluster, runner  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # Ray leaves the files of its logs open


@pytest.fixture(scope="module", autouse=True)
def address():
    """A cluster of two CPUs."""
    context = ray.init(
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield context.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def bundle():
    return Path(__file__).parents[3] / "tests" / "golden" / "bundle"


@pytest.fixture(scope="module")
def predictor(bundle):
    return open_predictor(bundle, "ort-cpu")


@pytest.fixture(scope="module")
def source(catalog, tmp_path_factory):
    """A folder of four files; read only."""
    rows = pd.read_csv(catalog, dtype={"sample_id": str}).drop(columns="price")
    folder = tmp_path_factory.mktemp("tables") / "new"
    for place, name in enumerate(("day=1/a", "day=1/b", "day=2/a", "day=2/b")):
        file = folder / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.iloc[30 * place : 30 * place + 30].to_parquet(file, index=False)
    return folder


@pytest.fixture(scope="module")
def expected(bundle, source, tmp_path_factory):
    """The bytes of each file of prices, from one process."""
    out = tmp_path_factory.mktemp("expected") / "prices"
    pk.load(bundle, engine="ort-cpu").predict_file(source, out, processes=1)
    return _prices(out)


def _prices(out):
    files = [file for file in out.rglob("*") if file.is_file() and "_pricekit" not in file.parts]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def _run(script, *words):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, timeout=300
    )


def test_the_files_equal_those_of_one_process(bundle, source, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(source.parent)  # workers have another working directory
    out = Path(os.path.relpath(tmp_path / "prices"))
    assert pk.load(bundle, engine="ort-cpu").predict_file("new", out, runner="ray") == 120
    assert _prices(out) == expected
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    assert pk.load(bundle, engine="ort-cpu").predict_file("new", out, runner="ray", resume=True) == 120
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before
    assert ray.is_initialized()


def _fragile(job, killed, times):
    """Return a job whose worker is killed between a file of prices and its record, some times."""

    class Deadly(type(Path())):
        """The file of a record; its folder is first used when the prices are complete."""

        @property
        def parent(self):
            (killed / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    class Fragile:
        def shipped(self):
            return self

        def check(self):
            job.check()

        def __call__(self, part):
            if part.name == "day=1/b.parquet" and len(list(killed.iterdir())) < times:
                part = replace(part, record=Deadly(part.record))
            return job(part)

    killed.mkdir()
    return Fragile()


@pytest.mark.parametrize("times", [1, 9])
def test_a_file_whose_worker_is_killed_is_priced_again_a_few_times(
    predictor, source, expected, tmp_path, times
):
    out = tmp_path / "prices"
    (out / "_pricekit").mkdir(parents=True)
    job, parts = _fragile(Job.of(predictor).shipped(), tmp_path / "killed", times), parts_of(source, out)
    outcomes = {each.name: each for each in runner.run(job, parts, address=None, workers=1)}
    assert set(outcomes) == set(expected)
    failed = [name for name, outcome in outcomes.items() if outcome.problem]
    assert len(list((tmp_path / "killed").iterdir())) == min(times, runner.ATTEMPTS)
    assert _prices(out) == expected
    if times == 1:
        assert not failed
    else:
        assert failed == ["day=1/b.parquet"]
        assert "were killed, 3 times" in outcomes["day=1/b.parquet"].problem
    records = {str(file.relative_to(out / "_pricekit"))[:-5] for file in out.rglob("_pricekit/**/*.json")}
    assert records == set(expected) - set(failed)


def test_what_a_killed_driver_finished_is_kept(
    bundle, source, expected, address, tmp_path, killed_prediction
):
    out = tmp_path / "prices"
    finished = out / killed_prediction(bundle, source, out, runner="ray", address=address, processes=1)
    before = finished.stat().st_mtime_ns
    assert pk.load(bundle, engine="ort-cpu").predict_file(source, out, runner="ray", resume=True) == 120
    assert finished.stat().st_mtime_ns == before
    assert _prices(out) == expected


def test_a_broken_file_stops_no_other(bundle, source, expected, tmp_path, raises):
    shutil.copytree(source, tmp_path / "new")
    (tmp_path / "new" / "broken.parquet").write_bytes(b"PAR1 nothing")
    with raises(DataError, "table") as caught:
        pk.load(bundle, engine="ort-cpu").predict_file(tmp_path / "new", tmp_path / "out", runner="ray")
    assert set(caught.value.facts["failed"]) == {"broken.parquet"}
    assert _prices(tmp_path / "out") == expected


def test_paths_that_a_worker_does_not_see_are_a_problem_of_the_file(predictor, source, tmp_path):
    job, (part, *_) = Job.of(predictor), parts_of(source, tmp_path / "missing")
    (outcome,) = runner.run(job, [part], address=None, workers=None)
    assert (
        f"does not see {tmp_path / 'missing'}. Workers need a disk that all machines share" in outcome.problem
    )
    (tmp_path / "missing").mkdir()
    (outcome,) = runner.run(job, [replace(part, source=source / "gone")], address=None, workers=None)
    assert f"does not see {source / 'gone'}" in outcome.problem
    remote = Address("s3://shop/new/a.parquet")
    assert runner._unseen(Part(remote, remote, remote, "a.parquet")) is None


def test_errors_that_concern_all_files_stop_the_work(predictor, source, tmp_path, raises):
    parts = parts_of(source, tmp_path)
    with raises(BundleError):
        next(runner.run(replace(Job.of(predictor), digest="0" * 64), parts, address=None, workers=None))
    with raises(ConfigError, "model"):
        next(runner.run(Job.of(replace(predictor, origin=None)), parts, address=None, workers=None))

    class Full:
        def shipped(self):
            return self

        def check(self):
            pass

        def __call__(self, part):
            raise OSError(28, "No space left on device")

    with raises(OSError):
        next(runner.run(Full(), parts, address=None, workers=None))


def test_tasks_are_cancelled_when_nobody_waits_for_them(source, tmp_path):
    class Slow:
        def shipped(self):
            return self

        def check(self):
            pass

        def __call__(self, part):
            if part.name != "day=1/a.parquet":
                time.sleep(600)
            return Outcome(part.name)

    outcomes = runner.run(Slow(), parts_of(source, tmp_path), address=None, workers=None)
    assert next(outcomes).name == "day=1/a.parquet"
    outcomes.close()  # as Ctrl-C does
    until = time.monotonic() + 120
    while ray.available_resources().get("CPU") != 2:
        assert time.monotonic() < until
        time.sleep(0.1)


UNPREPARED = """
import sys
import pricekit as pk
import ray
bundle, source, out, address, hidden = sys.argv[1:]
ray.init(address, logging_level="ERROR", log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": hidden}})
try:
    pk.load(bundle, "ort-cpu").predict_file(source, out, runner="ray")
except pk.errors.PluginError as error:
    print(error)
"""


@pytest.mark.parametrize("lacking", ["pricekit", "pricekit_ray", "onnxruntime"])
def test_a_cluster_without_the_packages_is_refused_before_any_file(
    bundle, source, address, tmp_path, lacking
):
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / f"{lacking}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{lacking}'\")"
    )
    done = _run(UNPREPARED, bundle, source, tmp_path / "out", address, tmp_path / "hidden")
    assert lacking in done.stdout
    assert "Install pricekit[cpu]" in done.stdout or "pip install" in done.stdout, done
    assert _prices(tmp_path / "out") == {}


def test_another_version_of_pricekit_is_refused(predictor, source, tmp_path, monkeypatch, raises):
    monkeypatch.setattr("pricekit_ray.cluster.__version__", "9.9")
    with raises(PluginError, "runner"):
        next(runner.run(Job.of(predictor), parts_of(source, tmp_path), address=None, workers=None))


def test_without_an_address_a_cluster_of_this_machine_starts_and_ends(bundle, source, expected, tmp_path):
    out = tmp_path / "prices"
    words = [*("predict", bundle, source, "--out", out), *("--engine", "ort-cpu", "--runner", "ray")]
    script = (
        "import runpy\ntry: runpy.run_module('pricekit', run_name='__main__')\n"
        "finally:\n  import ray; print(ray.is_initialized())"
    )
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words), "--processes", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        env=env | {"PRICEKIT_LOAD_PLUGINS": ""},
    )
    assert done.returncode == 0, done
    assert _prices(out) == expected
    assert done.stdout.splitlines()[-1] == "False"
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["opening", "engine", "120"]


def test_a_cluster_that_does_not_answer_is_named(raises):
    with raises(ConfigError, "address"):
        cluster._connect("127.0.0.1:1")
