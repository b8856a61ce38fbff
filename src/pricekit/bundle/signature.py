"""The signature of a bundle: who wrote it.

`signature.json` holds an Ed25519 signature (RFC 8032) over the bytes of manifest.json, and so over the hashes of all
files. It is no file of the manifest, so a bundle can be signed after its export. Without trusted keys nothing reads it.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from pricekit.bundle.keys import SigningKey, Trust
from pricekit.errors import BundleError, first_invalid_field

SIGNATURE = "signature.json"
MAX_SIGNATURE_BYTES = 10_000
_SHOWN = 16
"""Characters of a key id in messages."""


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
    found = Signature(schema_version=1, algorithm="ed25519", key_id=key.id, signature=text)
    return (json.dumps(found.model_dump(), indent=2) + "\n").encode()


def check_signature(path: Path, manifest: bytes, trust: Trust) -> str:
    """Return the id of the trusted key that signed the manifest of a bundle's folder.

    Args:
        path: the folder.
        manifest: the contents of its manifest, which nothing has parsed yet.
        trust: the keys.

    Raises:
        BundleError: the signature is missing, damaged, of another manifest or of another key.
    """
    found = _read(path)
    if found.key_id not in trust.keys:
        trusted = ", ".join(f"{key[:_SHOWN]}…" for key in sorted(trust.keys))
        raise _refused(
            f"the bundle {path} is signed with the key {found.key_id[:_SHOWN]}…, which is not trusted; expected "
            f"{trusted}. Do not use the bundle, unless you know whose key it is; then trust that, too"
        )
    try:
        signature = base64.b64decode(found.signature, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(_damaged(path, "")) from None
    if not trust.verifies(found.key_id, signature, manifest):
        raise _refused(
            f"the signature of the bundle {path} is not that of its manifest: one of both was altered, or is that of "
            "another bundle. Do not use it; copy the bundle again from where it was signed"
        )
    return found.key_id


def not_signed(model: object) -> BundleError:
    """Return the error for a model that is no bundle, where only signed bundles are trusted."""
    return _refused(
        f"the model {model} is no bundle, and only bundles are signed: it has no manifest.json. Export it and sign the "
        "bundle, or open it without trusted keys"
    )


def _read(path: Path) -> Signature:
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
        return Signature.model_validate_json(content, strict=True)
    except (ValidationError, ValueError) as error:
        raise _refused(_damaged(path, first_invalid_field(error))) from None


def _damaged(path: Path, field: str) -> str:
    return f"{path / SIGNATURE} is damaged: it is not a signature that this version reads{field}; copy the bundle again"


def _refused(message: str) -> BundleError:
    return BundleError(message, parameters=("trust",))
