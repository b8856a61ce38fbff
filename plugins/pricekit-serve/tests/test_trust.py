"""Only signed bundles are served if keys are trusted, also after a reload."""

import shutil

import pytest
from pricekit_serve import app
from starlette.testclient import TestClient

import pricekit as pk
from pricekit.plugin import BundleError

pytest.importorskip("cryptography")
from tests.predict.signed import key_pair


def test_only_a_signed_bundle_is_served_and_an_unsigned_new_one_is_refused(
    served, bundle, tmp_path, logged, raises
):
    private, public = key_pair(tmp_path / "keys")
    path = shutil.copytree(bundle, tmp_path / "bundle")
    with raises(BundleError, "trust"):
        app(path, engine="ort-cpu", trust=public)
    pk.bundles.sign(path, private)
    with TestClient(app(path, engine="ort-cpu", trust=public)) as client:
        models = client.app.state.models
        old = models.get(None).version
        shutil.rmtree(path)
        shutil.copytree(served, path)
        models.reload()
        assert models.get(None).version == old
        assert "is refused: the bundle" in logged()
        pk.bundles.sign(path, private)
        models.reload()
        assert models.get(None).version != old
