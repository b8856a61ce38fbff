"""Pushing and pulling, with a stand-in for the hub."""

import hashlib
import json
import shutil

import pytest

import pricekit as pk
from pricekit.errors import BundleError, ConfigError
from pricekit.predict.bundle import MANIFEST, sign_bundle
from pricekit.predict.keys import SIGNATURE, read_signing_key
from tests.predict.hostile import sealed
from tests.predict.hub_server import TOKEN, running


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
        yield hub


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def put(hub, files, *names):
    return hub.commit("shop/tea", files, *names)


def test_a_bundle_is_the_same_after_push_and_pull(hub, bundle, tmp_path):
    address = pk.bundles.push(bundle, "shop/tea")
    commit = pk.bundles.pull("shop/tea", tmp_path / "tea")
    assert address == f"{hub.url}/shop/tea/commit/{commit}"
    assert contents(tmp_path / "tea") == contents(bundle)
    assert list(tmp_path.iterdir()) == [tmp_path / "tea"]
    assert hub.private == {"shop/tea": True}


def test_a_new_repository_is_public_only_if_asked(hub, bundle):
    pk.bundles.push(bundle, "shop/open", public=True)
    assert hub.private == {"shop/open": False}


def test_a_push_sends_only_files_of_the_bundle_and_removes_an_old_signature(hub, bundle, tmp_path):
    pytest.importorskip("cryptography")
    from tests.predict.signed import key_pair

    copy = shutil.copytree(bundle, tmp_path / "copy")
    (copy / "notes.txt").write_text("secret")
    sign_bundle(copy, read_signing_key(key_pair(tmp_path / "keys")[0], "sign"))
    pk.bundles.push(copy, "shop/tea")
    names = {*contents(bundle), SIGNATURE}
    assert set(hub.repositories["shop/tea"]["main"]) == names
    pk.bundles.push(bundle, "shop/tea")
    assert set(hub.repositories["shop/tea"]["main"]) == names - {SIGNATURE}


def test_a_push_deletes_the_files_of_the_bundle_before_it_and_no_others(hub, bundle):
    products = {"comparables.parquet": b"x", f"asset-{64 * '0'}.bin": b"x"}
    earlier = contents(bundle)
    for name, content in products.items():
        earlier = _list(earlier, name, content)
    put(hub, {**earlier, SIGNATURE: b"{}", ".gitattributes": b"x", "notes.md": b"mine"})
    pk.bundles.push(bundle, "shop/tea")
    assert set(hub.repositories["shop/tea"]["main"]) == {*contents(bundle), ".gitattributes", "notes.md"}


@pytest.mark.parametrize("manifest", [b"{", b"\xff", b" " * (2 << 20)])
def test_a_push_over_a_damaged_manifest_deletes_the_files_that_bundles_have(hub, bundle, manifest):
    put(hub, {MANIFEST: manifest, "comparables.parquet": b"x", SIGNATURE: b"{}", "notes.md": b"mine"})
    pk.bundles.push(bundle, "shop/tea")
    assert set(hub.repositories["shop/tea"]["main"]) == {*contents(bundle), "notes.md"}


def test_a_push_to_a_repository_without_a_bundle_deletes_nothing(hub, bundle):
    put(hub, {"comparables.parquet": b"x"})
    pk.bundles.push(bundle, "shop/tea")
    assert set(hub.repositories["shop/tea"]["main"]) == {*contents(bundle), "comparables.parquet"}


def test_a_pull_fetches_only_files_of_the_bundle(hub, bundle, tmp_path):
    put(hub, {**contents(bundle), "model.pkl": b"x", "code.py": b"x", "sub/x.bin": b"x"})
    pk.bundles.pull("shop/tea", tmp_path / "tea")
    assert contents(tmp_path / "tea") == contents(bundle)
    assert set(hub.asked) == set(contents(bundle))


def test_a_revision_is_pulled(hub, bundle, tmp_path, raises):
    first = put(hub, contents(bundle), "v1")
    put(hub, {"README.md": b"moved"})
    for number, revision in enumerate(("v1", first)):
        assert pk.bundles.pull(f"shop/tea@{revision}", tmp_path / str(number)) == first
    with raises(BundleError):
        pk.bundles.pull("shop/tea", tmp_path / "tea")
    with raises(BundleError, "repository"):
        pk.bundles.pull("shop/tea@v3", tmp_path / "tea")


def _list(files, name, content=b"x"):
    """Add a file to the manifest."""
    manifest = json.loads(files[MANIFEST])
    manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    return {**files, MANIFEST: sealed(manifest), name: content}


