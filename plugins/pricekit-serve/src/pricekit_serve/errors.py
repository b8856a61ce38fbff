"""Errors of requests: a status, a sentence, and the field that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from pricekit.plugin import printable, shorten

_LONGEST_FIELD = 200
_LONGEST_MESSAGE = 1000


class RequestError(Exception):
    """A request that the server refuses.

    Attributes:
        status: the HTTP status.
        field: the path of the wrong value, such as "rows[3].title"; "" if the request as a whole is wrong.
        headers: of the answer.
    """

    def __init__(
        self, status: int, message: str, field: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(printable(shorten(message, _LONGEST_MESSAGE)))
        self.status = status
        self.field = printable(shorten(field, _LONGEST_FIELD))
        self.headers = dict(headers or {})

    def content(self) -> dict[str, str]:
        """Return the answer as JSON values."""
        return {"error": str(self)} | ({"field": self.field} if self.field else {})


def invalid(field: str, message: str) -> RequestError:
    """Return the error for a value that cannot be used."""
    return RequestError(422, f"{shorten(field, _LONGEST_FIELD)} {message}", field)
