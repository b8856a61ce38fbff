"""Bundles, the folders that `Model.export` writes: check, sign, give to others, read, and make of other weights.

Example:
    >>> import pricekit as pk
    >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
    >>> pk.bundles.inspect("bundle").manifest["precision"]
    'fp32'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pricekit.errors import BundleError, ConfigError, MachineError, path_of
from pricekit.io.files import is_free
from pricekit.io.locks import owned
from pricekit.options import (
    InspectOptions,
    PathLike,
    PushOptions,
    TransformersOptions,
    TrustOptions,
    clear_errors,
    model_path,
    path_or_frame,
    with_options,
)

if TYPE_CHECKING:
    from pricekit.export.verify import VerificationReport
    from pricekit.predict.members import BundleReader
    from pricekit.predict.sandbox import Inspection

__all__ = ["from_transformers", "inspect", "pull", "push", "read", "sign"]


@with_options(InspectOptions)
def inspect(bundle: PathLike, **options: Unpack[InspectOptions]) -> Inspection:
    """Check a bundle, which may be a stranger's, and return its manifest and files.

    The function checks every file against its hash and the limits of docs/bundle-format.md. Then another process, with
    10 seconds of time and 2 GiB of memory, opens the bundle and prices a few generated rows. Only Linux can limit a
    process in this way; elsewhere, only the self-test opens the bundle, if it is on, and `note` says why.

    Args:
        bundle: its folder.
        **options: see below.

    Raises:
        BundleError: the bundle is damaged, was changed, is newer than this version of pricekit, or cannot be used
            within the limits; or no trusted key has signed it; or the self-test fails, or there is none.
        ConfigError: an engine is given without the self-test.
        PluginError: a plugin that it needs, or the engine of the self-test, is missing or fails.
        MachineError: this machine has no sandbox, or too little memory for it.

    Example:
        >>> import pricekit as pk, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = pk.train(pk.make_catalog(200), epochs=1).export(folder)
        >>> pk.bundles.inspect(folder).manifest["precision"]
        'fp32'
    """
    from pricekit.predict.bundle import open_bundle
    from pricekit.predict.keys import read_trust
    from pricekit.predict.sandbox import Inspection, inspect_bundle, with_self_test

    engine, self_test = options["engine"], options["self_test"]
    if engine is not None and not self_test:
        raise ConfigError(
            f"the engine {engine} is for the self-test, which is off; turn it on, or leave the engine out",
            parameters=("self_test", "engine"),
        )
    keys = read_trust(options["trust"])
    opened = open_bundle(model_path(bundle, "bundle", keys), keys)
    try:
        inspection = inspect_bundle(opened)
    except MachineError as error:
        if not self_test:
            raise
        inspection = Inspection(opened, note=str(error))
    return with_self_test(inspection, engine) if self_test else inspection


@clear_errors()
def sign(bundle: PathLike, key: PathLike) -> str:
    """Sign a bundle, so that others can check who wrote it; `Model.export` can sign, too.

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
        >>> key_id = pk.bundles.sign(f"{folder}/bundle", f"{folder}/key.pem")
        >>> model = pk.load(f"{folder}/bundle", trust=f"{folder}/key.pub")
    """
    from pricekit.predict.bundle import sign_bundle
    from pricekit.predict.keys import read_signing_key

    folder, signing = path_of(bundle, "bundle"), read_signing_key(key, "key")
    sign_bundle(folder, signing)
    return signing.id


@with_options(PushOptions)
def push(bundle: PathLike, repository: str, **options: Unpack[PushOptions]) -> str:
    """Push a bundle to a repository of the Hugging Face hub, as one commit; its model card is the README.md there.

    The commit deletes the other files of the bundle that was there before; earlier commits keep them.
    huggingface_hub finds the token where its other tools keep it: `hf auth login`, or HF_TOKEN.

    Args:
        bundle: its folder. All its files are checked first.
        repository: owner/name. A new one is made if there is none.
        **options: see below.

    Returns:
        The address of the commit.

    Raises:
        BundleError: the bundle is damaged, or the hub refuses it.
        ConfigError: the repository has another form than owner/name.

    Example:
        >>> import pricekit as pk
        >>> pk.bundles.push("bundle", "shop/tea")    # doctest: +SKIP
        'https://huggingface.co/shop/tea/commit/6c5e1c0d'
    """
    from pricekit.predict.hub import push_bundle, repository_of

    name, _ = repository_of(repository, revisions=False)
    return push_bundle(path_of(bundle, "bundle"), name, public=options["public"])


@with_options(TrustOptions)
def pull(repository: str, out: PathLike, **options: Unpack[TrustOptions]) -> str:
    """Fetch a bundle from a repository of the Hugging Face hub into a new folder, and check it.

    Only the files that its manifest lists are fetched. The folder appears when all of them are complete and have their
    hashes.

    Args:
        repository: owner/name, or owner/name@revision: a branch, a tag or a commit.
        out: the folder, which is missing or empty.
        **options: see below.

    Returns:
        The hash of the commit that it was fetched from.

    Raises:
        BundleError: there is no such repository or no bundle in it, it is damaged, or no trusted key has signed it; or
            `out` is not empty.
        ConfigError: the repository has another form, or a key cannot be used.

    Example:
        >>> import pricekit as pk
        >>> pk.bundles.pull("shop/tea@v2", "tea")    # doctest: +SKIP
        '6c5e1c0d4a2f9d1f6e9a0c1b2d3e4f5a6b7c8d9e'
    """
    from pricekit.predict.hub import pull_bundle, repository_of
    from pricekit.predict.keys import read_trust

    name, revision = repository_of(repository)
    folder, keys = path_of(out, "out"), read_trust(options["trust"])
    with owned(folder, "bundle", BundleError):
        if not is_free(folder):
            raise BundleError(
                f"{folder} is not empty, and a pulled bundle replaces nothing; choose a new folder",
                parameters=("out",),
            )
        return pull_bundle(name, revision, folder, keys)


@with_options(TrustOptions)
def read(path: PathLike, **options: Unpack[TrustOptions]) -> BundleReader:
    """Read a bundle and check it, without opening an engine, for a program that runs the graph itself.

    Args:
        path: its folder, or its address such as "s3://shop/bundle".
        **options: see below.

    Returns:
        A reader, whose `prepare` makes the inputs of the graph from rows.

    Raises:
        BundleError: the bundle is damaged, or no trusted key has signed it.
        PluginError: a feature plugin is missing.
        ConfigError: a key cannot be used.

    Example:
        >>> import pricekit as pk
        >>> report = pk.train(pk.make_catalog(200), epochs=1).export("bundle")
        >>> pk.bundles.read("bundle").columns.text
        ('catalog_content',)
    """
    from pricekit.predict.keys import read_trust
    from pricekit.predict.members import read_bundle

    keys = read_trust(options["trust"])
    return read_bundle(model_path(path, "path", keys), keys)


@with_options(TransformersOptions)
def from_transformers(
    folder: PathLike, out: PathLike, **options: Unpack[TransformersOptions]
) -> VerificationReport:
    """Export a regressor that was fine-tuned with transformers, without pricekit, into a bundle.

    It is an `AutoModelForSequenceClassification` with one label. The export compares its prices, from text to price,
    with those of transformers, and the graph with the model, as `Model.export` does. The bundle reads one text
    column; it has no price intervals, no scores and no sketch of the training table.

    Only JSON, the tokenizer and safetensors are read. Code and pickles in the folder, and links out of it, are refused.

    Args:
        folder: what `save_pretrained` or `Trainer` wrote: config.json, model.safetensors and a tokenizer, which is fast
            or can be converted.
        out: the folder of the bundle.
        **options: see below.

    Returns:
        The differences between graph and model.

    Raises:
        ConfigError: no `target` is given, or embeddings are wanted; the folder is no such model, is damaged, or needs
            code of its own; or fp16 or int8 is wanted without `sample`.
        ExportError: `out` is not empty, the model cannot be exported, or prices differ from those of transformers.
        DataError: `sample` or the table of comparables cannot be used.

    Example:
        >>> import pricekit as pk
        >>> from transformers import AutoModelForSequenceClassification, AutoTokenizer
        >>> pk.make_catalog(100).to_csv("products.csv", index=False)
        >>> tiny = {"backbone.width": 16, "backbone.layers": 1, "backbone.heads": 2}
        >>> weights = pk.pretrain("products.csv", "weights", backbone="transformer", epochs=1, settings=tiny)
        >>> model = AutoModelForSequenceClassification.from_pretrained(weights, num_labels=1)    # train it
        >>> model.save_pretrained("regressor")
        >>> files = AutoTokenizer.from_pretrained(weights).save_pretrained("regressor")
        >>> report = pk.bundles.from_transformers("regressor", "bundle", target="log1p", max_length=64)
        >>> pk.load("bundle").predict(["Item Name: Green Tea, 20 Count (Pack of 6)"]).shape
        (1,)
    """
    from pricekit.io.imports import slow_import

    target, bundle = options["target"], path_of(out, "out")
    if target is None:
        raise ConfigError(
            "the weights do not say what the model predicts; expected the target log, log1p or price",
            parameters=("target",),
        )
    if options["with_embeddings"]:
        raise ConfigError(
            "only a model that pricekit has trained has embeddings; export this one without them",
            parameters=("with_embeddings",),
        )
    slow_import("pricekit.export.from_transformers")
    from pricekit.export.from_transformers import Link, export_transformers
    from pricekit.export.triton import Interface, adding_to_repository
    from pricekit.predict.keys import read_signing_key
    from pricekit.table import Columns

    columns = Columns((options["text"],), options["price"])
    key = None if options["sign"] is None else read_signing_key(options["sign"], "sign")
    with adding_to_repository(options["triton"], bundle, lambda: Interface(columns.text, None)):
        return export_transformers(
            path_of(folder, "folder"),
            bundle,
            Link(target, options["mean"], options["std"]),
            columns,
            sample=path_or_frame(options["sample"]),
            max_length=options["max_length"],
            precision=options["precision"],
            overwrite=options["overwrite"],
            comparables=path_or_frame(options["with_comparables"]),
            key=key,
        )
