import json
import os
import socket
import threading
from pathlib import Path

import pytest

import pricekit as pk
from conftest import TINY, tiny_config

pytest.importorskip("mlflow")
FILE = "observers/mlflow/run_id.json"
# MLflow's own tables, with SQLAlchemy 2.1
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:The ``noload`` loader strategy is deprecated:sqlalchemy.exc.SADeprecationWarning"
    ),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A database for all tests, because creating one takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch, store, tmp_path):
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)  # where MLflow puts artifacts


@pytest.fixture
def client(store):
    from mlflow import MlflowClient

    return MlflowClient(store)


def train(table, out, **options):
    """Train a tiny model that MLflow follows."""
    return pk.train(table, out=out, config=TINY, **{"track": "mlflow", **options})


def cross_validate(table, out, **options):
    """Do so for each fold."""
    return pk.cross_validate(table, out=out, config=TINY, track="mlflow", **options)


def run_id(out):
    return json.loads((out / FILE).read_text())["run_id"]


def history(client, out, name):
    return [(metric.step, metric.value) for metric in client.get_metric_history(run_id(out), name)]


def lines(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def artifacts(client, out, folder=None):
    return {item.path for item in client.list_artifacts(run_id(out), folder)}


def test_a_run_is_an_mlflow_run(catalog, client, logged):
    out = Path("my run")
    metrics = train(catalog, out).metrics
    found = client.get_run(run_id(out))
    assert (found.info.status, found.info.run_name) == ("FINISHED", "my run")
    assert client.get_experiment(found.info.experiment_id).name == "pricekit"
    for name in ("loss", "valid_smape", "learning_rate", "rows_per_second"):
        assert history(client, out, name) == [(line["epoch"], line[name]) for line in lines(out)]
    best = json.loads((out / "run.json").read_text())["best_epoch"]
    for name, value in metrics.items():
        assert history(client, out, f"final/{name}") == [(best, value)]
    assert found.data.params["backbone.name"] == "bag"
    assert found.data.params["training.learning_rate"] == "0.01"
    assert found.data.params["rows.train"] == "340"
    assert artifacts(client, out) == {"config.toml", "metrics.jsonl", "run.json"}
    said = logged()
    assert said.count(f"MLflow: run {run_id(out)} of experiment pricekit in sqlite:///") == 1


def test_the_experiment_is_that_of_mlflows_variable(catalog, client, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "teas")
    train(catalog, Path("run"), epochs=1)
    experiment = client.get_experiment(client.get_run(run_id(Path("run"))).info.experiment_id)
    assert experiment.name == "teas"


def test_a_resumed_run_continues_its_mlflow_run_without_duplicate_epochs(catalog, client, interrupt):
    """A run interrupted before the second epoch's checkpoint trains and logs that epoch again."""
    out = Path("run")
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        train(catalog, out, epochs=4)
    first = run_id(out)
    assert client.get_run(first).info.status == "KILLED"
    assert artifacts(client, out) == {"config.toml", "metrics.jsonl"}
    pk.train(catalog, out=out, resume=True)
    assert run_id(out) == first
    assert client.get_run(first).info.status == "FINISHED"
    assert history(client, out, "loss") == [(line["epoch"], line["loss"]) for line in lines(out)]


def test_a_resumed_run_without_its_mlflow_run_gets_a_new_one(catalog, client, interrupt):
    out = Path("run")

    interrupt(1)
    with pytest.raises(KeyboardInterrupt):
        train(catalog, out)
    deleted = run_id(out)
    of_another = client.create_run(client.get_run(deleted).info.experiment_id, tags={"made": "by hand"})
    client.delete_run(deleted)
    forged = [{"run_id": i} for i in (of_another.info.run_id, deleted, "0" * 32, "../../other", 7)]
    for text in [*map(json.dumps, forged), "[]", "no json"]:
        (out / FILE).write_text(text)
        interrupt(1)
        with pytest.raises(KeyboardInterrupt):
            pk.train(catalog, out=out, resume=True)
        assert run_id(out) not in text
        assert client.get_run(run_id(out)).info.status == "KILLED"
    assert client.get_run(of_another.info.run_id).info.status == "RUNNING"


def test_a_failed_run_has_the_status_failed_in_mlflow(catalog, client, raises):
    rates = {"training.learning_rate": 1e30, "training.embedding_learning_rate": 1e30}
    with raises(Exception, "settings"):
        train(catalog, Path("run"), settings=rates)
    assert client.get_run(run_id(Path("run"))).info.status == "FAILED"


def test_a_run_that_does_not_ask_is_not_logged(catalog, logged, monkeypatch):
    """Not even a database appears."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    out = Path("run")
    train(catalog, out, epochs=1, track=()).export("bundle")
    assert sorted(path.name for path in Path().iterdir()) == ["bundle", "run"]
    assert not (out / FILE).exists()
    assert "MLflow" not in logged()


def test_the_runs_of_folds_are_children_of_their_cross_validation(catalog, client):
    out = Path("cv")
    scores = cross_validate(catalog, out, folds=2, epochs=1)
    parent = client.get_run(run_id(out))
    assert parent.info.status == "FINISHED"
    assert parent.data.params["folds"] == "2"
    assert parent.data.metrics["final/smape"] == pytest.approx(scores.metrics["smape"])
    assert artifacts(client, out) == {"cv.toml", "cv.json"}
    query = f"tags.mlflow.parentRunId = '{parent.info.run_id}'"
    children = client.search_runs([parent.info.experiment_id], query)
    assert {child.info.run_id for child in children} == {run_id(out / "fold-0"), run_id(out / "fold-1")}
    assert {child.info.run_name for child in children} == {"fold-0", "fold-1"}


def test_an_interrupted_cross_validation_is_continued(catalog, client, interrupt):
    out = Path("cv")
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(catalog, out, folds=2, epochs=2)
    parent = run_id(out)
    assert client.get_run(parent).info.status == "KILLED"
    pk.cross_validate(catalog, out=out, resume=True)
    assert run_id(out) == parent
    assert client.get_run(parent).info.status == "FINISHED"
    tag = client.get_run(run_id(out / "fold-1")).data.tags["mlflow.parentRunId"]
    assert tag == parent


def test_an_exported_bundle_is_a_model_of_its_run(catalog, client):
    out = Path("run")
    train(catalog, out, epochs=1).export("teas")
    found = client.get_run(run_id(out))
    assert found.data.tags["pricekit.predict.bundle"] == "teas"
    (model,) = client.search_logged_models([found.info.experiment_id], f"source_run_id = '{run_id(out)}'")
    assert (model.name, model.status) == ("teas", "READY")
    assert [output.model_id for output in found.outputs.model_outputs] == [model.model_id]


def test_the_bundle_of_an_unlogged_run_is_not_logged_to_mlflow(catalog, monkeypatch, logged):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://")
    model = train(catalog, Path("run"), epochs=1)
    assert "logging of this run to MLflow stopped" in logged()
    model.export("bundle")
    assert "mlflow" not in logged().lower()


@pytest.fixture
def silent_server():
    """A server that closes every connection; return its URI and the connections."""
    came = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                came.append(address)
                connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://me:secret@127.0.0.1:{server.getsockname()[1]}", came
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_unresponsive_server_gets_two_requests(catalog, silent_server, monkeypatch, logged):
    uri, came = silent_server
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    train(catalog, Path("run"))
    assert len(lines(Path("run"))) == 3
    assert len(came) == 2
    said = logged()
    assert said.count("logging of this run to MLflow stopped") == 1
    assert "secret" not in said


@pytest.mark.parametrize("user", ["me:pass", "me:p@ss", "token", ""])
def test_no_password_is_shown(user):
    from pricekit_mlflow.client_settings import without_password

    said = without_password(f"cannot reach http://{user}@host:5000/api?to=a@b and more")
    assert said == "cannot reach http://host:5000/api?to=a@b and more"


def test_values_that_the_user_sets_are_kept(catalog, silent_server, monkeypatch):
    uri, came = silent_server
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    before = dict(os.environ)
    train(catalog, Path("run"), epochs=1)
    assert len(came) == 1
    assert dict(os.environ) == before


@pytest.mark.parametrize("uri", ["sqlite:///.", "no-such-scheme://host", "./folder"])
def test_an_unavailable_store_does_not_stop_training(catalog, uri, monkeypatch, logged):
    """MLflow itself would try to open the first one for two minutes."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("it waits"))
    train(catalog, Path("run"), epochs=1)
    assert logged().count("logging of this run to MLflow stopped") == 1


def test_a_lost_store_is_reported_once(catalog, monkeypatch, logged):
    asked = []

    def lost(self, *args, **kwargs):
        asked.append(args)
        raise OSError("gone")

    monkeypatch.setattr("mlflow.MlflowClient.log_batch", lost)
    monkeypatch.setattr("pricekit_mlflow.log.parameters", lambda settings: [])
    train(catalog, Path("run"))
    assert len(lines(Path("run"))) == 3
    assert len(asked) == 1
    assert logged().count("gone") == 1


def test_a_new_run_that_could_not_be_logged_keeps_nothing_of_the_old_one(catalog, silent_server, monkeypatch):
    out = Path("run")
    train(catalog, out, epochs=1)
    assert run_id(out)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", silent_server[0])
    train(catalog, out, epochs=1, overwrite=True)
    assert not (out / FILE).exists()


def test_any_settings_are_parameters_that_mlflow_takes(client, tmp_path):
    from pricekit_mlflow.log import VALUE_LENGTH, start

    table = {f"name {i}": i for i in range(230)}
    settings = {
        "a": table,
        "b/..//c": "x",
        "n" * 400: [1, 2],
        "long": "é" * 9000,
        "z": {"ü,;=": True, "no": {}},
    }
    params = client.get_run(start(tmp_path, settings, None).run_id).data.params
    assert params["a.name 229"] == "229"
    assert params["b_..__c"] == "x"
    assert params["n" * 250] == "[1, 2]"
    assert params["long"] == "é" * VALUE_LENGTH
    assert params["z.____"] == "true"
    assert len(params) == 234


def test_listing_plugins_does_not_import_it(program):
    names, plugins = {"pricekit_mlflow", "mlflow", "sqlalchemy", "torch"}, "pricekit-mlflow"
    assert not names & program("--help", plugins=plugins)[1]
    assert names & program("plugins", "list", plugins=plugins)[1] == {"pricekit_mlflow"}
    assert not names & program("plugins", "list", plugins="")[1]


def test_the_installed_plugin_is_found(catalog, monkeypatch, program):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///new/mlflow.db")
    Path("tiny.toml").write_text(tiny_config({"track": ["mlflow"]}).to_toml())
    said, _ = program("train", catalog, "--config", "tiny.toml", "--out", "run", plugins="pricekit-mlflow")
    assert [line[:12] for line in said.splitlines() if "mlflow" in line.lower()] == ["MLflow: run "], said
    assert MlflowClient("sqlite:///new/mlflow.db").get_run(run_id(Path("run"))).info.status == "FINISHED"
