"""Every check and demo of the project, each in a separate environment."""

import shutil
import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["tests", "lint", "runtime", "packages", "scaffold", "pages", "docs"]
nox.options.reuse_existing_virtualenvs = True
ROOT = Path(__file__).parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))


def install(session: nox.Session, *packages: str) -> None:
    session.install(*CONSTRAINTS, *packages)


def build(session: nox.Session, project: Path, folder: str) -> str:
    """Build a project's wheel; return its address."""
    before = set(Path(folder).glob("*.whl"))
    session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(project))
    (wheel,) = set(Path(folder).glob("*.whl")) - before
    return wheel.as_uri()


def install_chromium(session: nox.Session) -> None:
    """Install Chromium if a Debian system lacks it; without it, the tests of pages are skipped."""
    if shutil.which("chromium") is None and shutil.which("apt-get"):
        for words in (["update", "-q"], ["install", "-y", "-q", "chromium"]):
            session.run("apt-get", *words, external=True, success_codes=[0, 100])


@nox.session
def demo(session: nox.Session) -> None:
    """Generate a catalogue, train, export, predict."""
    install(session, "-e", ".[train,cpu]")
    session.run("pricekit", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite."""
    install(session, "-e", ".[train,cpu]", *nox.project.dependency_groups(PYPROJECT, "test"))
    # One single-threaded process per core, because threads of several processes would wait for each other.
    one_thread = {"OMP_NUM_THREADS": "1"}
    session.run("pytest", "-n", "logical", "-m", "not slow", *(session.posargs or ["tests"]), env=one_thread)


@nox.session
def pages(session: nox.Session) -> None:
    """Test the HTML pages in Chromium, which is installed if a Debian system lacks it."""
    install_chromium(session)
    groups = nox.project.dependency_groups(PYPROJECT, "test", "pages")
    install(session, "-e", ".[train,cpu]", *groups)
    session.run("pytest", *(session.posargs or ["tests/reporting/test_page_browser.py"]))


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests."""
    install(session, "-e", ".[train,cpu]", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("pytest", "-m", "slow", *(session.posargs or ["tests"]))


@nox.session
def faults(session: nox.Session) -> None:
    """Run the fault campaign: its short form, or what the arguments say, such as `-- --trials full --seed 1`."""
    install(session, "-e", ".[train,cpu]", *nox.project.dependency_groups(PYPROJECT, "test"))
    session.run("python", "-m", "tests.faults.campaign", *session.posargs)


@nox.session(reuse_venv=False)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def packages(session: nox.Session, package: str) -> None:
    """Run the tests of a package in plugins/ from its built wheel."""
    with tempfile.TemporaryDirectory() as folder:
        core, plugin = (build(session, path, folder) for path in (ROOT, ROOT / "plugins" / package))
        groups = nox.project.dependency_groups(PYPROJECT, "test")
        install(session, f"pricekit[train,cpu] @ {core}", f"{package} @ {plugin}", *groups)
    session.run("pytest", f"plugins/{package}/tests", *session.posargs)


@nox.session(reuse_venv=False)
def scaffold(session: nox.Session) -> None:
    """Write, install, check and use a new package of every kind, with the bare wheel of pricekit."""
    with tempfile.TemporaryDirectory() as folder:
        install(session, f"pricekit[train,cpu] @ {build(session, ROOT, folder)}", "pytest")
        session.chdir(folder)
        session.run("python", str(ROOT / "tests/scaffold/new_plugins.py"))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    groups = nox.project.dependency_groups(PYPROJECT, "lint", "test")
    install(session, "-e", ".[train,cpu]", *groups)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(reuse_venv=False)
def runtime(session: nox.Session) -> None:
    """Predict from a bundle with the bare wheel, in an environment where torch is absent."""
    with tempfile.TemporaryDirectory() as folder:
        install(session, f"pricekit[cpu] @ {build(session, ROOT, folder)}")
        session.chdir(folder)  # outside of the sources, so that the installed wheel is tested
        session.run("python", str(ROOT / "tests/runtime/predict_without_torch.py"))


@nox.session
def docs(session: nox.Session) -> None:
    """Check the documents, build the site into build/site without a warning, and test it in Chromium."""
    install_chromium(session)
    install(session, "-e", ".[train,cpu]", *nox.project.dependency_groups(PYPROJECT, "test", "docs"))
    site = ROOT / "build" / "site"
    shutil.rmtree(site, ignore_errors=True)
    strict = ("-W", "--keep-going", "-n", "-q")
    session.run("python", "-m", "sphinx", *strict, "-c", "docs/site", ".", str(site))
    tests = session.posargs or ["tests/test_docs.py", "tests/test_site.py"]
    session.run("pytest", *tests, env={"PRICEKIT_SITE": str(site)})


PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
