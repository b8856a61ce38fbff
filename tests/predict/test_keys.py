import hashlib
import shutil
import subprocess
import sys

import pytest

from pricekit.errors import ConfigError
from pricekit.predict.keys import read_signing_key, read_trust

pytest.importorskip("cryptography")
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.predict.signed import key_pair, write_private, write_public

RFC_SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
RFC_SIGNATURE = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246551"
    "41438e7a100b"
)
"""The first test of RFC 8032, section 7.1: the empty message."""


def test_a_signature_is_that_of_the_standard(tmp_path):
    private = ed25519.Ed25519PrivateKey.from_private_bytes(RFC_SECRET)
    key = read_signing_key(write_private(tmp_path / "key.pem", private), "sign")
    assert key.sign(b"").hex() == RFC_SIGNATURE
    trust = read_trust(write_public(tmp_path / "key.pub", private))
    trust.keys[key.id].verify(key.sign(b"text"), b"text")
    with pytest.raises(InvalidSignature):
        trust.keys[key.id].verify(key.sign(b"text"), b"texts")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_keys_of_openssl_sign_and_its_fingerprint_is_the_id(tmp_path):
    def openssl(*words):
        return subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True).stdout

    openssl("genpkey", "-algorithm", "ed25519", "-out", "key.pem")
    openssl("pkey", "-in", "key.pem", "-pubout", "-out", "key.pub")
    key, trust = read_signing_key(tmp_path / "key.pem", "sign"), read_trust(tmp_path / "key.pub")
    assert list(trust.keys) == [key.id]
    assert (
        key.id == hashlib.sha256(openssl("pkey", "-pubin", "-in", "key.pub", "-outform", "DER")).hexdigest()
    )
    (tmp_path / "text").write_bytes(b"text")
    (tmp_path / "sig").write_bytes(key.sign(b"text"))
    verify = ["-verify", "-rawin", "-pubin", "-inkey", "key.pub", "-in", "text", "-sigfile", "sig"]
    openssl("pkeyutl", *verify)  # fails if the signature does not match


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_private_key_that_others_can_access_is_refused(tmp_path, mode, raises):
    private, _ = key_pair(tmp_path)
    private.chmod(mode)
    with raises(ConfigError, "sign"):
        read_signing_key(private, "sign")


def test_a_private_key_that_only_its_owner_can_access_is_read(tmp_path):
    private, _ = key_pair(tmp_path)
    private.chmod(0o400)
    assert read_signing_key(private, "sign").id


WRONG_PRIVATE = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
}


@pytest.mark.parametrize("kind", WRONG_PRIVATE)
def test_keys_of_another_kind_are_refused(tmp_path, kind, raises):
    make = WRONG_PRIVATE[kind]
    key = make()
    with raises(ConfigError, "sign"):
        read_signing_key(write_private(tmp_path / "key.pem", key), "sign")
    with raises(ConfigError, "trust"):
        read_trust(write_public(tmp_path / "key.pub", key))


def test_each_of_a_pair_is_used_where_it_belongs(tmp_path, raises):
    private, public = key_pair(tmp_path)
    with raises(ConfigError, "sign"):
        read_signing_key(public, "sign")
    with raises(ConfigError, "trust"):
        read_trust([private])


def test_an_encrypted_key_is_refused(tmp_path, raises):
    key = ed25519.Ed25519PrivateKey.from_private_bytes(RFC_SECRET)
    with raises(ConfigError, "sign"):
        read_signing_key(write_private(tmp_path / "key.pem", key, b"secret"), "sign")


@pytest.mark.parametrize(
    "content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
)
def test_a_file_without_a_key_is_refused(tmp_path, content, raises):
    file = tmp_path / "file"
    file.touch(mode=0o600)
    file.write_bytes(content)
    with raises(ConfigError, "trust"):
        read_trust(file)
    with raises(ConfigError, "sign"):
        read_signing_key(file, "sign")


def test_a_missing_key_is_an_error_with_its_parameter(tmp_path, raises):
    with raises(ConfigError, "here"):
        read_signing_key(tmp_path / "absent", "here")
    with raises(ConfigError, "trust"):
        read_trust(tmp_path / "absent")


def test_an_empty_list_of_keys_is_an_error_and_none_is_no_demand(raises):
    with raises(ConfigError, "trust"):
        read_trust([])
    assert read_trust(None) is None


def test_without_cryptography_the_error_names_the_extra(tmp_path, monkeypatch, raises):
    private, _ = key_pair(tmp_path)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with raises(ConfigError):
        read_signing_key(private, "sign")
