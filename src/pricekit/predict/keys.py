"""Signatures of bundles: keys, and what a signature says."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from pricekit.errors import BundleError, ConfigError, first_invalid_field, path_of
from pricekit.io.files import describe_failure, mode_for_others

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


SIGNATURE = "signature.json"
MAX_SIGNATURE_BYTES = 10_000
_SHOWN = 16
"""Characters of a key id in messages."""

_MOST_BYTES = 10_000
_MAKE = "openssl genpkey -algorithm ed25519 -out key.pem"
_MAKE_PUBLIC = "openssl pkey -in key.pem -pubout -out key.pub"


@dataclass(frozen=True)
class SigningKey:
    """A private key.

    Attributes:
        id: that of its public key, see `key_id`.
    """

    id: str
    _private: Ed25519PrivateKey = field(repr=False)

    def sign(self, content: bytes) -> bytes:
        """Return the signature of a content, 64 bytes (RFC 8032)."""
        signature: bytes = self._private.sign(content)
        return signature


@dataclass(frozen=True)
class Trust:
    """The public keys whose signatures are trusted.

    Attributes:
        keys: by their ids.
    """

    keys: Mapping[str, Ed25519PublicKey] = field(repr=False)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the fingerprint of a public key: SHA-256 of its SubjectPublicKeyInfo in DER, in hexadecimal.

    `openssl pkey -pubin -in key.pub -outform DER | sha256sum` prints the same.
    """
    serialization = _cryptography("serialization")
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def read_signing_key(path: Any, parameter: str) -> SigningKey:
    """Read a private key from a PEM file that only its owner can access.

    Args:
        path: of the file.
        parameter: that of errors.

    Raises:
        ConfigError: the file is missing, others can access it, or it holds no Ed25519 key without a passphrase; or the
            package cryptography is not installed.
    """
    from_pem = _cryptography("serialization").load_pem_private_key
    kind = _cryptography("asymmetric.ed25519").Ed25519PrivateKey
    file = path_of(path, parameter)
    content, mode = _content(file, parameter)
    if b"BEGIN PUBLIC KEY" in content:
        raise _wrong(file, parameter, "holds a public key", "the private one, which signs")
    if mode:
        raise ConfigError(
            f"others can access the private key {file} (mode {mode}), so they may know it; allow only its owner: "
            f"chmod 600 {file}",
            parameters=(parameter,),
        )
    if b"ENCRYPTED" in content:
        raise _wrong(
            file,
            parameter,
            "is encrypted with a passphrase",
            f"a key without one, in a file of mode 600: {_MAKE}",
        )
    parse = partial(from_pem, content, password=None)
    key = _parsed(parse, kind, file, parameter, f"a private key: {_MAKE}")
    return SigningKey(key_id(key.public_key()), key)


def read_trust(trust: Any) -> Trust | None:
    """Read the public keys whose signatures are trusted, each from a PEM file.

    Args:
        trust: the path of a file, or several; None: no signature is needed.

    Raises:
        ConfigError: there is no file, or it holds no public Ed25519 key; or the package cryptography is not installed.
    """
    if trust is None:
        return None
    paths = list(trust) if isinstance(trust, Sequence) and not isinstance(trust, str) else [trust]
    if not paths:
        raise ConfigError(
            "trust names no key, so no bundle could be opened; name one, or leave trust out",
            parameters=("trust",),
        )
    from_pem = _cryptography("serialization").load_pem_public_key
    kind = _cryptography("asymmetric.ed25519").Ed25519PublicKey
    keys = {}
    for path in paths:
        file = path_of(path, "trust")
        content, _ = _content(file, "trust")
        if b"PRIVATE KEY" in content:
            raise _wrong(
                file,
                "trust",
                "holds a private key",
                f"its public one, so that the private one stays at home: {_MAKE_PUBLIC}",
            )
        key = _parsed(partial(from_pem, content), kind, file, "trust", f"a public key: {_MAKE_PUBLIC}")
        keys[key_id(key)] = key
    return Trust(keys)


def _content(file: Path, parameter: str) -> tuple[bytes, str]:
    """Return the contents of a key file, and its mode if others can access it."""
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES), mode_for_others(os.fstat(stream.fileno()))
    except OSError as error:
        raise ConfigError(
            f"the key file cannot be read: {describe_failure(error)}", parameters=(parameter,)
        ) from None


