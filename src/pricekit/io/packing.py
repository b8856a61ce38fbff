"""Values in JSON that a stranger may have written: their types, and arrays as text in a quarter of the bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from pricekit.wording import shorten


class Strict(BaseModel):
    """Exact types and finite numbers; names that it does not know are ignored, because later versions may add some."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, extra="ignore", defer_build=True)


Model = TypeVar("Model", bound=BaseModel)

_interned: WeakValueDictionary[tuple[type, bytes], BaseModel] = WeakValueDictionary()


def interned(model: Model) -> Model:
    """Return the first of equal frozen models that exist, so that to compare them later takes no time."""
    key = type(model), hashlib.sha256(model.model_dump_json().encode()).digest()
    return cast(Model, _interned.setdefault(key, model))


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, as `object_pairs_hook` of `json`; raises ValueError if a name occurs twice in it.

    Parsers disagree which of the two values counts.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the key {shorten(repr(twice[:100]))} twice")
    return values


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists and objects, and the names of the objects."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from leaves(one)
    else:
        yield value


_LEVEL = 6
"""Higher levels of zlib take several times as long and save a few percent."""


def pack(values: npt.NDArray[Any]) -> str:
    """Return an array of numbers as text.

    The bytes are ordered by significance (all lowest bytes, then all second bytes, ...), compressed with zlib and
    encoded in base64. So small numbers take little space, whatever the type.

    Args:
        values: numbers of any type, (N,).

    Example:
        >>> unpack(pack(np.array([3, 1, 2], np.int32)), np.int32, most=10)
        array([3, 1, 2], dtype=int32)
    """
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    planes = np.ascontiguousarray(little.view(np.uint8).reshape(-1, little.itemsize).T)
    return base64.b64encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")


def unpack(text: object, kind: npt.DTypeLike, *, most: int) -> npt.NDArray[Any]:
    """Return the array that `pack` made into text; never more than `most` numbers are decompressed.

    Args:
        text: the text, possibly damaged or a stranger's.
        kind: the type of the numbers.
        most: the maximum of N.

    Returns:
        The numbers, (N,).

    Raises:
        ValueError: the text is damaged, or contains more than `most` numbers, or one that is not finite.
    """
    if not isinstance(text, str):
        raise ValueError(f"found {type(text).__name__}, expected the text of an array")
    dtype = np.dtype(kind).newbyteorder("<")
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(base64.b64decode(text, validate=True), most * dtype.itemsize + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"an array is damaged ({error})") from None
    if len(content) > most * dtype.itemsize:
        raise ValueError(f"an array has more than {most:,} numbers")
    if not reader.eof or reader.unused_data or len(content) % dtype.itemsize:
        raise ValueError("an array is damaged: it has no end")
    planes = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1)
    values = np.ascontiguousarray(planes.T).reshape(-1).view(dtype).astype(np.dtype(kind), copy=False)
    if not np.isfinite(values).all():
        raise ValueError("an array has a number that is not finite")
    return values
