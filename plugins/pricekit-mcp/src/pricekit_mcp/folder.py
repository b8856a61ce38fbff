"""The one folder of a server. A caller's paths name files in it, whatever links it contains and whoever changes it.

A tool never opens what a caller names. What it reads is copied to a private folder first, and what it writes is copied
from there. Both open one part of the real path after the other, each in the folder that is open already, and follow no
link. So a link that appears after the check is an error, and nothing outside is opened.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from pricekit.plugin import ConfigError, DataError, printable, shorten

MOST_FILES = 10_000
"""Files and folders of a model."""
MOST_DEPTH = 16
"""Folders in folders of a model."""

_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_RDONLY
_READ = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | os.O_RDONLY
_WRITE = getattr(os, "O_NOFOLLOW", 0) | os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PIECE = 1 << 20


class Folder:
    """A folder, whose files and folders are named by relative paths.

    Args:
        path: the folder; a link to it is followed once, now.

    Raises:
        ConfigError: it is no folder, or the system cannot open files relative to an open folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not {os.open, os.mkdir, os.stat, os.rename} <= os.supports_dir_fd:
            raise ConfigError("this system cannot confine a server to a folder; use Linux or macOS")
        self.path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise ConfigError(f"{path} is no folder; expected one with tables", parameters=("folder",))

    def check(self, named: str, argument: str, *, folder: bool, new: bool) -> None:
        """Raise an error unless there is such a file or folder, or a new one can have this name.

        Args:
            named: what the caller says.
            argument: the name of the argument, for messages.
            folder: it must be a folder; otherwise a file.
            new: nothing must have that name, in a folder that exists.

        Raises:
            ConfigError: the text is no path in this folder, or it is no new name.
            DataError: there is no such file or folder.
        """
        with self._opened(named, argument, "written" if new else "read") as (parent, name):
            try:
                kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            except FileNotFoundError:
                if new:
                    return
                raise
            if new:
                raise _exists(named, argument)
            wanted = "folder" if folder else "file"
            if not (stat.S_ISDIR(kind) if folder else stat.S_ISREG(kind)):
                raise DataError(
                    f"{argument} is {shorten(named)!r}, which is no {wanted}; expected a {wanted}",
                    parameters=(argument,),
                )

    def copy_out(self, named: str, argument: str, target: Path, max_bytes: int) -> None:
        """Copy a file, or a folder with all that it contains.

        Args:
            named: what the caller says.
            argument: the name of the argument, for messages.
            target: a new file or folder in a private folder.
            max_bytes: of all files.

        Raises:
            ConfigError: the text is no path in this folder.
            DataError: there is nothing of that name, or it is too large, or contains what is neither file nor folder.
        """
        with self._opened(named, argument, "read") as (parent, name):
            _Copy(f"{argument} is {shorten(named)!r}, which", max_bytes).run(parent, name, target)

    def copy_in(self, source: Path, named: str, argument: str) -> None:
        """Copy a new file or folder into this folder, where it appears as a whole. It never replaces anything.

        Raises:
            ConfigError, DataError: as of `check`; or it cannot be written.
        """
        with self._opened(named, argument, "written") as (parent, name):
            temporary = f".{secrets.token_hex(8)}.tmp"
            try:
                _copy_to(source, parent, temporary)
                if source.is_dir():  # nothing but an empty folder is replaced by a folder
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                else:
                    os.close(os.open(name, _WRITE, 0o666, dir_fd=parent))  # the name is taken, or an error
                    os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                os.fsync(parent)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ELOOP):
                    raise _exists(named, argument) from None
                raise
            finally:
                _remove(temporary, parent)

    def _real(self, named: str, argument: str) -> tuple[str, ...]:
        """Return the parts of the real path below this folder; raises ConfigError if it is not below."""
        relative = PurePosixPath(named)
        refused = (
            not relative.parts
            or relative.is_absolute()
            or ".." in relative.parts
            or named.startswith(("-", "~"))
            or printable(named) != named
            or any(sign in named for sign in "\\*?[\n\t")
            or "://" in named
        )
        real = None if refused else Path(os.path.realpath(self.path / relative))
        if real is None or real == self.path or not real.is_relative_to(self.path):
            raise ConfigError(
                f"{argument} is {shorten(named)!r}; expected a relative path inside the folder of this server, without "
                "'..', links that lead outside, addresses and patterns",
                parameters=(argument,),
            )
        return real.relative_to(self.path).parts

    @contextmanager
    def _opened(self, named: str, argument: str, action: str) -> Iterator[tuple[int, str]]:
        """Open the folder that contains what is named, through no link; yield it and the name there.

        An error of the system becomes one that says no more than the caller knows.
        """
        parent = -1
        try:
            *folders, name = self._real(named, argument)
            parent = os.open(self.path, _FOLDER)
            for each in folders:
                inner = os.open(each, _FOLDER, dir_fd=parent)
                os.close(parent)
                parent = inner
            yield parent, name
        except (FileNotFoundError, NotADirectoryError):
            missing = "does not exist" if action == "read" else "would be in a folder that does not exist"
            raise DataError(
                f"{argument} is {shorten(named)!r}, which {missing}; check the path", parameters=(argument,)
            ) from None
        except (OSError, ValueError) as error:
            reason = (
                os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no path"
            )
            raise DataError(
                f"{argument} is {shorten(named)!r}, which cannot be {action}: {reason}",
                parameters=(argument,),
            ) from None
        finally:
            if parent >= 0:
                os.close(parent)


