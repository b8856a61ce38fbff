"""Addresses: where a file or folder is that is not named by a local path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from pricekit.errors import ConfigError, path_of
from pricekit.support.text import scheme_of

PROVIDERS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "hdfs": "pyarrow", "memory": "fsspec"}
"""The package that reads and writes the addresses of each scheme."""

STREAM = "-"
"""Standard input or output, alone or with the suffix of a format: `-.jsonl`."""


@dataclass(frozen=True, order=True)
class Address:
    """A remote file or folder such as s3://bucket/new.csv, or `-`, which is standard input or output.

    It has what the code uses of a path: name, suffix, stem, parent, `/` and `str`. No local function accepts it.

    Attributes:
        text: the address.

    Example:
        >>> prices = Address("s3://shop/night") / "prices.csv"
        >>> str(prices), prices.name, prices.suffix, str(prices.parent)
        ('s3://shop/night/prices.csv', 'prices.csv', '.csv', 's3://shop/night')
    """

    text: str

    @property
    def scheme(self) -> str:
        """The scheme, such as "s3"; "" for a stream."""
        return scheme_of(self.text)

    @property
    def is_stream(self) -> bool:
        """Whether it is standard input or output."""
        return not self.scheme

    @property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.text.partition("://")[2] or self.text)

    @property
    def name(self) -> str:
        """The last part: "new.csv"."""
        return self._path.name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The suffix of the name: ".csv"; of `-`, which has none, it is ".csv", too."""
        if self.is_stream:
            return self.text.removeprefix(STREAM) or ".csv"
        return self._path.suffix

    @property
    def parent(self) -> Address:
        """The folder; that of a bucket is the bucket."""
        head, _, tail = self.text.rpartition("/")
        return Address(head) if tail and "://" in head and not head.endswith(":/") else self

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


def location_of(given: Any, parameter: str) -> Location:
    """Return the location that a user gave: a text with a scheme or `-` is an address, and all else a local path.

    `pathlib` paths and other objects with a path are always local.

    Args:
        given: a text or a path.
        parameter: the name of the parameter, for messages.

    Raises:
        ConfigError: it is not a path, or its scheme is unknown.

    Example:
        >>> location_of("s3://shop/new.csv", "table")
        Address(text='s3://shop/new.csv')
        >>> location_of("data/new.csv", "table")
        PosixPath('data/new.csv')
    """
    if isinstance(given, Address):
        return given
    if not isinstance(given, str) or not (_is_stream(given) or scheme_of(given)):
        return path_of(given, parameter)
    if _is_stream(given):
        return Address(given)
    start, _, rest = given.partition("://")
    address = Address(f"{start.lower()}://{rest.rstrip('/')}")
    if address.scheme not in PROVIDERS:
        known = ", ".join(f"{name}://" for name in PROVIDERS)
        raise ConfigError(
            f"{address} begins with the unknown scheme {address.scheme}://; expected a local path, or an address with "
            f"one of {known}",
            parameters=(parameter,),
            candidates=list(PROVIDERS),
        )
    if "\0" in address.text or not rest.strip("/") or address.name == "..":
        raise ConfigError(f"{address} names no file and no folder; check it", parameters=(parameter,))
    return address


def is_remote(location: Any) -> bool:
    """Return whether a location is remote: neither a local path, nor a stream, nor a frame."""
    return isinstance(location, Address) and not location.is_stream


def _is_stream(text: str) -> bool:
    return text == STREAM or (text.startswith("-.") and os.sep not in text)
