"""Model repositories of Triton."""

import re

import onnx
import pytest

from pricekit.errors import ExportError
from pricekit.support.locks import owned


def test_a_repository_holds_the_graph_and_its_inputs(pricekit, run, tmp_path):
    code, _, err = pricekit("export", run, "--out", tmp_path / "my prices", "--triton", tmp_path / "models")
    assert code == 0
    folder = tmp_path / "models" / "my_prices"
    assert folder.name in err
    graph = (folder / "1" / "model.onnx").read_bytes()
    assert graph == (tmp_path / "my prices" / "model.onnx").read_bytes()
    config = (folder / "config.pbtxt").read_text()
    assert 'name: "my_prices"' in config
    puts = (*onnx.load_from_string(graph).graph.input, *onnx.load_from_string(graph).graph.output)
    kinds = {onnx.TensorProto.INT64: "TYPE_INT64", onnx.TensorProto.FLOAT: "TYPE_FP32"}
    expected = [(put.name, kinds[put.type.tensor_type.elem_type]) for put in puts]
    assert re.findall(r'name: "(\w+)" data_type: (\w+)', config) == expected
    width = onnx.load_from_string(graph).graph.input[2].type.tensor_type.shape.dim[1].dim_value
    assert f"dims: [ {width} ]" in config


def test_an_existing_model_is_replaced_only_on_request(pricekit, run, tmp_path):
    repository = tmp_path / "models"
    (repository / "b" / "1").mkdir(parents=True)
    (repository / "b" / "mine.txt").write_text("x")
    for more in ([], ["--overwrite"]):  # what is no model is never replaced
        code, _, err = pricekit("export", run, "--out", tmp_path / "b", "--triton", repository, *more)
        assert code == 1
        assert "exists and contains files that pricekit did not write" in err
        assert not (tmp_path / "b").exists()  # said before the work, not after it
    (repository / "b" / "config.pbtxt").write_text("")
    assert pricekit("export", run, "--out", tmp_path / "b", "--triton", repository, "--overwrite")[0] == 1
    (repository / "b" / "mine.txt").unlink()
    arguments = ("export", run, "--out", tmp_path / "b", "--triton", repository)
    assert pricekit(*arguments)[0] == 1
    assert pricekit(*arguments, "--overwrite")[0] == 0
    assert (repository / "b" / "config.pbtxt").read_text()


def test_two_exports_never_write_one_model(pricekit, run, tmp_path):
    with owned(tmp_path / "models" / "b", "Triton model", ExportError):
        code, _, err = pricekit("export", run, "--out", tmp_path / "b", "--triton", tmp_path / "models")
    assert code == 4
    assert "another thread of this process" in err
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "models").exists()


def test_a_run_without_features_is_refused(pricekit, catalog, tmp_path):
    few = ("--set", "features=[]", "--set", "training.epochs=1", "--quiet")
    assert pricekit("train", catalog, "--out", tmp_path / "run", *few)[0] == 0
    arguments = ("--out", tmp_path / "b", "--triton", tmp_path / "models")
    code, _, err = pricekit("export", tmp_path / "run", *arguments)
    assert code == 1
    assert "has no features" in err
    assert not (tmp_path / "b").exists()
    code, _, err = pricekit("export", tmp_path, *arguments)
    assert (code, "is not a finished run" in err or "is not a run" in err) == (1, True)


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
