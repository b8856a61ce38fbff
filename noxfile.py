"""Every check and demo of the project, each in an environment of its own."""

import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["tests", "lint", "runtime"]
nox.options.reuse_existing_virtualenvs = True
ROOT = Path(__file__).parent
PLUGINS = [part for path in sorted(ROOT.glob("plugins/*")) for part in ("-e", str(path))]
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))


def install(session: nox.Session, *packages: str) -> None:
    session.install(*CONSTRAINTS, *packages)


@nox.session
def demo(session: nox.Session) -> None:
    """Make a catalogue of invented products, train, export, predict."""
    install(session, "-e", ".[train,cpu]")
    session.run("pricekit", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite."""
    install(session, "-e", ".[train,cpu]", *PLUGINS, *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "-m", "not slow", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that take long."""
    install(session, "-e", ".[train,cpu]", *PLUGINS, *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    groups = nox.project.dependency_groups(PYPROJECT, "lint", "test")
    install(session, "-e", ".[train,cpu]", *PLUGINS, *groups)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(reuse_venv=False)
def runtime(session: nox.Session) -> None:
    """Predict from a bundle with the bare wheel, in an environment where torch is absent."""
    with tempfile.TemporaryDirectory() as folder:
        session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        install(session, f"pricekit[cpu] @ {wheel.as_uri()}")
        session.chdir(folder)  # away from the sources, so that the installed wheel is what is tested
        session.run("python", str(ROOT / "tests/runtime/predict_without_torch.py"))


@nox.session
def docs(session: nox.Session) -> None:
    """Check that the documents' links and commands exist."""
    install(session, "-e", ".[train,cpu]", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "tests/test_docs.py", *session.posargs)


PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
