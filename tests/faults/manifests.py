"""Random manifests and preprocess.json: a bundle opens, or one paragraph says why not."""

from __future__ import annotations

import shutil
from pathlib import Path

from pricekit.errors import BundleError, PluginError
from pricekit.predict.members import read_bundle
from pricekit.wording import printable
from tests.faults.campaign import Case
from tests.faults.grammar import RULES

TRIALS, SHORT = 2_500, 200
REQUIREMENT = "opens, or one paragraph"

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle"
NAMES = ("mutated manifest", "mutated preprocess", "columns", "features", "members", "outside")


def trial(case: Case) -> str:
    """Change a file of a bundle, and read the bundle."""
    bundle = Path(shutil.copytree(GOLDEN, case.folder / "bundle"))
    (case.folder / "secret").write_text("secret")
    RULES[case.random.choice(NAMES)](bundle, case.random)
    try:
        read_bundle(bundle)
    except (BundleError, PluginError) as error:
        message = str(error)
        assert printable(message) == message
        assert "\n" not in message, message
        assert len(message) < 2_500, message
        return type(error).__name__
    return "opened"
