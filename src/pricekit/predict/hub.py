"""Bundles in repositories of the Hugging Face hub: pushed as one commit, pulled and checked file by file.

Only files of the bundle are sent and fetched. huggingface_hub finds the token where its other tools keep it, and
HF_ENDPOINT names another hub.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pricekit.errors import BundleError, ConfigError
from pricekit.io.causes import raise_outside_cause
from pricekit.io.files import new_folder
from pricekit.io.record import is_own
from pricekit.predict.bundle import (
    MANIFEST,
    fetch_bundle,
    files_of_bundle,
    named_as,
    open_bundle,
)
from pricekit.predict.keys import Trust
from pricekit.wording import shorten

_REPOSITORY = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w./-]+))?", re.ASCII)
_TOKEN = "the token that `hf auth login` stores, or the environment variable HF_TOKEN"  # noqa: S105


def repository_of(name: str, *, revisions: bool = True) -> tuple[str, str | None]:
    """Return the id of a repository and the revision behind @; raises ConfigError."""
    parts = _REPOSITORY.fullmatch(name) if isinstance(name, str) else None
    if parts is None or ".." in name or (parts[2] and not revisions):
        expected = "owner/name or owner/name@revision" if revisions else "owner/name"
        raise ConfigError(f"the repository is {name!r}; expected {expected}", parameters=("repository",))
    return parts[1], parts[2]


def push_bundle(path: Path, repository: str, *, public: bool) -> str:
    """Push a bundle as one commit, which deletes other files of the bundle before it; return the commit's address.

    Args:
        path: its folder; every file is checked first.
        repository: owner/name; a new one is made if there is none.
        public: of a new repository; one that exists stays as it is.

    Raises:
        BundleError: the bundle is damaged, or the hub refuses it.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    files = files_of_bundle(open_bundle(path))
    api = _api()
    with _explained(repository, "cannot be written"):
        api.create_repo(repository, private=not public, exist_ok=True)
        operations: list[Any] = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=content) for name, content in files.items()
        ]
        earlier = _sizes(api.model_info(repository, files_metadata=True))
        if MANIFEST in earlier:
            old = [name for name in earlier.keys() - files.keys() if is_own(Path(name), ["bundle"])]
            operations += map(CommitOperationDelete, old)
        done = api.create_commit(repository, operations, commit_message=f"Bundle {path.absolute().name}")
    return str(done.commit_url)


def _sizes(info: Any) -> dict[str, int]:
    """Return the size of each file of a repository."""
    return {file.rfilename: file.size or 0 for file in info.siblings or []}


def pull_bundle(repository: str, revision: str | None, out: Path, trust: Trust | None) -> str:
    """Fetch a bundle into a new folder, complete and checked, or nothing; return the hash of its commit.

    Args:
        repository: owner/name.
        revision: a branch, a tag or a commit; None: the main branch.
        out: the folder, which is missing or empty.
        trust: the keys one of which must have signed it, before its other files are fetched; None: no signature is
            needed.

    Raises:
        BundleError: there is no bundle, it is damaged, or no trusted key has signed it.
    """
    from huggingface_hub import utils

    hub: Any = utils  # without types
    hub.disable_progress_bars()  # pricekit shows its own
    api = _api()
    with (
        new_folder(out) as new,
        _explained(repository, "cannot be read"),
        named_as(new, repository),
    ):
        info = api.model_info(repository, revision=revision, files_metadata=True)
        sizes, commit = _sizes(info), str(info.sha)
        if MANIFEST not in sizes:
            raise BundleError(
                f"the repository {repository} has no {MANIFEST}, so it is no bundle; check its name and revision"
            )
        fetch = partial(api.hf_hub_download, repository, revision=commit, local_dir=new)
        fetch_bundle(new, repository, sizes, fetch, trust)
        shutil.rmtree(new / ".cache", ignore_errors=True)
    return commit


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


@contextmanager
def _explained(repository: str, failed: str) -> Iterator[None]:
    """Turn the errors of huggingface_hub and of the network into a BundleError."""
    from huggingface_hub import errors

    try:
        yield
    except (BundleError, ConfigError):
        raise
    except Exception as error:
        raise_outside_cause(error)
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403) and not isinstance(error, errors.RepositoryNotFoundError):
            reason = f"the hub refuses access ({status}); check {_TOKEN}, and what it allows"
        elif isinstance(error, errors.RevisionNotFoundError):
            reason = "it has no such revision; check it"
        elif isinstance(error, errors.RepositoryNotFoundError):
            reason = f"there is no such repository, or it is private; check its name, and {_TOKEN}"
        else:
            reason = f"{type(error).__name__}: {shorten(str(error), 300)}; try again, or check the network"
        raise BundleError(
            f"the repository {repository} {failed}: {reason}", parameters=("repository",)
        ) from error
