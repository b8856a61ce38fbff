"""Local paths, remote addresses, and standard input and output, treated alike.

`location_of` reads a user's text. Remote files are read through a local copy; a file to write is local, too, and then
appears at the location as a whole. The cache has the place of a remote output's lock and checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, TypeAlias, TypeGuard, TypeVar

from pricekit.errors import ConfigError, DataError, PricekitError, path_of
from pricekit.io.causes import FULL, causes
from pricekit.io.compression import compression_of, open_bytes, suffixes_of
from pricekit.io.files import temporary_folder, temporary_path, write_atomically
from pricekit.io.log import logger
from pricekit.io.sources import copy_table, parameters_of_address, refuse_credentials, source_of
from pricekit.io.stdout import stdout
from pricekit.wording import scheme_of, shorten

PROVIDERS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "hdfs": "pyarrow", "memory": "fsspec"}
"""The package that reads and writes the addresses of each scheme."""

STREAM = "-"
"""Standard input or output, alone or with the suffix of a format: `-.jsonl`."""


@dataclass(frozen=True, order=True)
class Address:
    """A remote file or folder such as s3://bucket/new.csv, or `-`, which is standard input or output.

    Or a table that is no file, such as sqlite:///shop.db?table=products (`pricekit.io.sources`). It has what the code
    uses of a path: name, suffix, `/` and `str`. No local function accepts it.

    Attributes:
        text: the address.
        copy: a local copy of a table, which is read instead of it.

    Example:
        >>> prices = Address("s3://shop/night") / "prices.csv"
        >>> str(prices), prices.name, prices.suffix
        ('s3://shop/night/prices.csv', 'prices.csv', '.csv')
    """

    text: str
    copy: Path | None = field(default=None, compare=False, repr=False)

    @property
    def scheme(self) -> str:
        """The scheme, such as "s3"; "" for a stream."""
        return scheme_of(self.text)

    @property
    def is_stream(self) -> bool:
        """Whether it is standard input or output."""
        return not self.scheme

    @property
    def is_table(self) -> bool:
        """Whether it is a table of another system, such as a database, which a source reads and writes."""
        return bool(self.scheme) and self.scheme not in PROVIDERS

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.text.partition("://")[2] or self.text)

    @property
    def name(self) -> str:
        """The last part: "new.csv". Of a table, its name, or that of its database."""
        if self.is_table:
            place, values = parameters_of_address(self.text)
            return values.get("table") or PurePosixPath(place).name
        return self._path.name

    @property
    def suffix(self) -> str:
        """The suffix of the name: ".csv"; of `-`, which has none, it is ".csv", too."""
        if self.is_stream:
            return self._path.suffix or ".csv"
        return "" if self.is_table else self._path.suffix

    def __truediv__(self, name: str) -> Address:
        """Return the address of a file or folder below this one."""
        return Address(f"{self.text.rstrip('/')}/{name}")

    def relative_to(self, folder: Address) -> PurePosixPath:
        """Return the path of a file below a folder; raises ValueError if it is not below it."""
        return self._path.relative_to(folder._path)

    def __str__(self) -> str:
        return self.text


Location: TypeAlias = Path | Address
"""A local path or an address."""


def location_of(path: Any, parameter: str) -> Location:
    """Return the location that a user gave: a text with a scheme or `-` is an address, and all else a local path.

    `pathlib` paths and other objects with a path are always local.

    Args:
        path: a text or a path.
        parameter: the name of the parameter, for messages.

    Raises:
        ConfigError: it is not a path, or its scheme is unknown.

    Example:
        >>> location_of("s3://shop/new.csv", "table")
        Address(text='s3://shop/new.csv')
        >>> location_of("data/new.csv", "table")
        PosixPath('data/new.csv')
    """
    if isinstance(path, Address):
        return path
    if not isinstance(path, str) or not (_is_stream(path) or scheme_of(path)):
        return path_of(path, parameter)
    if _is_stream(path):
        return Address(path)
    start, _, rest = path.partition("://")
    address = Address(f"{start.lower()}://{rest.rstrip('/')}")
    refuse_credentials(address.text, parameter)
    if address.is_table:
        source_of(address.text, parameter)
    if "\0" in address.text or not rest.strip("/") or address.name == "..":
        raise ConfigError(f"{address} names no file and no folder; check it", parameters=(parameter,))
    return address


def is_remote(location: Any) -> bool:
    """Return whether a location is remote: neither a local path, nor a stream, nor a frame, nor a table with a copy."""
    return isinstance(location, Address) and not location.is_stream and location.copy is None


def is_table(location: Any) -> TypeGuard[Address]:
    """Return whether a location is a table of another system, such as a database."""
    return isinstance(location, Address) and location.is_table


def _is_stream(text: str) -> bool:
    return text == STREAM or (text.startswith("-.") and os.sep not in text)


Result = TypeVar("Result")

ATTEMPTS = 5
"""How often a call is tried; the providers' libraries also repeat some requests themselves."""
PAUSE_SECONDS = 0.5
"""Before the second attempt; the pause doubles each time."""

