"""Module paths of version 0.1 import the same objects from their new modules, with a warning."""

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

import pricekit
from pricekit.moved import MOVED, SPLIT, new_path

NAMES = [  # what the documents, templates and plugin packages of version 0.1 imported
    ("pricekit.predict", "Predictor"),
    ("pricekit.screen", "counted"),
    ("pricekit.screen", "notice"),
    ("pricekit.screen", "progress"),
    ("pricekit.screen", "say"),
    ("pricekit.screen", "show_table"),
    ("pricekit.training.adagrad", "RowwiseAdagrad"),
    ("pricekit.training.backbones.architectures", "Architecture"),
    ("pricekit.training.backbones.bpe", "train_bpe"),
    ("pricekit.training.backbones.transformer", "PretrainedPlugin"),
    ("pricekit.training.losses", "LogPrice"),
    ("pricekit.training.model", "PriceModel"),
    ("pricekit.training.optim", "adamw"),
    ("pricekit.training.optim", "parameter_groups"),
    ("pricekit.training.optim", "sparse_embeddings"),
    ("pricekit.training.optim", "warmup_cosine"),
    ("pricekit.training.run", "open_run"),
    ("pricekit.training.source", "Source"),
    ("pricekit.training.train", "train"),
    ("pricekit.export.export", "export_run"),
    ("pricekit.export.graph", "export_graph"),
    ("pricekit.core.configure", "configure"),
]


@pytest.fixture(autouse=True)
def _unloaded(monkeypatch):
    """Old paths warn on their first import, so forget those that are imported."""
    for name in [name for name in sys.modules if name.startswith("pricekit.")]:
        if new_path(name) or name.removeprefix("pricekit.") in SPLIT:
            monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.startswith("pricekit.") and new_path(name)]:
        del sys.modules[name]


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_is_the_module_at_the_new_one(old, new):
    expected = importlib.import_module(f"pricekit.{new}")
    spec = expected.__spec__
    with pytest.warns(DeprecationWarning, match=rf"pricekit\.{old} is now pricekit\.{new};"):
        found = importlib.import_module(f"pricekit.{old}")
    assert found is expected
    assert found.__spec__ is spec
    assert found.__name__ == f"pricekit.{new}"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_documented_name_still_exists_at_its_old_path(module, name):
    with pytest.warns(DeprecationWarning, match=r"is now pricekit\."):
        assert getattr(importlib.import_module(module), name)


def test_a_module_inside_a_moved_folder_is_loaded_once():
    from pricekit.model.backbones import bpe

    with pytest.warns(DeprecationWarning, match="is now"):
        assert importlib.import_module("pricekit.training.backbones.bpe") is bpe


@pytest.mark.filterwarnings("default")
def test_the_warning_points_at_the_import(recwarn):
    import pricekit.training.optim  # noqa: F401

    assert [Path(warning.filename) for warning in recwarn] == [Path(__file__)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["pricekit.nothing", "pricekit.export.nothing", "pricekit.training.nothing"])
def test_an_unknown_path_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match=rf"No module named '{name}'"):
        importlib.import_module(name)


def test_a_split_module_has_only_its_names():
    screen = importlib.import_module("pricekit.screen")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = screen.nothing


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_module_does_not_replace_a_function():
    before = getattr(pricekit, "predict", None)
    importlib.import_module("pricekit.predict")
    assert getattr(pricekit, "predict", None) is before


def test_no_module_lies_at_an_old_path():
    source = Path(pricekit.__file__).parent
    for old in (*MOVED, *SPLIT):
        path = source / old.replace(".", "/")
        assert not path.with_suffix(".py").exists(), old
        assert not (path / "__init__.py").exists(), old


def test_importing_pricekit_stays_light():
    code = "import sys, pricekit; print(*sorted(n for n in sys.modules if not n.startswith('_')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert not modules & {"torch", "numpy", "pandas", "pyarrow", "pydantic", "rich", "click", "onnxruntime"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "name"), [(module, name) for module in SPLIT for name in SPLIT[module]])
def test_each_name_of_a_split_module_is_found(module, name):
    assert getattr(importlib.import_module(f"pricekit.{module}"), name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_module_is_an_attribute_of_the_package():
    importlib.import_module("pricekit.manifest")
    assert pricekit.manifest.SCHEMA_VERSION >= 2


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_function_that_uses_the_package_can_be_sent_to_another_process(dumps):
    assert pickle.loads(dumps(pricekit)) is pricekit
