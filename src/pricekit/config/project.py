"""The project file `pricekit.toml`: a table, its reading options, and settings for every command in its folder.

    [table]
    path = "shop.csv"        # relative to the project file
    decimal = ","

    [columns]
    text = ["title", "brand"]
    price = "eur"

    [policy]
    name = "fast"

All other sections are those of a configuration file. Configuration files and options override the project file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, ValidationError

from pricekit.config.layers import Layer, read_toml
from pricekit.config.settings import ColumnsConfig, RunConfig, Section
from pricekit.errors import ConfigError, explain_invalid
from pricekit.io.files import write_text
from pricekit.io.storage import Location, location_of
from pricekit.wording import did_you_mean

PROJECT_FILE = "pricekit.toml"
_HEADER = re.compile(r"^\s*\[([^\[\]]+)\]\s*(#.*)?$")


class TableSection(Section):
    """The table of a project and its reading options; pricekit detects those that are missing."""

    path: str = Field(
        min_length=1,
        description="file, relative to the project file, or an address such as s3://bucket/new.csv",
    )
    encoding: str | None = None
    delimiter: str | None = None
    columns: list[str] = Field([], description="names of all columns of a file without a header")
    decimal: str | None = None
    currency: str | None = None
    sheet: str | None = None
    price_unit: str | None = None
    sql: str | None = Field(
        None, description="file with the query of a database, relative to the project file"
    )


@dataclass(frozen=True)
class Project:
    """The content of a project file.

    Attributes:
        table: the table's path or address; None if the file names none.
        read_options: reading options of that table by parameter name: encoding, delimiter, columns, decimal, currency,
            price_unit, sheet, sql.
        settings: a layer of the configuration.
    """

    table: Location | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Layer = field(default_factory=dict)


def read_project(folder: Path = Path()) -> Project:
    """Read the project file of a folder; return an empty project if there is none.

    Raises:
        ConfigError: the file cannot be read, or has an unknown key or a value of the wrong type in `[table]`.

    Example:
        >>> from pathlib import Path
        >>> from pricekit.config.project import read_project
        >>> read_project(Path("a folder without a project file")).table is None
        True
    """
    path = folder / PROJECT_FILE
    if not path.is_file():
        return Project()
    content = read_existing(path)
    section = content.pop("table", None)
    _check_keys(path, content)
    if section is None:
        return Project(settings=content)
    values = {"path": section} if isinstance(section, str) else section
    try:
        table = TableSection.model_validate(values)
    except ValidationError as error:
        raise explain_invalid(error, f"{path}, [table]", TableSection.model_fields) from None
    place = location_of(table.path, "table")
    location = folder / place if isinstance(place, Path) else place
    return Project(location, table.model_dump(exclude={"path"}, exclude_defaults=True), content)


def update_project(
    path: Path,
    table: str,
    read_options: Mapping[str, Any],
    columns: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write the sections `[table]` and `[columns]` of a project file; the other lines of an existing file are kept.

    Args:
        path: the project file, existing or new.
        table: the path of the table, relative to the file.
        read_options: reading options by parameter name; those that are None or empty are left out.
        columns: text, price and id; those that are None or empty are left out.
        overwrite: replace sections that differ.

    Raises:
        ConfigError: the existing file is invalid, has other values in these sections, or writes them in a form that
            cannot be replaced.
        OSError: the file cannot be written.
    """
    new_sections = {"table": {"path": table, **read_options}, "columns": columns}
    sections = {name: {k: v for k, v in values.items() if v} for name, values in new_sections.items()}
    present = read_existing(path)
    if {name: present.get(name, {}) for name in sections} == sections:
        return
    if not overwrite and (differing := [name for name in sections if name in present]):
        raise ConfigError(
            f"{path} exists and has another [{'] and ['.join(differing)}]. Set overwrite to replace it, or choose "
            "another path.",
            parameters=("overwrite",),
        )
    old = path.read_text("utf-8") if path.is_file() else ""
    kept = _without_sections(old, tuple(sections)).rstrip("\n")
    new = (f"{kept}\n\n" if kept else "") + tomli_w.dumps(sections)
    _check_content(path, new, {**present, **sections})
    write_text(path, new)


def read_existing(path: Path) -> dict[str, Any]:
    """Return the content of a project file, {} if there is no file; raises ConfigError if it is invalid."""
    if not path.exists():
        return {}
    try:
        return read_toml(path)
    except ConfigError as error:  # no parameter names this file
        raise ConfigError(str(error), path=str(path)) from None


def _without_sections(text: str, names: tuple[str, ...]) -> str:
    """Return the lines of a TOML file without these sections and the comments in them."""
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if header := _HEADER.match(line):
            inside = header[1].strip() in names
        if not inside:
            kept.append(line)
    return "".join(kept)


def _check_content(path: Path, text: str, expected: Mapping[str, Any]) -> None:
    """Raise ConfigError if the edited text does not have the expected content."""
    try:
        agrees = tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        agrees = False
    if not agrees:
        raise ConfigError(
            f"{path} does not write its table and columns as the sections [table] and [columns], so they cannot be "
            "replaced. Delete those lines first, or choose another path."
        )


def _check_keys(path: Path, settings: Layer) -> None:
    """Raise ConfigError for an unknown section; the values are validated later, together with all other layers."""
    _require_known(settings, ["table", *RunConfig.model_fields], f"{path} has an unknown section")
    columns = settings.get("columns", {})
    if not isinstance(columns, Mapping):
        raise ConfigError(f"{path}: columns is not a section; write [columns]", section="columns")
    # `check` reads them without the other layers.
    _require_known(columns, list(ColumnsConfig.model_fields), f"{path}, [columns] has an unknown key")


def _require_known(keys: Iterable[str], known: Sequence[str], problem: str) -> None:
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, known) or f" Available: {', '.join(known)}."
            raise ConfigError(f"{problem} '{key}'.{hint}", section=key, candidates=known)