_FINAL = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    FileExistsError,
    ImportError,
)
"""Errors that a retry cannot fix."""


def connect(address: Address) -> Any:
    """Return the fsspec file system of an address, which remembers no listings.

    Raises:
        ConfigError: the package for the scheme is not installed, or it is a table, which has no files.
    """
    if address.is_table:
        raise ConfigError(f"{address} is a table; a file or a folder is expected")
    package = PROVIDERS[address.scheme]
    try:
        import fsspec

        named = fsspec.get_filesystem_class(address.scheme)._get_kwargs_from_urls(
            address.text
        )  # a server or an account
        return fsspec.filesystem(address.scheme, use_listings_cache=False, **named)
    except ImportError as error:
        needed = f"the package {package}, which is not installed: pip install {package}"
        if package == "pyarrow":
            needed = f"Hadoop's libhdfs, which cannot be loaded ({shorten(str(error), 200)})"
        raise ConfigError(f"{address} needs {needed}", package=package) from error
    except Exception as error:
        raise failure(address, "reached", error)  # noqa: B904 - it has its cause


def call(address: Address, method: str, *, detail: bool = False) -> Any:
    """Call a method of an address's file system with the address's path; repeat it after a transient error.

    Args:
        address: the file or folder.
        method: the name of the method.
        detail: the method returns the facts of the files that it finds, by their paths.

    Raises:
        FileNotFoundError: there is nothing at the address.
        Exception: any error of the provider's library, after the last attempt.
    """
    system = connect(address)
    attempt = partial(getattr(system, method), system._strip_protocol(address.text))
    return repeated(partial(attempt, detail=True) if detail else attempt, f"{method} {address}")


def repeated(attempt: Callable[[], Result], what: str) -> Result:
    """Return what `attempt` returns; after an error that may pass, try again, with growing pauses.

    Wrong addresses and credentials do not pass.
    """
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except Exception as error:
            if isinstance(error, _FINAL) or any(map(_lacks_credentials, causes(error))):
                raise
            logger.debug(f"{what}: {type(error).__name__}: {shorten(str(error), 200)}; attempt {number + 1}")
            pause = PAUSE_SECONDS * 2 ** (number - 1)
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - so that processes do not retry together
    return attempt()


def _lacks_credentials(error: BaseException) -> bool:
    name = type(error).__name__
    return "Credential" in name or name in ("ProfileNotFound", "ClientAuthenticationError")


@contextmanager
def explained(address: Address, action: str, *parameters: str) -> Iterator[None]:
    """Turn any error of a provider's library into a DataError of one sentence.

    Args:
        address: the file or folder.
        action: "read" or "written".
        parameters: names of the parameters that fix the problem.
    """
    try:
        yield
    except (PricekitError, MemoryError):
        raise
    except Exception as error:
        raise failure(address, action, error, *parameters)  # noqa: B904 - it has its cause


