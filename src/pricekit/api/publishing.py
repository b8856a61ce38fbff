"""Functions that prepare bundles for others."""

from __future__ import annotations

from pricekit.errors import path_of
from pricekit.options import clear_errors
from pricekit.results import PathLike


@clear_errors
def sign(bundle: PathLike, key: PathLike) -> str:
    """Sign a bundle, so that others can check who wrote it; `export` can sign, too.

    The signature, Ed25519 over the bytes of the manifest, is the file `signature.json`. An earlier one is replaced.

    Args:
        bundle: its folder. All its files are checked first.
        key: a PEM file with a private key, as `openssl genpkey -algorithm ed25519` writes it. Only its owner may be
            able to access it.

    Returns:
        The id of the key: SHA-256 of its public key (SubjectPublicKeyInfo in DER), in hexadecimal.

    Raises:
        BundleError: the bundle is damaged.
        ConfigError: the key cannot be used, or the package cryptography is not installed.

    Example:
        >>> import pricekit as pk, subprocess, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = pk.train(pk.make_catalog(200), epochs=1).export(f"{folder}/bundle")
        >>> for command in ("genpkey -algorithm ed25519 -out key.pem", "pkey -in key.pem -pubout -out key.pub"):
        ...     _ = subprocess.run(["openssl", *command.split()], cwd=folder, check=True)
        >>> id = pk.sign(f"{folder}/bundle", f"{folder}/key.pem")
        >>> model = pk.load(f"{folder}/bundle", trust=f"{folder}/key.pub")
    """
    from pricekit.bundle import sign_bundle
    from pricekit.bundle.keys import read_signing_key

    folder, signing = path_of(bundle, "bundle"), read_signing_key(key, "key")
    sign_bundle(folder, signing)
    return signing.id
