"""The configuration of a model for Triton; the format is the text form of its model_config.proto."""

from __future__ import annotations

from dataclasses import dataclass

from pricekit.prediction.intervals import BOUNDS

MAX_BATCH_SIZE = 256
"""Rows of a request, and rows that Triton prices together."""

LEVEL = 0.9
"""Share of true prices inside the bounds, unless a request says otherwise."""

_CONFIG = """# Prices from texts, with pricekit. Inputs and outputs are those of the bundles in all version folders.
name: {name}
backend: "python"
max_batch_size: {rows}
{interface}
version_policy {{ all {{ }} }}
dynamic_batching {{ }}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
parameters [
{parameters}
]
"""


@dataclass(frozen=True)
class Interface:
    """What a model reads and returns.

    Attributes:
        columns: the columns that it reads.
        highest: the highest level of its price intervals.
    """

    columns: tuple[str, ...]
    highest: float

    def text(self) -> str:
        """Return the inputs, one text for each row and column, and the outputs, as part of a configuration."""
        outputs = _listed("output", [_tensor(name, "TYPE_FP32") for name in ("price", *BOUNDS)])
        return _listed("input", [_tensor(name, "TYPE_STRING") for name in self.columns]) + "\n" + outputs

    def configuration(self, name: str) -> str:
        """Return the `config.pbtxt` of a model."""
        values = {"engine": "ort-cpu", "interval": f"{min(LEVEL, self.highest):g}"}
        parameters = [
            f"  {{ key: {quoted(key)} value {{ string_value: {quoted(value)} }} }}"
            for key, value in values.items()
        ]
        return _CONFIG.format(
            name=quoted(name),
            rows=MAX_BATCH_SIZE,
            interface=self.text(),
            parameters=",\n".join(parameters),
        )


def quoted(text: str) -> str:
    r"""Return a text as a string of protobuf's text format, with bytes outside of ASCII in octal.

    Example:
        >>> print(quoted("Größe"))
        "Gr\303\266\303\237e"
    """
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{"".join(plain)}"'


def _tensor(name: str, kind: str) -> str:
    return f"  {{ name: {quoted(name)} data_type: {kind} dims: [ 1 ] }}"


def _listed(key: str, tensors: list[str]) -> str:
    return f"{key} [\n" + ",\n".join(tensors) + "\n]"