def failure(address: Address, action: str, error: Exception, *parameters: str) -> DataError:
    """Return the DataError for an error of a provider's library; one that may pass is a temporary failure."""
    cause = None
    if isinstance(error, FileNotFoundError):
        of_read, of_write = "there is no such file or bucket", "there is no such bucket or folder"
        reason = f"{of_read if action == 'read' else of_write}. Check the address."
    elif isinstance(error, PermissionError):
        reason = "access is denied. Check the address, the credentials and their rights."
    elif any(map(_lacks_credentials, causes(error))):
        reason = "there are no valid credentials. Set them up for the provider's tools."
    else:
        message = shorten(str(error) or type(error).__name__, 200).rstrip(".")
        reason = f"{message}. Try again later."
        cause = ConnectionError(message)  # so that the command ends with the exit code of a temporary failure
    explanation = DataError(f"{address} cannot be {action}: {reason}", parameters=parameters)
    explanation.__cause__ = cause
    return explanation


Item = TypeVar("Item")

WILD = frozenset("*?[")
"""The characters of wildcards."""

_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "created")
"""What the providers call the facts that change when a file is replaced, the most reliable first."""
_WITH_BUCKETS = frozenset({"s3", "gs"})
_AT_A_TIME = 16
"""Requests for the facts of many files."""


def facts_of(address: Address) -> dict[str, Any] | None:
    """Return what the provider says about a remote file or folder; None if there is nothing; raises DataError."""
    with explained(address, "read"):
        try:
            return dict(call(address, "info"))
        except FileNotFoundError:
            return None


def exists(location: Location) -> bool:
    """Return whether there is a file or folder; a stream exists; raises DataError if the provider refuses to tell."""
    if isinstance(location, Path):
        return location.exists()
    return location.is_stream or location.is_table or facts_of(location) is not None


def is_folder(location: Location) -> bool:
    """Return whether there is a folder; on an object store, a prefix of existing files; raises DataError."""
    if isinstance(location, Path):
        return location.is_dir()
    if location.is_stream or location.is_table:
        return False
    return (facts_of(location) or {}).get("type") == "directory"


def check_bucket(address: Address) -> None:
    """Raise DataError if a file's bucket is missing. A bucket that must not be listed passes."""
    if address.scheme not in _WITH_BUCKETS:
        return
    start, _, rest = address.text.partition("://")
    bucket = Address(f"{start}://{rest.partition('/')[0]}")
    with explained(address, "written", "out"), suppress(PermissionError):
        call(bucket, "info")


def files_below(folder: Location) -> list[Location]:
    """Return all files in a folder and its subfolders, sorted; local links without a target count; raises DataError."""
    if isinstance(folder, Path):
        return _without_folders(folder.rglob("*"))
    with explained(folder, "read"):
        return _addresses(folder, call(folder, "find"))


def is_pattern(location: Location) -> bool:
    """Return whether a location contains wildcards; a file of that name may exist."""
    return not is_table(location) and bool(WILD & set(str(location)))


def split_pattern(pattern: Location) -> tuple[Location, PurePath]:
    """Return the folder in which a pattern begins to vary, and the pattern below it."""
    if isinstance(pattern, Path):
        fixed = Path(*takewhile(lambda part: not WILD & set(part), pattern.parts))
        return fixed, pattern.relative_to(fixed)
    head, _, rest = pattern.text.partition("://")
    start = "/".join(takewhile(lambda part: not WILD & set(part), rest.split("/")))
    folder = Address(f"{head}://{start}")
    return folder, pattern.relative_to(folder)


def matching(pattern: Location) -> list[Location]:
    """Return the files that match a pattern, in which `**` is any number of folders, sorted; raises DataError."""
    folder, varying = split_pattern(pattern)
    if isinstance(folder, Path):
        return _without_folders(folder.glob(str(varying)))
    assert isinstance(pattern, Address)
    with explained(pattern, "read"):
        facts_by_path = call(pattern, "glob", detail=True)
        return _addresses(
            folder, (path for path, facts in facts_by_path.items() if facts["type"] != "directory")
        )


def _without_folders(paths: Iterable[Path]) -> list[Location]:
    return sorted(path for path in paths if path.is_file() or not path.exists())


def _addresses(folder: Address, paths: Iterable[str]) -> list[Location]:
    """Return the addresses of a provider's paths below a folder, sorted."""
    return sorted(folder / name for name in _names_below(folder, paths))


