"""What several tests share: a small catalogue, a run trained on it, and its bundle."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pricekit.cli.main import main
from pricekit.config import RunConfig
from pricekit.core.configure import configure
from pricekit.datasets import make_catalog

TINY = {
    "backbone": {"name": "bag", "vocab_size": 1000, "buckets": 512, "width": 8, "members": 2},
    "training": {"epochs": 3, "learning_rate": 0.01},
    "max_length": 64,
}


def tiny_config(*layers: dict) -> RunConfig:
    """The policy quick with a model that trains in a second."""
    return configure([TINY, *layers])


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what engines remember out of the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 400 invented products."""
    path = tmp_path_factory.mktemp("tables") / "products.csv"
    make_catalog(400, seed=3).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def run(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; read only."""
    from pricekit.training.source import Source
    from pricekit.training.train import train

    out = tmp_path_factory.mktemp("runs") / "run"
    train(Source(catalog), tiny_config(), out)
    return out


@pytest.fixture(scope="session")
def bundle(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's bundle; read only."""
    from pricekit.export.export import export_run

    out = tmp_path_factory.mktemp("bundles") / "bundle"
    export_run(run, out)
    return out


@pytest.fixture
def pricekit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line and return exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["pricekit", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
