"""Licences of dependencies, and the metadata of all packages of this project."""

import tomllib
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest

from release.licences import accepted, licence

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"License-Expression": "MIT", "License": "see LICENSE"}, "MIT"),
        ({"Classifier": "License :: OSI Approved :: BSD License", "License": "x"}, "BSD License"),
        ({"Classifier": "License :: OSI Approved", "License": "Apache 2.0\nlong text"}, "Apache 2.0"),
        ({}, ""),
    ],
)
def test_metadata_name_a_licence_in_several_ways(facts, expected):
    message = Message()
    for key, value in facts.items():
        message[key] = value
    assert licence(SimpleNamespace(metadata=message)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "MIT",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-3.0 OR MIT",
        "BSD License; MIT License",
        "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
        "ISC License (ISCL)",
        "MIT-CMU",
        "LGPLv3+",
        "GNU Library or Lesser General Public License (LGPL)",
    ],
)
def test_licences_that_let_others_pass_a_package_on(text):
    assert accepted(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPL-3.0-only",
        "MIT AND AGPL-3.0",
        "Proprietary",
        "MIT; Other",
        "Proprietary, limited use only",
        "AGPL-3.0 (see LIMITATIONS)",
        "GNU General Public License v3 with discipline clause",
        "GPLv2 with parts under MIT",
        "GNU Affero General Public License, MIT for examples",
        "GPL-3.0-only OR Proprietary",
    ],
)
def test_other_licences_are_for_a_person(text):
    assert not accepted(text)


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_all_packages_have_the_same_licence_and_pythons(project):
    core, facts = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"] for folder in (ROOT, project)
    )
    assert (project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (facts["license"], facts["license-files"]) == ("MIT", ["LICENSE"])
    assert facts["requires-python"] == core["requires-python"] == ">=3.11"
    pythons = [each for each in core["classifiers"] if "Python :: 3." in each]
    assert [each for each in facts["classifiers"] if "Python :: 3." in each] == pythons
    assert (project / facts["readme"]).is_file()
