"""Every check and demo of the project, each in an environment of its own."""

import os
import platform
import shutil
import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["tests", "sources", "runtime", "packages", "scaffold"]
nox.options.reuse_existing_virtualenvs = True
ROOT = Path(__file__).parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
EXTRAS = "train,cpu,excel,plots,report,sklearn,tune"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))

# Without bytecode, each process compiles all that it imports, which takes 9 to 26 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def install(session: nox.Session, *packages: str) -> None:
    """Install packages; Python compiles the modules that it imports, a small part of them, on first use."""
    session.install("--no-compile", *CONSTRAINTS, *packages)


def build(session: nox.Session, project: Path, folder: str) -> str:
    """Build a project's wheel; return its address."""
    before = set(Path(folder).glob("*.whl"))
    session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(project))
    (wheel,) = set(Path(folder).glob("*.whl")) - before
    return wheel.as_uri()


def install_program(session: nox.Session, program: str, package: str) -> None:
    """Install a program if a Debian system lacks it. Tests of pages need Chromium, pricekit-spark Java."""
    if shutil.which(program) is None and shutil.which("apt-get"):
        for words in (["update", "-q"], ["install", "-y", "-q", *package.split()]):
            session.run("apt-get", *words, external=True, success_codes=[0, 100])


def install_sources(session: nox.Session, *groups: str) -> None:
    """Install the sources and groups of dependencies in pyproject.toml."""
    install(
        session, "-e", ".[train,cpu]", *(nox.project.dependency_groups(PYPROJECT, *groups) if groups else ())
    )


def run_tests(session: nox.Session, marked: str, *paths: str) -> None:
    """Run tests in one single-threaded process per core: threads of several processes would wait for each other."""
    command = ("pytest", "-n", "logical", "--durations=25", "-m", marked)
    session.run(*command, *paths, env={"OMP_NUM_THREADS": "1"})