def _names_below(folder: Address, paths: Iterable[str]) -> dict[str, str]:
    """Return a provider's paths, which lack scheme, server and account, by their names below a folder.

    Some tools write empty objects that stand for folders, whose names end with a slash; they are omitted.
    """
    start = str(connect(folder)._strip_protocol(folder.text)).rstrip("/")
    return {path.removeprefix(start).lstrip("/"): path for path in paths if not path.endswith("/")}


def size_of(location: Location) -> int:
    """Return the bytes of a file, or of a table's copy; 0 if it is missing or a stream; raises DataError."""
    if isinstance(location, Path):
        return location.stat().st_size if location.exists() else 0
    if location.is_table:
        return 0 if location.copy is None else location.copy.stat().st_size
    return 0 if location.is_stream else int((facts_of(location) or {}).get("size") or 0)


def fingerprint(location: Location) -> list[object]:
    """Return values that change when a file is replaced: its name, size, and time or entity tag; [] if it is missing.

    They are plain JSON. A stream, and a table that is no file, have only their name. Raises DataError if the provider
    refuses to tell.

    Example:
        >>> fingerprint(Path("a missing file"))
        []
    """
    if isinstance(location, Path):
        if not location.exists():
            return []
        state = location.stat()
        return [str(location.absolute()), state.st_size, state.st_mtime_ns]
    if location.is_stream or location.is_table:
        return [location.text]
    facts = facts_of(location)
    return [] if facts is None else [location.text, *version_of(facts)]


def fingerprints_below(folder: Address) -> dict[str, list[object]]:
    """Return size and version of all files below a remote folder, by name, by one request; raises DataError."""
    with explained(folder, "read"):
        facts_by_path = call(folder, "find", detail=True)
        names = _names_below(folder, facts_by_path)
    return {name: version_of(facts_by_path[path]) for name, path in sorted(names.items())}


def version_of(facts: dict[str, Any]) -> list[object]:
    """Return size and version from what a provider says about a file."""
    version = next((facts[name] for name in _VERSIONS if facts.get(name) is not None), None)
    return [facts.get("size"), str(version)]


