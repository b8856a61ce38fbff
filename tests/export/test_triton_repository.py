"""Model repositories of Triton."""

import pytest

from pricekit.errors import ExportError
from pricekit.io.locks import owned


def test_a_repository_holds_the_code_and_the_bundle(pricekit, run, tmp_path):
    code, _, err = pricekit("export", run, "--out", tmp_path / "my prices", "--triton", tmp_path / "models")
    assert code == 0
    folder = tmp_path / "models" / "my_prices"
    assert str(folder / "1") in err.replace("\n", "")
    assert 'name: "my_prices"' in (folder / "config.pbtxt").read_text()
    assert "class TritonPythonModel" in (folder / "1" / "model.py").read_text()
    written = {file.name: file.read_bytes() for file in (folder / "1" / "bundle").iterdir()}
    assert written == {file.name: file.read_bytes() for file in (tmp_path / "my prices").iterdir()}


def test_another_export_becomes_the_next_version(pricekit, run, tmp_path):
    repository = tmp_path / "models"
    arguments = ("export", run, "--out", tmp_path / "b", "--triton", repository, "--overwrite")
    assert pricekit(*arguments)[0] == 0
    config = repository / "b" / "config.pbtxt"
    edited = config.read_text().replace("count: 1", "count: 2").replace("ort-cpu", "openvino")
    config.write_text(edited)
    (repository / "b" / "1").rename(repository / "b" / "9")
    assert pricekit(*arguments)[0] == 0
    assert sorted(path.name for path in (repository / "b").iterdir()) == ["10", "9", "config.pbtxt"]
    assert config.read_text() == edited  # what its owner changed stays


def test_a_folder_with_something_else_stays(pricekit, run, tmp_path):
    mine = tmp_path / "models" / "b"
    mine.mkdir(parents=True)
    (mine / "mine.txt").write_text("x")
    arguments = ("export", run, "--out", tmp_path / "b", "--triton", tmp_path / "models", "--overwrite")
    code, _, err = pricekit(*arguments)
    assert (code, "is no model of Triton" in err) == (1, True)
    (mine / "config.pbtxt").write_text('backend: "onnxruntime" input [ { name: "catalog_content" } ]')
    code, _, err = pricekit(*arguments)
    assert (code, "with other inputs or outputs than catalog_content" in err) == (1, True)
    assert not (tmp_path / "b").exists()  # said before the work, not after it
    assert sorted(path.name for path in mine.iterdir()) == ["config.pbtxt", "mine.txt"]


def test_two_exports_never_write_one_model(pricekit, run, tmp_path):
    with owned(tmp_path / "models" / "b", "Triton model", ExportError):
        code, _, err = pricekit("export", run, "--out", tmp_path / "b", "--triton", tmp_path / "models")
    assert code == 4
    assert "another thread of this process" in err
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "models").exists()


def test_a_folder_without_a_run_is_refused(pricekit, tmp_path):
    code, _, err = pricekit("export", tmp_path, "--out", tmp_path / "b", "--triton", tmp_path / "models")
    assert (code, "contains no model" in err) == (1, True)


def test_a_file_is_not_a_model_repository(pricekit, run, tmp_path):
    (tmp_path / "models").write_text("x")
    code, _, err = pricekit("export", run, "--out", tmp_path / "b", "--triton", tmp_path / "models")
    assert code == 1
    assert "models is a file; choose another repository" in err
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(("out", "repository"), [("r/b", "r"), ("b", "b"), ("r/b/c", ".")])
def test_the_bundle_and_its_model_never_share_a_folder(pricekit, run, tmp_path, out, repository):
    (tmp_path / "r").mkdir()
    if repository == ".":  # the model's folder would be the bundle's by another way
        (tmp_path / "c").symlink_to(tmp_path / "r" / "b")
    code, _, err = pricekit("export", run, "--out", tmp_path / out, "--triton", tmp_path / repository)
    assert code == 1
    assert "choose another repository" in err
    assert not (tmp_path / out).exists()
