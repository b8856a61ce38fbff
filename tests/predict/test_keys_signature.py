import json
import shutil

import pytest

import pricekit as pk
from pricekit.errors import BundleError
from pricekit.export.export import export_run
from pricekit.io.storage import Address
from pricekit.predict.bundle import MANIFEST, fetch_model, open_bundle, sign_bundle
from pricekit.predict.keys import SIGNATURE, read_signing_key, read_trust

pytest.importorskip("cryptography")
from tests.predict.hostile import write_manifest
from tests.predict.signed import key_pair

TEXTS = ["Item Name: Green Tea, 20 Count (Pack of 6)"]
REMOTE = Address("memory://models/bundle")


@pytest.fixture
def pairs(tmp_path):
    return [key_pair(tmp_path / "keys", number) for number in (1, 2)]


@pytest.fixture
def trust(pairs):
    return read_trust(pairs[0][1])


@pytest.fixture
def signed(bundle, tmp_path, pairs):
    copy = shutil.copytree(bundle, tmp_path / "copy")
    sign_bundle(copy, read_signing_key(pairs[0][0], "sign"))
    return copy


def _edit(copy, **changes):
    found = json.loads((copy / SIGNATURE).read_text())
    (copy / SIGNATURE).write_text(json.dumps({**found, **changes}))


def test_a_signed_bundle_opens_with_its_key_and_without_keys(signed, pairs):
    public = [public for _, public in pairs]
    expected = pk.load(signed, "ort-cpu").predict(TEXTS)
    for trusted in (public[0], str(public[0]), public):
        assert pk.load(signed, "ort-cpu", trust=trusted).predict(TEXTS) == expected


def test_every_flipped_byte_of_the_manifest_is_refused(signed, trust, raises):
    manifest = (signed / MANIFEST).read_bytes()
    for place in range(len(manifest)):
        flipped = bytearray(manifest)
        flipped[place] ^= 1 << place % 8
        (signed / MANIFEST).write_bytes(flipped)
        with raises(BundleError, "trust"):
            open_bundle(signed, trust)


def _strip(copy, other):
    (copy / SIGNATURE).unlink()


def _link(copy, other):
    (copy / SIGNATURE).rename(copy.parent / "elsewhere")
    (copy / SIGNATURE).symlink_to(copy.parent / "elsewhere")


def _another(copy, other):
    sign_bundle(copy, other)


def _of_another_bundle(copy, other):
    """Move the signature to a bundle with another manifest, which nobody has signed."""
    manifest = json.loads((copy / MANIFEST).read_text())
    write_manifest(copy, {**manifest, "created": "2030"})


def _claim(copy, other):
    """Sign with another key, and claim the id of the trusted one."""
    mine = json.loads((copy / SIGNATURE).read_text())["key_id"]
    sign_bundle(copy, other)
    _edit(copy, key_id=mine)