@nox.session
def demo(session: nox.Session) -> None:
    """Generate a catalogue, train, export, predict."""
    install_sources(session)
    session.run("pricekit", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite."""
    install_sources(session, "test")
    run_tests(session, "not slow and not examples", *(session.posargs or ["tests"]))


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests."""
    install_sources(session, "test")
    run_tests(session, "slow", *(session.posargs or ["tests"]))


def check_style(session: nox.Session) -> None:
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


def check_faults(session: nox.Session) -> None:
    session.run("python", "-m", "tests.faults.campaign", *session.posargs)


def check_pages(session: nox.Session) -> None:
    install_program(session, "chromium", "chromium")
    session.run("pytest", *(session.posargs or ["tests/report/test_page_browser.py"]))


def check_site(session: nox.Session) -> None:
    install_program(session, "chromium", "chromium")
    site = ROOT / "build" / "site"
    shutil.rmtree(site, ignore_errors=True)
    strict = ("-W", "--keep-going", "-n", "-q")
    session.run("python", "-m", "sphinx", *strict, "-c", "docs/site", ".", str(site))
    tests = session.posargs or ["tests/test_docs.py", "tests/test_site.py"]
    session.run("pytest", *tests, env={"PRICEKIT_SITE": str(site)})


def check_examples(session: nox.Session) -> None:
    run_tests(session, "examples", *(session.posargs or ["tests"]))


def check_remote(session: nox.Session) -> None:
    tests = session.posargs or ["-k", "storage or s3", "tests/io", "tests/predict/test_files_s3.py"]
    session.run("pytest", *tests)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the direction of imports."""
    install_sources(session, "lint", "test")
    check_style(session)


@nox.session
def faults(session: nox.Session) -> None:
    """Run the fault campaign: its short form, or what the arguments say, such as `-- --trials full --seed 1`."""
    install_sources(session, "test")
    check_faults(session)


@nox.session
def pages(session: nox.Session) -> None:
    """Test the HTML pages in Chromium, which is installed if a Debian system lacks it."""
    install_sources(session, "test", "pages")
    check_pages(session)


@nox.session
def examples(session: nox.Session) -> None:
    """Run the scripts, the demo, a benchmark, the notebook, the tutorials and the examples of docstrings."""
    install_sources(session, "test")
    check_examples(session)


@nox.session
def remote(session: nox.Session) -> None:
    """Test remote files with a server of S3 whose requests fail."""
    install_sources(session, "test", "s3")
    check_remote(session)


@nox.session
def docs(session: nox.Session) -> None:
    """Check the documents, build the site into build/site without a warning, and test it in Chromium."""
    install_sources(session, "test", "docs")
    check_site(session)


@nox.session
def sources(session: nox.Session) -> None:
    """Run `lint`, `examples`, `faults`, `pages`, `remote` and `docs` in one environment, to install once."""
    install_sources(session, "test", "lint", "pages", "s3", "docs")
    for check in (check_style, check_examples, check_faults, check_pages, check_remote, check_site):
        check(session)


@nox.session
def deploy(session: nox.Session) -> None:
    """Check the Dockerfile and the manifests, and do what they say as an unprivileged user."""
    install(session, *nox.project.dependency_groups(PYPROJECT, "deploy"))
    session.run("hadolint", "Dockerfile")
    session.run("yamllint", "--strict", "deploy")
    session.run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml")
    manifests = sorted(map(str, ROOT.glob("deploy/kubernetes/*.yaml")))
    session.run("kubernetes-validate", "--strict", *manifests)
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "venv", folder)
        kserve = f"{folder}/bin/python"
        session.run(kserve, "-m", "pip", "install", "--quiet", "kserve==0.21.0", "pytest", external=True)
        session.run(kserve, "-m", "pytest", "--noconftest", "tests/deploy/test_kserve.py", external=True)
        session.run("python", "deploy/rehearse.py", kserve)


@nox.session(reuse_venv=False)
def packages(session: nox.Session) -> None:
    """Run the tests of each package in plugins/ beside all others, from their wheels; `-- NAME` runs those of one."""
    names = [name for name in PACKAGES if name in session.posargs] or PACKAGES
    if "pricekit-fast" in names:
        install_program(session, "cc", "gcc libc6-dev")
    with tempfile.TemporaryDirectory() as folder:
        core = build(session, ROOT, folder)
        wheels = [f"{name} @ {build(session, ROOT / 'plugins' / name, folder)}" for name in names]
        groups = nox.project.dependency_groups(PYPROJECT, "test", "pages", "traces")
        install(session, f"pricekit[train,cpu] @ {core}", *wheels, *groups)
    if "pricekit-spark" in names:
        install_program(session, "java", "default-jre-headless")
    if "pricekit-sql" in names:
        install_program(session, "pg_ctlcluster", "postgresql")
    if "pricekit-serve" in names:
        install_program(session, "chromium", "chromium")
    run_tests(session, "", "--dist", "loadfile", *(f"plugins/{name}/tests" for name in names))


@nox.session(reuse_venv=False)
def release(session: nox.Session) -> None:
    """Build all packages into dist/, twice, check the files, and use them together in an environment of their own."""
    install(session, *nox.project.dependency_groups(PYPROJECT, "release"))
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "release/build.py", str(dist))
    wheels = sorted(map(str, dist.glob("*.whl")))
    session.run("twine", "check", "--strict", *wheels, *sorted(map(str, dist.glob("*.tar.gz"))))
    session.run("check-wheel-contents", *wheels)
    version = Path(next(name for name in wheels if "/pricekit-" in name)).name.split("-")[1]
    session.run("python", "release/notes.py", version, stdout=(dist / "NOTES.md").open("w"))
    session.run("python", "release/audit.py")
    with tempfile.TemporaryDirectory() as folder:
        session.run("python", "-m", "venv", folder)
        python = f"{folder}/bin/python"
        addresses = [
            f"{Path(wheel).name.split('-')[0].replace('_', '-')} @ {Path(wheel).as_uri()}"
            for wheel in wheels
            if wheel.endswith(("-any.whl", f"_{platform.machine()}.whl"))
        ]
        wanted = [text.replace("pricekit @", f"pricekit[{EXTRAS}] @") for text in addresses]
        session.run(
            python, "-m", "pip", "install", "--quiet", *CONSTRAINTS, "torch==2.13.0", *wanted, external=True
        )
        session.run(python, str(ROOT / "release/licences.py"), external=True)
        session.chdir(folder)  # outside of the sources
        session.run(python, str(ROOT / "release/smoke.py"), *PACKAGES, external=True)


@nox.session(reuse_venv=False)
def scaffold(session: nox.Session) -> None:
    """Write, install, check and use a new package of every kind, with the bare wheel of pricekit."""
    with tempfile.TemporaryDirectory() as folder:
        install(session, f"pricekit[train,cpu] @ {build(session, ROOT, folder)}", "pytest")
        session.chdir(folder)
        session.run("python", str(ROOT / "tests/cli/new_plugins.py"))


@nox.session(reuse_venv=False)
def runtime(session: nox.Session) -> None:
    """Predict from a bundle with the bare wheel, where torch is absent; load TensorRT for RTX without a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(session, ROOT, folder)
        install(session, f"pricekit[cpu] @ {wheel}")
        session.chdir(folder)  # outside of the sources, so that the installed wheel is tested
        session.run("python", str(ROOT / "tests/runtime/predict_without_torch.py"))
        if (platform.system(), platform.machine()) == (
            "Linux",
            "x86_64",
        ):  # there are no other wheels for Linux
            install(session, f"pricekit[tensorrt] @ {wheel}")
        session.run("python", str(ROOT / "tests/runtime/tensorrt_rtx_without_gpu.py"))


PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