def _parsed(parse: Any, kind: type, file: Path, parameter: str, expected: str) -> Any:
    try:
        key = parse()
    except Exception:  # of several kinds, all about the content
        raise _wrong(file, parameter, "holds no key in PEM", expected) from None
    if not isinstance(key, kind):
        algorithm = type(key).__name__.strip("_").removesuffix("PublicKey").removesuffix("PrivateKey")
        raise _wrong(file, parameter, f"holds a key of the kind {algorithm}", f"one of Ed25519, {expected}")
    return key


def _wrong(file: Path, parameter: str, problem: str, expected: str) -> ConfigError:
    return ConfigError(f"the key file {file} {problem}; expected {expected}", parameters=(parameter,))


def _cryptography(module: str) -> Any:
    try:
        return import_module(f"cryptography.hazmat.primitives.{module}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"signatures need the package {error.name}, which is not installed: pip install 'pricekit[sign]'"
        ) from None


class Signature(BaseModel):
    """The contents of signature.json; a file may contain others."""

    schema_version: Literal[1] = Field(description="a reader refuses any other")
    algorithm: Literal["ed25519"] = Field(description="RFC 8032, over the bytes of manifest.json")
    key_id: str = Field(
        pattern="^[0-9a-f]{64}$", description="SHA-256 of the public key's SubjectPublicKeyInfo in DER"
    )
    signature: str = Field(max_length=100, description="its 64 bytes in base64")


def sign_manifest(manifest: bytes, key: SigningKey) -> bytes:
    """Return the contents of the signature's file for those of a manifest."""
    text = base64.b64encode(key.sign(manifest)).decode()
    content = Signature(schema_version=1, algorithm="ed25519", key_id=key.id, signature=text)
    return (json.dumps(content.model_dump(), indent=2) + "\n").encode()


def check_signature(path: Path, manifest: bytes, trust: Trust) -> None:
    """Raise BundleError unless a trusted key has signed the manifest of a bundle's folder.

    Args:
        path: the folder.
        manifest: the contents of its manifest, which nothing has parsed yet.
        trust: the keys.

    Raises:
        BundleError: the signature is missing, damaged, of another manifest or of another key.
    """
    from cryptography.exceptions import InvalidSignature

    file = path / SIGNATURE
    if file.is_symlink() or not file.is_file():
        raise _refused(
            f"the bundle {path} is unsigned: it has no file {SIGNATURE}. Do not use it, or ask its author for a signed "
            "one, or sign it yourself once you have checked where it comes from"
        )
    with file.open("rb") as stream:
        content = stream.read(MAX_SIGNATURE_BYTES + 1)
    try:
        if len(content) > MAX_SIGNATURE_BYTES:
            raise ValueError
        signature = Signature.model_validate_json(content, strict=True)
    except ValueError as error:
        raise _damaged(file, first_invalid_field(error)) from None
    if signature.key_id not in trust.keys:
        trusted = ", ".join(f"{key[:_SHOWN]}…" for key in sorted(trust.keys))
        raise _refused(
            f"the bundle {path} is signed with the key {signature.key_id[:_SHOWN]}…, which is not trusted; expected "
            f"{trusted}. Do not use the bundle, unless you know whose key it is; then trust that, too"
        )
    try:
        trust.keys[signature.key_id].verify(base64.b64decode(signature.signature, validate=True), manifest)
    except ValueError:
        raise _damaged(file, "") from None
    except InvalidSignature:
        raise _refused(
            f"the signature of the bundle {path} is not that of its manifest: one of both was altered, or is that of "
            "another bundle. Do not use it; copy the bundle again from where it was signed"
        ) from None


def not_signed(model: object) -> BundleError:
    """Return the error for a model that is no bundle, where only signed bundles are trusted."""
    return _refused(
        f"the model {model} is no bundle, and only bundles are signed: it has no manifest.json. Export it and sign the "
        "bundle, or open it without trusted keys"
    )


def _damaged(file: Path, field: str) -> BundleError:
    return _refused(
        f"{file} is damaged: it is not a signature that this version reads{field}; copy the bundle again"
    )


def _refused(message: str) -> BundleError:
    return BundleError(message, parameters=("trust",))