HARMS = {
    "hash": lambda files: {**files, "README.md": files["README.md"][::-1]},
    "size": lambda files: {**files, "README.md": b"short"},
    "missing": lambda files: {n: c for n, c in files.items() if n != "model.onnx"},
    "manifest": lambda files: {**files, MANIFEST: b"{}"},
    "long manifest": lambda files: {**files, MANIFEST: b" " * (2 << 20)},
    "folder": lambda files: _list(files, "sub/x.bin"),
    "parent": lambda files: _list(files, "../x.bin"),
    "limits": lambda files: _list(files, "tokenizer.json", b"{}"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_bundle_is_not_pulled(hub, bundle, tmp_path, harm, raises):
    spoil = HARMS[harm]
    put(hub, spoil(contents(bundle)))
    with raises(BundleError):
        pk.bundles.pull("shop/tea", tmp_path / "tea")
    assert list(tmp_path.iterdir()) == []


def test_a_cut_connection_leaves_nothing(hub, bundle, tmp_path, raises):
    put(hub, contents(bundle))
    hub.cut = "model.onnx"
    with raises(BundleError, "repository") as caught:
        pk.bundles.pull("shop/tea", tmp_path / "tea")
    assert str(tmp_path) not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("act", ["push", "pull"])
def test_a_wrong_token_is_named(hub, bundle, tmp_path, monkeypatch, act, raises):
    put(hub, contents(bundle))
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with raises(BundleError, "repository"):
        pk.bundles.push(bundle, "shop/tea") if act == "push" else pk.bundles.pull(
            "shop/tea", tmp_path / "tea"
        )


def test_a_missing_or_private_repository_is_named(hub, bundle, tmp_path, monkeypatch, raises):
    with raises(BundleError, "repository"):
        pk.bundles.pull("shop/wine", tmp_path / "tea")


def test_a_hub_that_is_away_is_named(bundle, tmp_path, monkeypatch, raises):
    with running() as gone:
        monkeypatch.setenv("HF_ENDPOINT", gone.url)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with raises(BundleError, "repository"):
        pk.bundles.pull("shop/tea", tmp_path / "tea")


def test_nothing_is_replaced(hub, bundle, tmp_path, raises):
    put(hub, contents(bundle))
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "mine").write_text("kept")
    with raises(BundleError, "out"):
        pk.bundles.pull("shop/tea", tmp_path / "tea")
    assert contents(tmp_path / "tea") == {"mine": b"kept"}
    assert hub.asked == []


def test_an_untrusted_bundle_is_refused_before_its_files_are_fetched(hub, bundle, tmp_path, raises):
    pytest.importorskip("cryptography")
    from tests.predict.signed import key_pair

    private, public = key_pair(tmp_path / "keys")
    put(hub, contents(bundle))
    with raises(BundleError, "trust"):
        pk.bundles.pull("shop/tea", tmp_path / "tea", trust=public)
    assert hub.asked == [MANIFEST]
    copy = shutil.copytree(bundle, tmp_path / "copy")
    sign_bundle(copy, read_signing_key(private, "sign"))
    put(hub, contents(copy))
    pk.bundles.pull("shop/tea", tmp_path / "tea", trust=public)
    assert contents(tmp_path / "tea") == contents(copy)


@pytest.mark.parametrize(
    "name", ["", "tea", "a/b/c", "../tea", "shop/..", "https://hub/shop/tea", "shop/tea@", 7, "é/b"]
)
def test_other_names_are_refused(bundle, tmp_path, name, raises):
    with raises(ConfigError, "repository"):
        pk.bundles.pull(name, tmp_path / "tea")
    with raises(ConfigError, "repository"):
        pk.bundles.push(bundle, name)


def test_a_damaged_bundle_is_not_pushed(hub, bundle, tmp_path, raises):
    copy = shutil.copytree(bundle, tmp_path / "copy")
    (copy / "README.md").write_text("better")
    with raises(BundleError):
        pk.bundles.push(copy, "shop/tea")
    assert hub.repositories == {}


def test_the_commands_push_and_pull(hub, bundle, tmp_path, pricekit):
    code, out, err = pricekit("bundle", "push", bundle, "shop/tea")
    assert code == 0, err
    assert f"{hub.url}/shop/tea/commit/" in out + err
    code, out, err = pricekit("bundle", "pull", "shop/tea", "--out", tmp_path / "tea")
    assert code == 0, err
    code, _, err = pricekit("bundle", "pull", "shop/tea", "--out", tmp_path / "tea")
    assert (code, "Check --out." in err) == (1, True)
