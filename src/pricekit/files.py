"""Writing files and folders so that they appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and renamed, on failure removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # what the user's umask says; some libraries write for the owner only
        yield temporary
        temporary.chmod(mode)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write one UTF-8 text file atomically."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def publish_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a temporary folder, sync it, and rename it to `path`.

    A folder that is there already is replaced only when the new one is complete.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
            sync(temporary / name)
        temporary.chmod(0o755)
        sync(temporary)
        _replace_folder(temporary, path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    if not path.exists():
        os.rename(new, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    os.rename(path, old / path.name)
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old / path.name, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open a folder
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