def for_all(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what a function returns for each item; all but local files are asked several at a time."""
    if len(items) < 2 or isinstance(items[0], Path):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(function, items))


VARIABLE = "PRICEKIT_CACHE"

PART_BYTES = 16 << 20
"""How much is read at a time, and so lost when a connection is cut."""
_ANNOUNCED_BYTES = 100 << 20

_lock = threading.Lock()
_spooled: tuple[object, Copy] | None = None
"""Standard input, which can be read only once, and its copy."""

_SHOWS_PARTS = frozenset({"hdfs", "memory"})
"""Schemes whose files are visible while they are written; object stores show a file when its upload ends."""
_OPTIONS = {"s3": {"chunksize": 16 << 20, "max_concurrency": 4}}
"""Options of uploads; s3fs would hold half a gigabyte in memory."""


class Copy:
    """A local file with the content of a location; a temporary one is deleted with this object.

    Keep the object for as long as the path is used.

    Attributes:
        path: the local file. It has the suffixes of its location; a remote name may be too long for a local file.
    """

    def __init__(self, path: Path, folder: str | None = None) -> None:
        self.path = path
        if folder is not None:
            weakref.finalize(self, _delete, folder, os.getpid())


def _delete(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child has the object, too
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Part:
    """The bytes of a remote file that are fetched.

    Attributes:
        first: bytes from the beginning. Without `last`, the copy ends with the last whole line of them.
        last: bytes from the end; the copy has zeros in between.
    """

    first: int
    last: int


def fetch(
    location: Location,
    part: Part | None = None,
    wanted: frozenset[str] | None = None,
    limit: int | None = None,
) -> Copy:
    """Return a local copy of a file or a table; a local file stands for itself.

    The copy of a remote file is in the folder for temporary files, and as large as the file. Standard input is read to
    its end. It is JSON lines if it begins with "{", Parquet if it begins like that, and otherwise CSV; what its first
    bytes show to be compressed is unpacked. A process reads it once and keeps the copy.

    Args:
        location: the file.
        part: only this part of a remote file, which is not checked for changes; None: all of it.
        wanted: the columns of a table to copy; None: all.
        limit: at most so many rows of a table; None: all.

    Example:
        >>> fetch(Path(__file__)).path.name
        'storage.py'

    Raises:
        DataError: there is no such file, access is denied, the file was replaced meanwhile, or the disk is full.
        ConfigError: the package for the scheme is not installed.
    """
    if isinstance(location, Path):
        return Copy(location)
    if location.is_stream:
        return _spool(location)
    if location.copy is not None:
        return Copy(location.copy)
    if location.is_table:
        with _new_copy("table.parquet") as copy:
            copy_table(location.text, copy.path, wanted, limit)
        return copy
    with explained(location, "read", "table"):
        facts = facts_of(location)
        if facts is None:
            raise FileNotFoundError(location.text)
    if facts.get("type") == "directory":
        raise DataError(f"{location} is a folder, not a file. Name an existing table.", parameters=("table",))
    with _new_copy(f"table{''.join(suffixes_of(location))}") as copy:
        if part is not None and part.first + part.last < facts["size"]:
            _download_part(location, copy.path, facts["size"], part)
            return copy
        download(location, copy.path, facts["size"])
        if version_of(facts_of(location) or {}) != version_of(facts):
            raise DataError(
                f"{location} was replaced while it was read; try again when nothing writes it.",
                parameters=("table",),
            )
    return copy


def download(address: Address, path: Path, size: int) -> None:
    """Write the first `size` bytes of a remote file to a local path; raises DataError, and OSError for a full disk."""
    if size >= _ANNOUNCED_BYTES:
        logger.info(f"fetching {address}: {size / 1e6:,.0f} MB")
    if size > (free := shutil.disk_usage(path.parent).free):
        raise _too_small(address, path.parent, f"it has {free:,} bytes left, and {size:,} are needed")
    with open(path, "wb") as file:
        for start in range(0, size, PART_BYTES):
            content = _range(address, start, min(start + PART_BYTES, size))
            _write(file, content, address, path.parent)


def _download_part(address: Address, path: Path, size: int, part: Part) -> None:
    first = _range(address, 0, part.first)
    if not part.last:
        path.write_bytes(first[: first.rfind(b"\n") + 1])
        return
    with open(path, "wb") as file:
        file.write(first)
        file.seek(size - part.last)  # the system stores no zeros in between
        file.write(_range(address, size - part.last, size))


def _range(address: Address, start: int, end: int) -> bytes:
    def once() -> bytes:
        system = connect(address)
        content: bytes = system.cat_file(system._strip_protocol(address.text), start=start, end=end)
        if len(content) != end - start:
            raise ConnectionError(f"{len(content):,} of {end - start:,} bytes arrived")
        return content

    with explained(address, "read"):
        return repeated(once, f"read {address}")


def _write(file: BinaryIO, part: bytes, address: Address, folder: Path) -> None:
    try:
        file.write(part)
        file.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _too_small(address, folder, "it is full") from error


def _too_small(address: Address, folder: Path, why: str) -> DataError:
    explanation = DataError(
        f"{address} cannot be copied to the disk of {folder}: {why}. Free some space there, or set the environment "
        "variable TMPDIR to a folder on another disk."
    )
    explanation.__cause__ = OSError(next(iter(FULL)), os.strerror(next(iter(FULL))))
    return explanation


@contextmanager
def _new_copy(name: str) -> Iterator[Copy]:
    """Yield a copy that is still empty; after an error it is deleted at once."""
    folder = tempfile.mkdtemp(prefix="pricekit-")
    try:
        yield Copy(Path(folder) / name, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _spool(address: Address) -> Copy:
    """Return the copy of standard input, which several calls share."""
    global _spooled
    with _lock:
        if _spooled is None or _spooled[0] is not sys.stdin:
            _spooled = sys.stdin, _read_stdin(address)
        return _spooled[1]


def _read_stdin(address: Address) -> Copy:
    stream: BinaryIO = sys.stdin.buffer
    with _new_copy("stdin") as copy:
        with open(copy.path, "wb") as file:
            while part := stream.read(1 << 20):
                _write(file, part, address, copy.path.parent)
        copy.path = copy.path.rename(copy.path.with_suffix(_suffix(address, copy.path)))
    return copy


def _suffix(address: Address, path: Path) -> str:
    """Return the suffixes of a stream: those of its name, or what its first bytes show."""
    if address.name != STREAM:
        return "".join(suffixes_of(address))
    with open(path, "rb") as file:
        compression = compression_of(file.read(64))
    head = b""
    with suppress(DataError), open_bytes(path, compression) as file:  # reported by whoever reads the table
        head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"PAR1"):
        return ".parquet"
    return (".jsonl" if head.startswith(b"{") else ".csv") + compression


@contextmanager
def published(location: Location) -> Iterator[Path]:
    """Yield a local path to write; on success its content appears at the location as a whole, on failure nothing.

    A local file is renamed. A remote one is uploaded from the folder for temporary files, and replaces an existing one.
    A stream gets the content on standard output.

    Raises:
        DataError: the upload fails.
        OSError: the system refuses to write locally.
    """
    if isinstance(location, Path):
        with write_atomically(location) as temporary:
            yield temporary
        return
    with temporary_folder() as folder:
        local = folder / f"output{location.suffix}"
        yield local
        if location.is_stream:
            stdout().flush()
            with open(local, "rb") as file:
                shutil.copyfileobj(file, stdout().buffer)
            stdout().buffer.flush()
        else:
            upload(local, location)


def upload(local: Path, address: Address) -> None:
    """Copy a local file to an address, where it appears as a whole; raises DataError."""
    system = connect(address)
    target = system._strip_protocol(address.text)
    with explained(address, "written", "out"):
        if address.scheme in _SHOWS_PARTS:
            repeated(lambda: _upload_and_rename(system, local, target), f"upload {address}")
        else:
            options = _OPTIONS.get(address.scheme, {})
            repeated(lambda: system.put_file(str(local), target, **options), f"upload {address}")
    written, expected = (facts_of(address) or {}).get("size"), local.stat().st_size
    if written != expected:
        raise DataError(
            f"{address} has {written} bytes after {expected:,} were written; perhaps another process writes it, too. "
            "Write it again.",
            parameters=("out",),
        )


def _upload_and_rename(system: Any, local: Path, target: str) -> None:
    folder, _, name = target.rpartition("/")
    temporary = f"{folder}/{temporary_path(Path(name)).name}"
    try:
        system.put_file(str(local), temporary)
        with suppress(
            FileNotFoundError
        ):  # not every such file system replaces a file when it renames another
            system.rm_file(target)
        system.mv(temporary, target)
    except BaseException:
        with suppress(Exception):
            system.rm_file(temporary)
        raise


def read_text(location: Location) -> str:
    """Return a small UTF-8 text file; raises DataError, OSError, or ValueError if it is not UTF-8."""
    copy = fetch(location)  # the file exists for as long as this object
    return copy.path.read_text("utf-8")


def write_text(location: Location, text: str) -> None:
    """Write a small UTF-8 text file, which appears as a whole; raises DataError or OSError."""
    with published(location) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def delete(location: Location) -> None:
    """Delete a file; one that is missing is no error; raises DataError or OSError."""
    if isinstance(location, Path):
        location.unlink(missing_ok=True)
        return
    with explained(location, "deleted"), suppress(FileNotFoundError):
        call(location, "rm_file")


def cache_folder() -> Path:
    """Return the folder of pricekit's caches: `PRICEKIT_CACHE`, or by default the one that is usual on this platform.

    It may not exist yet.
    """
    from platformdirs import user_cache_path

    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache_path("pricekit")


@contextmanager
def working_path(out: Location) -> Iterator[Path]:
    """Yield the local path whose neighbours are the lock and the checkpoint of an output.

    For a local output it is the output itself. For a remote one it is a path in the cache that depends on the address
    only, so an interrupted command can be continued on the same machine. For a stream it is in a temporary folder.

    Example:
        >>> with working_path(Path("prices.csv")) as path:
        ...     path
        PosixPath('prices.csv')
    """
    if isinstance(out, Path):
        yield out
        return
    if out.is_stream:
        with temporary_folder() as temporary:
            yield temporary / f"stdout{out.suffix}"
        return
    folder = cache_folder() / "outputs" / hashlib.sha256(out.text.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder / out.name
    finally:
        with suppress(OSError):  # it contains what an interrupted command keeps
            folder.rmdir()
