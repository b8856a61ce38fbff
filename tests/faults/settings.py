"""Random settings, in every form in which a user gives them: a configuration, or one paragraph that says why not."""

from __future__ import annotations

import json
import math
import tomllib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from pricekit.config import RunConfig
from pricekit.config.layers import build_config
from pricekit.config.project import read_project
from pricekit.config.resolve import configure, explain
from pricekit.core.loader import registry
from pricekit.errors import PricekitError
from pricekit.options import config_of
from tests.faults.campaign import Case

TRIALS, SHORT = 2500, 300
REQUIREMENT = "a configuration that round-trips, or one paragraph; no foreign exception"

FORMS = ("mapping", "layers", "texts", "toml", "bytes", "project", "options")
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**70, 10**400, 0.0, -0.0, 1e-320, 1e308),
    *(
        math.inf,
        -math.inf,
        math.nan,
        "",
        " ",
        "a",
        "1",
        "0.5",
        "none",
        "true",
        "auto",
        "1h",
        "9" * 400,
        "\0",
        "\x1b[31m",
    ),
    *(
        "quick",
        "bag",
        "smape",
        "fast15,optimized22",
        "../..",
        "ä",
        "\ud800",
        [],
        [[]],
        [1],
        ["a", None],
        {},
        {"a": 1},
    ),
    *({"name": "bag"}, {"name": 5}, {"name": {}}, {"": 1}, b"x", (), {"name": "smape", "name ": 1}),
)
WORDS = (
    "=",
    ".",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "\n",
    "#",
    ",",
    "inf",
    "nan",
    "1979-05-27",
    "1_000",
    "0x1f",
    "\\u00e4",
)


@cache
def defaults() -> dict[str, Any]:
    """Return a valid value of each setting and plugin option, by dotted name."""
    found = dict(_dotted(configure([]).model_dump()))
    for kind in ("backbone", "loss", "policy"):
        found[f"{kind}.name"] = registry().of_kind(kind)[0].name
    return found


@cache
def names() -> tuple[str, ...]:
    """Return the dotted names of settings, those of plugins' options, and names that do not exist."""
    found = list(defaults())
    for kind in ("backbone", "loss", "policy"):
        for entry in registry().of_kind(kind):
            options = registry().resolve(kind, entry.name, {})
            found += [f"{kind}.{name}" for name in options]
    return (
        *found,
        "x",
        "training",
        "training.",
        ".epochs",
        "training.epoch",
        "loss.name.x",
        "a.b.c.d.e",
        "..",
        "",
    )


def _dotted(values: dict[str, Any], prefix: str = "") -> Any:
    for name, value in values.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")


def trial(case: Case) -> str:
    """Give random settings in one form; check that what resolves survives its TOML."""
    form = FORMS[case.number % len(FORMS)]
    try:
        config = _resolve(form, case.random, case.folder)
    except PricekitError as error:
        text = str(error)
        assert text.strip(), "an empty message"
        assert len(text) < 10_000, f"a message of {len(text)} characters"
        return f"{form} refused"
    written = config.to_toml()  # without None, which TOML lacks
    again = build_config([tomllib.loads(written)]).to_toml()
    assert again == written, f"{written}\nbecame\n{again}"
    return f"{form} accepted"


def _resolve(form: str, random: Random, folder: Path) -> RunConfig:
    if form == "mapping":
        found = config_of(
            {"settings": {random.choice(names()): _value(random) for _ in range(random.randint(1, 3))}}
        )
    elif form == "layers":
        layers = [_layer(random) for _ in range(random.randint(1, 3))]
        found = configure(layers)
        assert explain([(str(number), layer) for number, layer in enumerate(layers)])
    elif form == "texts":
        found = config_of({"settings": [_text(random) for _ in range(random.randint(1, 3))]})
    elif form == "options":
        keys = (
            "policy",
            "backbone",
            "features",
            "loss",
            "max_length",
            "seed",
            "epochs",
            "time_budget",
            "text",
            "price",
        )
        found = config_of({key: _value(random, key) for key in random.sample(keys, random.randint(1, 3))})
    else:
        path = folder / ("pricekit.toml" if form == "project" else "settings.toml")
        path.write_bytes(_toml(random, form == "bytes"))
        found = config_of({"config": path}) if form != "project" else _of_project(folder)
    assert isinstance(found, RunConfig)
    return found


def _of_project(folder: Path) -> RunConfig:
    return configure([read_project(folder).settings])


def _value(random: Random, name: str = "") -> Any:
    """Return an odd value, or for a known setting usually one that may be valid."""
    known = defaults().get(name)
    if known is None or random.random() < 0.3:
        return random.choice([*ODD, random.randint(-5, 500), random.random(), random.choice(names())])
    if isinstance(known, bool):
        return random.random() < 0.5
    if isinstance(known, int | float):
        return type(known)(abs(known) * random.choice([0.5, 1, 2, 3]))
    kind, _, part = name.partition(".")
    if part == "name":
        return random.choice([entry.name for entry in registry().of_kind(kind)])
    return known


def _layer(random: Random) -> dict[str, Any]:
    """Return a nested table with some settings."""
    layer: dict[str, Any] = {}
    for _ in range(random.randint(1, 4)):
        name = random.choice(names())
        *tables, last = name.split(".")
        table = layer
        for part in tables:
            inner = table.get(part)
            table[part] = inner if isinstance(inner, dict) else {}
            table = table[part]
        table[last] = _value(random, name)
    return layer


def _text(random: Random) -> str:
    """Return something like `training.epochs=20`."""
    name = random.choice(names())
    text = f"{name}={random.choice([str, repr, json.dumps])(_plain(_value(random, name)))}"
    for _ in range(random.choice([0, 0, 0, 1, 3])):
        place = random.randint(0, len(text))
        text = text[:place] + random.choice(WORDS) + text[place + random.randint(0, 2) :]
    return text


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, bytes | tuple):
        return repr(value)
    return "inf" if isinstance(value, int) and abs(value) > 1e300 else value


def _toml(random: Random, damaged: bool) -> bytes:
    """Return a valid configuration with some lines replaced, and some bytes if it is to be damaged."""
    lines = RunConfig().to_toml().splitlines()
    for _ in range(random.randint(1, 3)):
        number = random.randrange(len(lines))
        name = lines[number].partition(" = ")[0]
        full = next((known for known in names() if known.endswith(f".{name}")), name)
        value = json.dumps(_plain(_value(random, full)))
        lines[number] = random.choice([_text(random), f"{name} = {value}", f"{name} = {value}"])
    content = bytearray("\n".join(lines).encode("utf-8", "surrogatepass"))
    for _ in range(random.randint(1, 6) if damaged else 0):
        content[random.randrange(len(content))] = random.randrange(256)
    return bytes(content)
