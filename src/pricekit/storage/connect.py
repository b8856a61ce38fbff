"""The file system of an address, through fsspec: calls that are repeated if they fail, and errors in one sentence."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pricekit.errors import ConfigError, DataError, PricekitError
from pricekit.storage.address import PROVIDERS, Address
from pricekit.support.causes import causes
from pricekit.support.log import logger
from pricekit.support.text import shorten

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
"""Errors that another attempt does not change."""


def connect(address: Address) -> Any:
    """Return the fsspec file system of an address, which remembers no listings.

    Raises:
        ConfigError: the package for the scheme is not installed.
    """
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


def call(address: Address, method: str, *args: Any, **options: Any) -> Any:
    """Call a method of an address's file system, with the address's path first; repeat it after a transient error.

    Raises:
        FileNotFoundError: there is nothing at the address.
        Exception: any error of the provider's library, after the last attempt.
    """
    system = connect(address)
    path = system._strip_protocol(address.text)
    return repeated(lambda: getattr(system, method)(path, *args, **options), f"{method} {address}")


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
    if isinstance(error, FileNotFoundError):
        missing = (
            "there is no such file or bucket" if action == "read" else "there is no such bucket or folder"
        )
        return DataError(
            f"{address} cannot be {action}: {missing}. Check the address.", parameters=parameters
        )
    if isinstance(error, PermissionError):
        return DataError(
            f"{address} cannot be {action}: access is denied. Check the address, the credentials and their rights.",
            parameters=parameters,
        )
    if any(map(_lacks_credentials, causes(error))):
        return DataError(
            f"{address} cannot be {action}: there are no valid credentials. Set them up for the provider's tools.",
            parameters=parameters,
        )
    reason = shorten(str(error) or type(error).__name__, 200).rstrip(".")
    found = DataError(f"{address} cannot be {action}: {reason}. Try again later.", parameters=parameters)
    found.__cause__ = ConnectionError(
        reason
    )  # so that the command ends with the exit code of a temporary failure
    return found