class _Copy:
    """A copy of a file or a folder to a private folder, within limits; `what` begins the messages of its errors."""

    def __init__(self, what: str, max_bytes: int) -> None:
        self._what, self._most = what, max_bytes
        self._bytes, self._files = max_bytes, MOST_FILES

    def run(self, parent: int, name: str, target: Path, depth: int = 0) -> None:
        """Copy a name in an open folder; raises DataError, OSError."""
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # devices and pipes may react when they are opened
            raise self._odd(name)
        self._files -= 1
        if self._files < 0 or depth > MOST_DEPTH:
            raise DataError(
                f"{self._what} has more than {MOST_FILES:,} files, or than {MOST_DEPTH} folders in folders; "
                "expected a model"
            )
        opened = os.open(name, _READ, dir_fd=parent)
        try:
            state = os.fstat(opened)
            if stat.S_ISDIR(state.st_mode):
                target.mkdir(exist_ok=True)
                for inner in os.listdir(opened):  # noqa: PTH208 - of the open folder, wherever it is now
                    self.run(opened, inner, target / inner, depth + 1)
            elif stat.S_ISREG(state.st_mode):
                if state.st_size > self._bytes:
                    raise self._large()
                self._file(opened, target)
            else:
                raise self._odd(name)
        finally:
            os.close(opened)

    def _file(self, opened: int, target: Path) -> None:
        with target.open("xb") as file:
            while piece := os.read(opened, _PIECE):
                self._bytes -= len(piece)
                if self._bytes < 0:
                    raise self._large()
                file.write(piece)

    def _large(self) -> DataError:
        return DataError(
            f"{self._what} has more than {self._most:,} bytes, the limit of this server; use a smaller one"
        )

    def _odd(self, name: str) -> DataError:
        return DataError(
            f"{self._what} contains {shorten(name)!r}, which is neither a file nor a folder; remove it"
        )


def _copy_to(source: Path, parent: int, name: str) -> None:
    """Copy a private file or folder to a new name in an open folder."""
    if not source.is_dir():
        with source.open("rb") as file, open(os.open(name, _WRITE, 0o666, dir_fd=parent), "wb") as written:
            shutil.copyfileobj(file, written, _PIECE)
            written.flush()
            os.fsync(written.fileno())
        return
    os.mkdir(name, dir_fd=parent)
    opened = os.open(name, _FOLDER, dir_fd=parent)
    try:
        for inner in source.iterdir():
            _copy_to(inner, opened, inner.name)
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(name: str, parent: int) -> None:
    """Remove what an interrupted copy has left."""
    with suppress(OSError):
        os.unlink(name, dir_fd=parent)
        return
    shutil.rmtree(name, ignore_errors=True, dir_fd=parent)


def _exists(named: str, argument: str) -> ConfigError:
    return ConfigError(
        f"{argument} is {shorten(named)!r}, which exists already; expected a new name", parameters=(argument,)
    )
