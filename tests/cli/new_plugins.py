"""Create a new package of every kind that `plugins new` knows.

Runs in an environment with the wheel and its extras train and cpu.

Each is written by `plugins new`, installed, checked, and passes its own tests; a model trained with it exports and
prices a table where torch cannot be imported.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from pricekit.datasets import make_catalog

USE = {
    "feature": ["--features", "fast15,my-feature"],
    "backbone": ["--backbone", "my-backbone"],
    "loss": ["--loss", "my-loss"],
    "policy": ["--policy", "my-policy"],
    "engine": [],
}
WITHOUT_TORCH = """
import sys
sys.modules |= {"torch": None, "transformers": None}
from pricekit.cli.main import main
main()
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "products.csv"
        make_catalog(300, seed=2).to_csv(table, index=False)
        for kind in USE:
            new_plugin(Path(folder), kind, f"my-{kind}", table)
    print(f"a new plugin of each kind works: {', '.join(USE)}")


def new_plugin(folder: Path, kind: str, name: str, table: Path) -> None:
    run(folder, "pricekit", "plugins", "new", kind, name)
    run(folder, sys.executable, "-m", "pip", "install", "--quiet", "-e", name)
    run(folder, "pricekit", "plugins", "check", name)
    run(folder / name, sys.executable, "-m", "pytest", "-q", "-W", "error")
    trained, bundle, prices = (folder / f"{kind}-{what}" for what in ("run", "bundle", "prices.csv"))
    run(folder, "pricekit", "train", table, "--out", trained, *USE[kind], "--epochs", "10", "--quiet")
    run(folder, "pricekit", "export", trained, "--out", bundle)
    engine = "my-engine" if kind == "engine" else "ort-cpu"
    predict = ["predict", bundle, table, "--out", prices, "--engine", engine]
    run(folder, sys.executable, "-c", WITHOUT_TORCH, *predict)
    assert len(prices.read_text("utf-8").splitlines()) == 301


def run(folder: Path, program: str | Path, *arguments: str | Path) -> None:
    if program == "pricekit":
        program = Path(sys.executable).with_name("pricekit")
    subprocess.run([program, *arguments], check=True, cwd=folder)


if __name__ == "__main__":
    main()
