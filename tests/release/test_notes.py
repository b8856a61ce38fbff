import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricekit import __version__
from release.notes import CHANGELOG, notes

NUMBERS = st.tuples(*[st.integers(0, 30)] * 3).map(lambda parts: ".".join(map(str, parts)))


def test_the_changelog_has_notes_of_this_version():
    text = CHANGELOG.read_text("utf-8")
    found = notes(text, __version__)
    assert found.startswith("The first release.")
    assert "\n## " not in found
    assert found.strip() in text


@given(st.lists(NUMBERS, min_size=1, max_size=5, unique=True), st.data())
def test_each_version_has_its_own_section(versions, data):
    bodies = {
        version: f"- Change of {number}.\n\n### Part\n\n- More." for number, version in enumerate(versions)
    }
    text = (
        "# Changelog\n\n" + "\n\n".join(f"## {version}\n\n{body}" for version, body in bodies.items()) + "\n"
    )
    version = data.draw(st.sampled_from(versions))
    assert notes(text, version) == bodies[version] + "\n"


@pytest.mark.parametrize("text", ["# Changelog\n", "## 0.2.01\n\n- A.\n", "## 0.2.0\n\n## 0.1.0\n\n- A.\n"])
def test_a_version_without_notes_is_refused(text, raises):
    with raises(ValueError):
        notes(text, "0.2.0")
