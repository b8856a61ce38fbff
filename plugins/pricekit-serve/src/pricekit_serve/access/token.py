"""The secret that clients send: read from a file that only its owner can read, or from the environment."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

from pricekit.plugin import ConfigError, describe_failure

VARIABLE = "PRICEKIT_TOKEN"
SHORTEST = 16
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_token(file: str | Path | None) -> str | None:
    """Return the token in a file, or else that of the environment; None without both.

    Raises:
        ConfigError: the file cannot be read, or others can read it; or the token is too short or not printable ASCII.
    """
    given = os.environ.get(VARIABLE) if file is None else _content(Path(file))
    if given is None:
        return None
    token = given.strip()
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable() and " " not in token):
        raise _useless(file)
    return token


def _useless(file: str | Path | None) -> ConfigError:
    expected = f"has no token of at least {SHORTEST} letters, digits and signs"
    example = "such as the output of openssl rand -hex 32"
    if file is None:
        return ConfigError(
            f"the environment variable {VARIABLE} {expected}; set it to one, {example}, or unset {VARIABLE} to serve "
            "without a token"
        )
    return ConfigError(f"the token file {file} {expected}; write one, {example}", parameters=("token_file",))


def _content(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if os.name == "posix" and mode & _OTHERS:
                raise ConfigError(
                    f"others can access the token file {file} (mode {stat.S_IMODE(mode):o}); allow only its owner: "
                    f"chmod 600 {file}",
                    parameters=("token_file",),
                )
            return stream.read(10_000)
    except (OSError, UnicodeDecodeError) as error:
        reason = describe_failure(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"the token file {file} cannot be read: {reason}", parameters=("token_file",)
        ) from None


def allows(token: str, header: str) -> bool:
    """Return whether the value of an Authorization header has the token; the time shows nothing of it."""
    scheme, _, given = header.partition(" ")
    same = hmac.compare_digest(given.strip().encode(), token.encode())
    return scheme.lower() == "bearer" and same
