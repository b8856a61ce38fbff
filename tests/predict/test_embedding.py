"""The vectors of texts: of runs, ensembles and bundles."""

import json
import pickle
import shutil

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper

import pricekit as pk
from conftest import tiny_config
from pricekit.errors import BundleError, ConfigError, DataError, ExportError
from pricekit.export.export import export_run
from pricekit.features.preprocess import Inputs
from pricekit.predict.bundle import open_bundle
from pricekit.predict.embedding import Embedding
from pricekit.runs.ensemble import make_ensemble
from pricekit.runs.split import Source
from pricekit.runs.train import train
from pricekit.text.tokens import Tokens
from tests.predict.hostile import put, write_manifest

WIDTH = 16
"""Of the shared run: two members of width 8."""


@pytest.fixture(scope="module")
def embeds(run, tmp_path_factory):
    """The bundle of the run, with embeddings."""
    out = tmp_path_factory.mktemp("bundles") / "embeds"
    export_run(run, out, embeddings=True)
    return out


@pytest.fixture(scope="module")
def texts(catalog):
    return pd.read_csv(catalog)["catalog_content"].tolist()[:60]


def largest_distance(first, second):
    """Return the largest distance of two rows, relative to their mean length."""
    return np.linalg.norm(first - second, axis=1).max() / np.linalg.norm(second, axis=1).mean()


def test_a_run_and_its_bundle_have_the_same_vectors_in_order(run, embeds, texts):
    vectors = pk.load(run).embed(texts)
    assert (vectors.shape, vectors.dtype) == ((60, WIDTH), np.float32)
    assert len(np.unique(vectors, axis=0)) == len(set(texts))
    bundle = pk.load(embeds, engine="ort-cpu")
    assert largest_distance(bundle.embed(texts), vectors) < 1e-5
    assert largest_distance(bundle.embed(texts[::-1])[::-1], vectors) < 1e-5
    assert largest_distance(pickle.loads(pickle.dumps(bundle)).embed(texts), vectors) < 1e-5


def test_similar_texts_have_nearer_vectors_than_others(run):
    tea, other, shoe = pk.load(run).embed(
        [
            "Item Name: Green Tea, 20 Count",
            "Item Name: Green Tea, 40 Count",
            "Item Name: Running Shoe, 1 Pair",
        ]
    )
    assert np.linalg.norm(tea - other) < np.linalg.norm(tea - shoe)


def test_a_row_alone_has_the_vector_of_the_batch_up_to_rounding(run, embeds, texts):
    for model in (pk.load(run), pk.load(embeds, engine="ort-cpu")):
        alone = np.vstack([model.embed([text]) for text in texts])
        assert largest_distance(alone, model.embed(texts)) < 1e-5


@pytest.mark.parametrize("rows", [list, np.array, pd.Series, lambda t: pd.DataFrame({"catalog_content": t})])
def test_it_takes_what_predict_takes(embeds, texts, rows):
    model = pk.load(embeds, engine="ort-cpu")
    assert np.array_equal(model.embed(rows(texts)), model.embed(texts))


def test_no_rows_have_no_vectors(run, embeds, raises):
    for path in (run, embeds):
        assert pk.load(path).embed(pd.DataFrame({"catalog_content": []})).shape == (0, WIDTH)
    with raises(DataError, "text"):
        pk.load(embeds).embed(pd.DataFrame({"title": ["tea"]}))


def test_equal_rows_are_computed_once():
    seen = []

    def embed(batch):
        seen.extend(batch["input_ids"][:, 0].tolist())
        return batch["input_ids"][:, :1].astype(np.float32)

    tokens = Tokens(np.array([5, 7, 5, 5, 6], np.int32), np.array([0, 1, 2, 3, 5]))
    inputs = Inputs(tokens, np.zeros((4, 3), np.float32), 0)
    assert Embedding(1, lambda: embed).vectors(inputs).tolist() == [[5], [7], [5], [5]]
    assert sorted(seen) == [5, 5, 7]


def test_prices_with_embeddings_are_those_without_to_the_bit(bundle, embeds, texts):
    prices = [pk.load(path, engine="ort-cpu").predict(texts) for path in (bundle, embeds)]
    assert np.array_equal(*prices)


def test_a_bundle_without_embeddings_says_how_to_export_it(bundle, raises):
    with raises(BundleError, "with_embeddings"):
        pk.load(bundle).embed(["tea"])


def test_the_manifest_has_the_width_and_the_difference(embeds):
    manifest = json.loads((embeds / "manifest.json").read_text())
    assert manifest["embedding_width"] == WIDTH
    assert 0 < manifest["verified"]["embedding_difference"] < 1e-5


@pytest.mark.parametrize(("precision", "most"), [("fp16", 2e-3), ("int8", 0.05)])
def test_other_precisions_have_nearly_the_same_vectors(run, texts, tmp_path, precision, most):
    report = pk.load(run).export(tmp_path / "b", precision=precision, with_embeddings=True)
    vectors = pk.load(tmp_path / "b", engine="ort-cpu").embed(texts)
    assert largest_distance(vectors, pk.load(run).embed(texts)) <= most
    assert 0 < report.embedding_difference <= most


def test_the_vectors_of_members_stand_side_by_side(run, catalog, texts, tmp_path):
    train(
        Source(catalog),
        tiny_config({"backbone": {"width": 6}, "loss": {"name": "log-l2"}}),
        tmp_path / "other",
    )
    make_ensemble([run, tmp_path / "other"], tmp_path / "both")
    expected = np.hstack([pk.load(path).embed(texts) for path in (run, tmp_path / "other")])
    assert np.array_equal(pk.load(tmp_path / "both").embed(texts), expected)
    export_run(tmp_path / "both", tmp_path / "bundle", embeddings=True)
    assert largest_distance(pk.load(tmp_path / "bundle").embed(texts), expected) < 1e-5


def test_a_model_that_reads_no_text_has_no_vectors(catalog, tmp_path, raises):
    train(
        Source(catalog),
        tiny_config({"backbone": {"name": "mlp"}, "training": {"epochs": 1}}),
        tmp_path / "run",
    )
    model = pk.load(tmp_path / "run")
    with raises(ConfigError, "backbone"):
        model.embed(["tea"])
    with raises(ExportError, "with_embeddings"):
        model.export(tmp_path / "bundle", with_embeddings=True)
    assert not (tmp_path / "bundle").exists()


def test_a_width_that_the_graph_does_not_have_is_refused(embeds, tmp_path, raises):
    copy = shutil.copytree(embeds, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    write_manifest(copy, {**manifest, "embedding_width": 7})
    with raises(BundleError, "precision"):
        pk.load(copy, engine="ort-cpu").embed(["tea"])


@pytest.mark.parametrize("name", ["vector", "price"])
def test_a_graph_may_have_no_other_second_output(embeds, tmp_path, name, raises):
    copy = shutil.copytree(embeds, tmp_path / "copy")
    model = onnx.load(copy / "model.onnx")
    model.graph.output.pop()
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    put(copy, "model.onnx", model.SerializeToString())
    with raises(BundleError):
        open_bundle(copy)