HARMS = {
    "stripped": _strip,
    "a link": _link,
    "signed with another key": _another,
    "of another bundle": _of_another_bundle,
    "claims another key": _claim,
    "empty": lambda copy, _: (copy / SIGNATURE).write_text(""),
    "long": lambda copy, _: (copy / SIGNATURE).write_text(" " * 20_000),
    "no json": lambda copy, _: (copy / SIGNATURE).write_text("[" * 9_000),
    "of a later version": lambda copy, _: _edit(copy, schema_version=2),
    "of another algorithm": lambda copy, _: _edit(copy, algorithm="none"),
    "no base64": lambda copy, _: _edit(copy, signature="é"),
    "short": lambda copy, _: _edit(copy, signature="AAAA"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_bundle_without_a_trusted_signature_is_refused_before_it_is_parsed(
    signed, trust, pairs, harm, monkeypatch, raises
):
    spoil = HARMS[harm]
    spoil(signed, read_signing_key(pairs[1][0], "sign"))
    for name in ("json.loads", "Manifest.model_validate_json", "_read_file"):
        monkeypatch.setattr(f"pricekit.predict.bundle.{name}", lambda *_: pytest.fail("it is read"))
    with raises(BundleError, "trust"):
        open_bundle(signed, trust)


@pytest.mark.parametrize("harm", ["stripped", "of another bundle"])
def test_functions_that_open_models_refuse_it(signed, pairs, harm, run, raises):
    HARMS[harm](signed, None)
    key = {"trust": pairs[0][1]}
    for refused in (
        lambda model: pk.load(model, "ort-cpu", **key),
        lambda model: pk.Model(model, **key),
        lambda model: pk.bundles.inspect(model, **key),
        lambda model: pk.bundles.read(model, **key),
    ):
        with raises(BundleError, "trust"):
            refused(signed)
        with raises(BundleError, "trust"):
            refused(run)


def test_a_bundle_that_is_stripped_before_its_first_use_is_refused(signed, pairs, raises):
    model = pk.load(signed, "ort-cpu", trust=pairs[0][1])
    HARMS["stripped"](signed, None)
    with raises(BundleError, "trust"):
        model.predict(["tea"])


def test_an_altered_file_of_a_signed_bundle_is_refused(signed, trust, raises):
    content = bytearray((signed / "model.onnx").read_bytes())
    content[100] ^= 1
    (signed / "model.onnx").write_bytes(content)
    with raises(BundleError):
        open_bundle(signed, trust)


def test_only_an_intact_bundle_is_signed(signed, pairs, raises):
    before = (signed / SIGNATURE).read_bytes()
    (signed / "README.md").write_text("better")
    with raises(BundleError):
        pk.bundles.sign(signed, pairs[1][0])
    assert (signed / SIGNATURE).read_bytes() == before


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE])
def test_a_manifest_cannot_list_itself_or_its_signature(signed, name, raises):
    manifest = json.loads((signed / MANIFEST).read_text())
    manifest["files"][name] = {"sha256": "0" * 64, "bytes": 1}
    write_manifest(signed, manifest)
    with raises(BundleError):
        open_bundle(signed)


def test_an_export_signs_and_replaces_a_signed_bundle(run, tmp_path, pairs, trust):
    out = tmp_path / "bundle"
    export_run(run, out, key=read_signing_key(pairs[0][0], "sign"))
    assert SIGNATURE not in open_bundle(out, trust).files
    export_run(run, out, overwrite=True)
    assert not (out / SIGNATURE).exists()


def upload(memory, folder):
    for file in folder.iterdir():
        memory.pipe(f"/models/bundle/{file.name}", file.read_bytes())


def test_a_remote_bundle_needs_the_signature_before_other_files_are_fetched(
    memory, bundle, signed, pairs, trust, failing, raises
):
    upload(memory, bundle)
    calls = failing("cat_file", ())
    with raises(BundleError, "trust"):
        fetch_model(REMOTE, trust)
    assert calls.calls == 1  # the manifest
    unsigned = fetch_model(REMOTE)
    upload(memory, signed)  # the same files, now signed
    place = fetch_model(REMOTE, trust)
    assert place != unsigned
    assert pk.load(str(REMOTE), "ort-cpu", trust=pairs[0][1]).digest == open_bundle(place, trust).digest
    with raises(BundleError, "trust"):
        pk.load(str(REMOTE), trust=pairs[1][1])


def test_a_remote_run_is_no_signed_bundle(memory, run, trust, raises):
    for file in run.iterdir():
        if file.is_file():
            memory.pipe(f"/models/run/{file.name}", file.read_bytes())
    with raises(BundleError, "trust"):
        fetch_model(Address("memory://models/run"), trust)


def test_the_commands_sign_and_trust(pricekit, signed, pairs, catalog, tmp_path):
    (private, public), (other, _) = pairs
    prices = tmp_path / "prices.csv"
    code, out, _ = pricekit("bundle", "inspect", signed, "--trust", public)
    assert (code, "of a trusted key" in out) == (0, True)
    assert "not checked; --trust KEY checks it" in pricekit("bundle", "inspect", signed)[1]
    code, out, err = pricekit("bundle", "sign", signed, "--key", other)
    assert (code, "is signed with the key" in out + err) == (0, True)
    code, _, err = pricekit("predict", signed, catalog, "--out", prices, "--trust", public)
    assert (code, prices.exists()) == (1, False)
    assert "which is not trusted" in err
    assert "Check --trust." in err
    pricekit("bundle", "sign", signed, "--key", private)
    assert pricekit("predict", signed, catalog, "--out", prices, "--trust", public)[0] == 0
    private.chmod(0o644)
    code, _, err = pricekit("bundle", "sign", signed, "--key", private)
    assert (code, "chmod 600" in err) == (2, True)
