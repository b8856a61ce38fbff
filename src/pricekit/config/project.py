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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, ValidationError

from pricekit.config.layers import Layer, read_toml
from pricekit.config.settings import ColumnsConfig, RunConfig, Section
from pricekit.errors import ConfigError, explain_invalid
from pricekit.support.text import did_you_mean

PROJECT_FILE = "pricekit.toml"


class TableSection(Section):
    """The table of a project and its reading options; pricekit detects those that are missing."""

    path: str = Field(min_length=1, description="file, relative to the project file")
    encoding: str | None = None
    delimiter: str | None = None
    columns: list[str] = Field([], description="names of all columns of a file without a header")
    decimal: str | None = None
    currency: str | None = None


@dataclass(frozen=True)
class Project:
    """The content of a project file.

    Attributes:
        table: the table's path; None if the file names none.
        read_options: reading options of that table by parameter name: encoding, delimiter, columns, decimal, currency.
        settings: a layer of the configuration.
    """

    table: Path | None = None
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
    try:
        content = read_toml(path)
    except ConfigError as error:  # no parameter names this file
        raise ConfigError(str(error), path=str(path)) from None
    section = content.pop("table", None)
    _check_keys(path, content)
    if section is None:
        return Project(settings=content)
    table = _table_section(path, section)
    return Project(folder / table.path, table.model_dump(exclude={"path"}, exclude_defaults=True), content)


def project_toml(table: str, read_options: Mapping[str, Any], columns: Mapping[str, Any]) -> str:
    """Return the content of a project file, without values that are None or empty."""
    sections = {"table": {"path": table, **read_options}, "columns": columns}
    return tomli_w.dumps(
        {
            name: {k: v for k, v in values.items() if v}
            for name, values in sections.items()
            if any(values.values())
        }
    )


def _table_section(path: Path, section: Any) -> TableSection:
    given = {"path": section} if isinstance(section, str) else section
    try:
        return TableSection.model_validate(given)
    except ValidationError as error:
        raise explain_invalid(error, f"{path}, [table]", TableSection.model_fields) from None


def _check_keys(path: Path, settings: Layer) -> None:
    """Raise ConfigError for an unknown section; the values are validated later, together with all other layers."""
    known = ["table", *RunConfig.model_fields]
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known) or f" Available: {', '.join(known)}."
            raise ConfigError(f"{path} has an unknown section '{key}'.{hint}", section=key, candidates=known)
    columns = settings.get("columns", {})
    if not isinstance(columns, Mapping):
        raise ConfigError(f"{path}: columns is not a section; write [columns]", section="columns")
    for key in columns:  # `check` and `features` read them without the other layers
        if key not in (known := list(ColumnsConfig.model_fields)):
            hint = did_you_mean(key, known) or f" Available: {', '.join(known)}."
            raise ConfigError(f"{path}, [columns] has an unknown key '{key}'.{hint}", candidates=known)
