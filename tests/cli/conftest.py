import sys

import pytest

from pricekit.cli.main import main


@pytest.fixture
def pricekit(monkeypatch, capsys):
    """Run the command line and return exit code, stdout and stderr."""

    def run(*arguments):
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
