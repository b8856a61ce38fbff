"""Keys for tests, in files as openssl writes them."""

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def write_private(file: Path, key, password: bytes | None = None) -> Path:
    """Write a private key of any kind into a file that only its owner can access."""
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    file.touch(mode=0o600)
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    return file


def write_public(file: Path, key) -> Path:
    """Write the public key of a private key."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    file.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return file


def key_pair(folder: Path, number: int = 1) -> tuple[Path, Path]:
    """Write the private and the public key of a pair that depends only on its number."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([number] * 32))
    folder.mkdir(exist_ok=True)
    return write_private(folder / f"{number}.pem", key), write_public(folder / f"{number}.pub", key)
