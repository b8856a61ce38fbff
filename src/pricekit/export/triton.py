"""Model repositories of Triton Inference Server whose models read texts and return prices.

`config.pbtxt` describes a model to Triton, and `model.py.txt` is the code that Triton's Python backend runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pricekit.errors import ExportError, path_of
from pricekit.io.files import publish_folder, write_text
from pricekit.io.locks import owned
from pricekit.io.log import logger
from pricekit.io.record import kind_of
from pricekit.options import PathLike
from pricekit.predict.bundle import files_of_bundle, open_bundle
from pricekit.predict.intervals import Uncertainty
from pricekit.runs.opened import open_ensemble, open_run

CONFIG = "config.pbtxt"

MAX_BATCH_SIZE = 256
"""Rows of a request, and rows that Triton prices together."""

LEVEL = 0.9
"""Share of true prices inside the bounds, unless a request says otherwise."""

OUTPUTS = (
    ("price", "FP32", 1),
    *(
        (name, "BOOL" if column.dtype == bool else "FP32", 1)
        for name, column in Uncertainty(LEVEL, within=2).of_no_rows().items()
    ),
    ("quantiles", "FP32", -1),
)
"""Names, types and sizes of what a model returns for each row; quantiles are one output, as many as a request asks."""

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
        highest: the highest level of its price intervals; 0: there are too few rows for one; None: it has none.
    """

    columns: tuple[str, ...]
    highest: float | None

    def text(self) -> str:
        """Return the inputs, one text for each row and column, and the outputs, as part of a configuration."""
        listed = []
        outputs = OUTPUTS[:1] if self.highest is None else OUTPUTS
        for key, tensors in (("input", [(name, "STRING", 1) for name in self.columns]), ("output", outputs)):
            lines = (
                f"  {{ name: {quoted(name)} data_type: TYPE_{kind} dims: [ {size} ] }}"
                for name, kind, size in tensors
            )
            listed.append(f"{key} [\n" + ",\n".join(lines) + "\n]")
        return "\n".join(listed)

    def configuration(self, name: str) -> str:
        """Return the `config.pbtxt` of a model."""
        values = {"engine": "ort-cpu"}
        if self.highest:
            values["interval"] = f"{min(LEVEL, self.highest):g}"
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


def interface_of(run: Path) -> Interface:
    """Return what the model of a run or an ensemble reads and returns; raises TrainingError."""
    opened = open_ensemble(run) if kind_of(run) == "ensemble" else open_run(run)
    columns = opened.predictor().columns.text
    read = tuple(dict.fromkeys([*columns, *opened.sketch.others]))
    return Interface(read, opened.intervals.highest)


def model_folder(repository: Path, bundle: Path, interface: Interface) -> Path:
    """Return the folder for a bundle's model in a repository.

    Args:
        repository: the model repository of the server.
        bundle: the folder of the bundle; its name becomes the model's.
        interface: of the model to be written. The folder may contain versions with the same one.

    Raises:
        ExportError: the folder overlaps the bundle, or contains something else.
    """
    folder = repository / re.sub(r"[^A-Za-z0-9_-]", "_", bundle.resolve().name)
    where, out = folder.resolve(), bundle.resolve()
    if where == out or where in out.parents or out in where.parents:
        raise _taken(
            f"the Triton model would be written to {folder}, which overlaps the bundle {bundle}", folder
        )
    if repository.exists() and not repository.is_dir():
        raise _taken(f"{repository} is a file", repository)
    if folder.exists() and not (folder.is_dir() and (folder / CONFIG).is_file()):
        raise _taken(f"{folder} exists and is no model of Triton: it has no {CONFIG}", folder)
    if folder.exists() and interface.text() not in (folder / CONFIG).read_text("utf-8", "replace"):
        raise _taken(
            f"{folder} contains a model with other inputs or outputs than {', '.join(interface.columns)} to prices, "
            f"as its {CONFIG} says",
            folder,
        )
    return folder


def _taken(what: str, path: Path) -> ExportError:
    return ExportError(
        f"{what}; choose another repository, or another name for the bundle",
        parameters=("triton", "out"),
        path=str(path),
    )


def add_version(bundle: Path, folder: Path, interface: Interface) -> Path:
    """Write a bundle as the next version of a model; other versions stay.

    A server that looks at the repository sees the version when it is complete. An existing configuration stays, because
    it may have been edited.

    Args:
        bundle: the folder of the bundle, which is checked and copied.
        folder: of the model, as of `model_folder`; its name is the model's.
        interface: of the model.

    Returns:
        The folder of the version.
    """
    contents = {f"bundle/{name}": data for name, data in files_of_bundle(open_bundle(bundle)).items()}
    code = files("pricekit.export").joinpath("triton_model.py.txt").read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / CONFIG).exists():
        write_text(folder / CONFIG, interface.configuration(folder.name))
    numbers = [int(path.name) for path in folder.iterdir() if re.fullmatch("[0-9]+", path.name)]
    version = folder / str(max(numbers, default=0) + 1)
    publish_folder(version, {"model.py": code, **contents})
    return version


@contextmanager
def adding_to_repository(
    repository: PathLike | None, bundle: Path, interface_of_model: Callable[[], Interface]
) -> Iterator[None]:
    """Add the bundle that the block exports to a model repository as a new version.

    Args:
        repository: the folder of the repository; None: it is added to none.
        bundle: the folder of the bundle, whose name the model has there.
        interface_of_model: returns the interface of the model, which may have to be opened.

    Raises:
        ExportError: another process writes this model, or the repository has another model of this name.
    """
    if repository is None:
        yield
        return
    interface = interface_of_model()
    folder = model_folder(path_of(repository, "triton"), bundle, interface)
    with owned(folder, "Triton model", ExportError):
        yield
        version = add_version(bundle, folder, interface)
    logger.info(f"the model for Triton is in {version}")
