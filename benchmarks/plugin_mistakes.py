"""Tries plugins with deliberate mistakes, and correct ones, as an author would, and says what became of each.

    python benchmarks/plugin_mistakes.py [--kind KIND] [--only NAME] [--jobs 2] [--all] [--check]

The plugins are the cells of benchmarks/mistakes/KIND.py.txt. Each becomes a file of its own. `pricekit plugins check`
tries it; if that passes, a model is trained, exported and asked for prices, each step in a process with another hash
seed. A mistake ends in one of these ways:

    found by check       `plugins check` fails
    refused              train, export or predict fails, and the error names the plugin
    warned               all prices are right, and a warning names the plugin
    harmless             all prices are right
    named late           an error does not name the plugin, is unexpected, or a command does not end
    SILENTLY WRONG       a command succeeds, and prices are wrong

Prices are right if a row has the same price alone, in a small table, in a large one, in another order, in another
process and folder, and from the run in torch; if the SMAPE on the validation rows is the promised one, and that on new
rows about as high; and if an engine agrees with `ort-cpu`. A resumed training must give the metrics of one without an
interruption. A loss that aims at a quantile must be above this share of the prices. So "harmless" does not mean that
the model is good: it is as good as training says.

The exit code is 1 if a mistake is silently wrong, or if a correct plugin is refused or warned about.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from pricekit.datasets import make_catalog

KINDS = ("feature", "engine", "loss", "policy", "backbone")
SOURCES = Path(__file__).parent / "mistakes"

FOUND, REFUSED, WARNED, HARMLESS = "found by check", "refused", "warned", "harmless"
LATE, SILENT = "named late", "SILENTLY WRONG"
OUTCOMES = (FOUND, REFUSED, WARNED, HARMLESS, LATE, SILENT)

HANGS_SECONDS = 90
TRAIN_ROWS, VALID_ROWS, NEW_ROWS, SMALL_ROWS = 800, 1000, 8000, 200
EQUAL = 1e-3
"""Largest relative difference of prices of the same row; other shapes of batches change float32 by 1e-5."""
ENGINE = 0.02
"""Largest relative difference from `ort-cpu`, as pricekit promises."""
SAME_ROWS, OTHER_ROWS, COVERAGE = 0.05, 5.0, 0.1
"""Largest differences from the promised SMAPE, on the same rows and on others, and from a quantile."""

SHORT = ("--features", "optimized22", "--epochs", "3")
BAG = ("--set", "backbone.vocab_size=2000", "--set", "backbone.members=1")

STOP = """
import os, signal
from pricekit import plugin

@plugin.hookimpl
def pricekit_epoch_ended(folder, record):
    if record["epoch"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
"""
"""A file that interrupts a training in its second epoch."""

ODD_ROWS = (
    ("", "", "", "", ""),
    ("no lines", "n/a", "none", "?", "yesterday"),
    ("Item Name: 緑茶 \U0001f375\nValue: .\nUnit: None", "0", "-3", "BLUE", "2024-13-45"),
    ("Item Name: " + 400 * "tea ", "1e9", "inf", "green\n", "01.02.2023"),
    ("Value: 1e999", "-5", "0", "\u00a0", "2024-01-01"),
)
"""Texts of new rows, and their cost, stock, colour and date."""


@dataclass(frozen=True)
class Plugin:
    """A cell of a file of plugins.

    Attributes:
        kind: feature, engine, loss, policy or backbone.
        name: what the decorator says.
        right: it has no mistake.
        about: what it is, or what is wrong.
        source: of its own file.
        coverage: the share of true prices that its prices are above; None for losses that aim at a middle price.
    """

    kind: str
    name: str
    right: bool
    about: str
    source: str
    coverage: float | None = None


def plugins_of(kind: str) -> list[Plugin]:
    """Return the plugins of benchmarks/mistakes/KIND.py.txt; each gets the lines before the first cell."""
    head, *cells = (SOURCES / f"{kind}.py.txt").read_text("utf-8").split("\n# %% ")
    found = []
    for cell in cells:
        title, _, code = cell.partition("\n")
        label, _, about = title.partition(": ")
        right, _, coverage = label.partition(", coverage ")
        name = re.findall(rf'@plugin\.{kind}\("([a-z0-9-]+)"\)', code)[0]
        share = float(coverage) if coverage else None
        found.append(Plugin(kind, name, right == "right", about, f"{head}\n{code}", share))
    return found


@dataclass(frozen=True)
class Call:
    """A command that has ended.

    Attributes:
        code: the exit code; None if it did not end.
        out: what it wrote on stdout.
        lines: what it logged.
        other: what it wrote on stderr besides.
    """

    code: int | None
    out: str
    lines: list[dict[str, object]]
    other: str

    def messages(self, *levels: str) -> str:
        """Return the messages of these levels, and facts that name a plugin."""
        return "; ".join(
            f"{line['message']} {line.get('facts', '')}" for line in self.lines if line["level"] in levels
        )


class Ended(Exception):  # noqa: N818
    """The trial of a plugin ends here, with an outcome and its reason."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


@dataclass
class Tables:
    """Tables that all trials use.

    Attributes:
        folder: contains them.
        new: the rows of new.csv with the columns `price`, `part` (valid, new or odd).
        alone: the ids of rows that have files of their own.
        bundle: of a built-in model, for engines.
        expected: prices of `ort-cpu` for that bundle, by id.
    """

    folder: Path
    new: pd.DataFrame
    alone: list[int]
    bundle: Path
    expected: pd.Series = field(default_factory=pd.Series)


def catalogue(rows: int, seed: int) -> pd.DataFrame:
    """Return generated products with more columns: their cost, stock, colour and date, some of which are missing."""
    table, rng = make_catalog(rows, seed), np.random.default_rng([seed, 7])
    cost = table["price"] * np.exp(rng.standard_normal(rows)) * 0.6
    table["cost"] = cost.round(2).mask(rng.random(rows) < 0.1)
    table["stock"] = rng.integers(1, 200, rows)
    table["colour"] = rng.choice(["red", "green", "blue", "black"], rows, p=[0.4, 0.3, 0.2, 0.1])
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, rows), "D")
    table["added"] = np.where(rng.random(rows) < 0.2, days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%d"))
    return table


def write_tables(folder: Path) -> Tables:
    """Write the tables: for training, validation and new rows in several forms."""
    more = ["cost", "stock", "colour", "added"]
    odd = pd.DataFrame(ODD_ROWS, columns=["catalog_content", *more]).assign(part="odd", price=np.nan)
    valid, others = catalogue(VALID_ROWS, 2), catalogue(NEW_ROWS, 3)
    small = others.head(SMALL_ROWS)
    parts = [valid.assign(part="valid"), others.assign(part="new")]
    new = pd.concat([*(part.astype({"cost": "str", "stock": "str"}) for part in parts), odd])
    new = new.replace({"cost": {"nan": ""}}).sample(frac=1, random_state=4, ignore_index=True)
    new["sample_id"] = np.arange(len(new))
    catalogue(TRAIN_ROWS, 1).to_csv(folder / "train.csv", index=False)
    valid.to_csv(folder / "valid.csv", index=False)
    rows = new.drop(columns=["price", "part"])
    rows.to_csv(folder / "new.csv", index=False)
    rows.sample(frac=1, random_state=5).to_csv(folder / "shuffled.csv", index=False)
    # The ids of the small table are those of the same rows in the large one; its cells are numbers.
    ids = new.loc[new["part"] == "new"].set_index("catalog_content")["sample_id"].groupby(level=0).first()
    small = small[~small["catalog_content"].duplicated()].copy()
    both = new.set_index("sample_id").loc[ids[small["catalog_content"]]]
    same = (both["stock"].to_numpy() == small["stock"].astype("str").to_numpy()) & (
        both["added"].to_numpy() == small["added"].to_numpy()
    )
    small["sample_id"] = ids[small["catalog_content"]].to_numpy()
    small = small[same].drop(columns="price")
    small.to_parquet(folder / "small.parquet", index=False)
    small.drop(columns=more).to_csv(folder / "bare.csv", index=False)
    odd_place = int(new.index[new["catalog_content"].str.contains("緑茶", na=False)][0])
    alone = [odd_place, int(small["sample_id"].iloc[3]), len(new) - 1]
    for place in alone:
        rows.iloc[[place]].to_csv(folder / f"alone-{place}.csv", index=False)
    return Tables(folder, new, alone, folder / "bundle")


class Trial:
    """One plugin in a folder of its own."""

    def __init__(self, plugin: Plugin, folder: Path, tables: Tables) -> None:
        self.plugin, self.folder, self.tables = plugin, folder, tables
        self.warnings: list[str] = []
        self.seed = 0
        (folder / "elsewhere").mkdir(parents=True)
        (folder / "mine.py").write_text(plugin.source, "utf-8")

    def call(self, *words: object, where: str = ".") -> Call:
        """Run a command of pricekit in a folder, with another hash seed each time."""
        self.seed += 1
        environment = os.environ | {"PYTHONHASHSEED": str(self.seed), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pricekit", *map(str, words)]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder / where,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=HANGS_SECONDS,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, out, err = None, _text(error.stdout), _text(error.stderr)
        lines, other = [], []
        for line in err.splitlines():
            try:
                lines.append(dict(json.loads(line)))
            except ValueError:
                other.append(line)
        call = Call(code, out, lines, "\n".join(other))
        if self.plugin.name in (warnings := call.messages("warning")):
            self.warnings.append(warnings)
        return call

    def succeed(self, stage: str, *words: object, where: str = ".") -> Call:
        """Run a command that logs JSON; raise `Ended` if it fails."""
        call = self.call(*words, "--log-format", "json", where=where)
        if call.code is None:
            raise Ended(WARNED if self.warnings else LATE, f"{stage} does not end")
        if call.code:
            error = call.messages("error") or call.other[-300:] or call.out[-300:]
            named = self.plugin.name in error and call.code in (1, 2, 3) and "unexpected error" not in error
            reason = f"{stage}, exit code {call.code}: {error}"
            raise Ended(REFUSED if named else LATE, reason)
        return call

    def check(self) -> None:
        """Raise `Ended` if `plugins check` fails."""
        call = self.call("plugins", "check", "mine.py")
        if call.code is None:
            raise Ended(LATE, "check does not end")
        if call.code:
            failures = re.findall(r"^  FAILED +(.*)", call.out + call.other, re.MULTILINE)
            text = "; ".join(failures) or call.other.strip()[-300:]
            raise Ended(LATE if "unexpected error" in text else FOUND, text)

    def use(self) -> None:
        """Train, export and predict; raise `Ended` if something fails or is wrong."""
        if self.plugin.kind == "engine":
            self._prices(self.tables.bundle, "--plugin", "../mine.py", "--engine", self.plugin.name)
            return
        self.succeed("train", *self._train(), "--out", "run")
        if self.plugin.kind in ("loss", "policy"):
            self._resume()
        self.succeed("export", "export", "run", "--out", "bundle", "--plugin", "mine.py")
        needed = ("--plugin", "../mine.py") if self.plugin.kind == "feature" else ()
        prices = self._prices("../bundle", *needed, "--engine", "ort-cpu")
        self._run_in_torch(prices)
        self._keeps_promise(prices)

    def _train(self) -> list[object]:
        name = self.plugin.name
        words: dict[str, tuple[str, ...]] = {
            "feature": ("--features", f"optimized22,{name}", "--epochs", "3", *BAG),
            "loss": ("--loss", name, "--features", "optimized22,trees", "--epochs", "4", *BAG),
            "policy": ("--policy", name),
            "backbone": ("--backbone", name, *SHORT, "--max-length", "128"),
        }
        more = (*words[self.plugin.kind], "--plugin", "mine.py", "--no-refit")
        return [*self._table(), *more]

    def _table(self) -> list[object]:
        return ["train", self.tables.folder / "train.csv", "--valid", self.tables.folder / "valid.csv"]

    def _resume(self) -> None:
        (self.folder / "stop.py").write_text(STOP)
        self.call(*self._train(), "--out", "stopped", "--plugin", "stop.py")
        self.succeed("resume", *self._table(), "--out", "stopped", "--resume", "--plugin", "mine.py")
        whole, resumed = (_scores(self.folder / name) for name in ("run", "stopped"))
        if whole != resumed:
            raise Ended(
                SILENT,
                f"a resumed training ends at SMAPE {resumed[-1]:.3f}, and a whole one at {whole[-1]:.3f}",
            )

    def _prices(self, model: object, *words: object) -> pd.Series:
        """Return the prices of the large table; raise `Ended` if another form of a row has another price."""
        tables = self.tables.folder
        large = self.predict(model, tables / "new.csv", *words)
        if len(large) != len(self.tables.new) or not np.isfinite(large).all():
            raise Ended(SILENT, f"{np.isfinite(large).sum():,} prices for {len(self.tables.new):,} rows")
        self.require_equal("in another order", self.predict(model, tables / "shuffled.csv", *words), large)
        for place in self.tables.alone:
            self.require_equal("alone", self.predict(model, tables / f"alone-{place}.csv", *words), large)
        small = ("predict", model, tables / "small.parquet", *words, "--out", "-")
        call = self.succeed("predict", *small, where="elsewhere")
        try:
            few = pd.read_csv(io.StringIO(call.out)).set_index("sample_id")["price"].astype(np.float64)
        except (ValueError, KeyError):
            raise Ended(SILENT, f"stdout is no CSV: it begins with {call.out[:40]!r}") from None
        self.require_equal("in a small table", few, large)
        if self.plugin.kind == "engine":
            self.require_equal("with ort-cpu", large, self.tables.expected, ENGINE)
        elif self.plugin.kind == "feature" and "table.frame" in self.plugin.source:
            self._refuses_bare(model, words, large)
        return large

    def _refuses_bare(self, model: object, words: tuple[object, ...], large: pd.Series) -> None:
        """A table without the columns is refused, or its prices are the same."""
        try:
            bare = self.predict(model, self.tables.folder / "bare.csv", *words)
        except Ended as error:
            if error.outcome == REFUSED or re.search("column '?(cost|stock|colour|added)", error.reason):
                return
            raise
        self.require_equal("in a table without the column", bare, large)

    def predict(self, model: object, table: Path, *words: object) -> pd.Series:
        """Return the prices that `predict` writes in another folder, by id."""
        out = self.folder / "elsewhere" / "prices.csv"
        self.succeed("predict", "predict", model, table, *words, "--out", out.name, where="elsewhere")
        return pd.read_csv(out).set_index("sample_id")["price"].astype(np.float64)

    def require_equal(
        self, form: str, prices: pd.Series, expected: pd.Series, tolerance: float = EQUAL
    ) -> None:
        """Raise `Ended` if prices, by id, differ from the expected ones."""
        times = np.exp(np.abs(np.log(prices / expected[prices.index])))
        if wrong := int((~(times <= 1 + tolerance)).sum()):
            raise Ended(
                SILENT, f"{form}: {wrong:,} of {len(prices):,} rows differ, up to {times.max():.3f} times"
            )

    def _run_in_torch(self, prices: pd.Series) -> None:
        table = self.tables.folder / "small.parquet"
        self.require_equal("from the run", self.predict("../run", table, "--plugin", "../mine.py"), prices)

    def _keeps_promise(self, prices: pd.Series) -> None:
        promised = json.loads((self.folder / "run" / "run.json").read_text())["metrics"]["smape"]
        new = self.tables.new.set_index("sample_id")
        error = 200 * (prices - new["price"]).abs() / (prices + new["price"])
        for part, tolerance in (("valid", SAME_ROWS), ("new", OTHER_ROWS)):
            delivered = error[new["part"] == part].mean()
            if not abs(delivered - promised) <= tolerance:
                raise Ended(
                    SILENT, f"SMAPE {promised:.2f} promised, {delivered:.2f} delivered on {part} rows"
                )
        if (aim := self.plugin.coverage) is not None:
            above = (prices >= new["price"])[new["part"] == "new"].mean()
            if abs(above - aim) > COVERAGE:
                raise Ended(SILENT, f"{above:.0%} of the true prices are below the price, not {aim:.0%}")
        raise Ended(HARMLESS, f"SMAPE {promised:.1f}")


def _text(output: str | bytes | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


def _scores(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["valid_smape"] for line in sorted(lines, key=lambda line: line["epoch"])]


def try_plugin(plugin: Plugin, root: Path, tables: Tables, *, all_steps: bool, only_check: bool) -> Ended:
    """Return the outcome of a plugin; with `all_steps` the reason also says what would happen without the check."""
    trial = Trial(plugin, root / plugin.name, tables)
    checked = None
    try:
        trial.check()
    except Ended as error:
        if not all_steps:
            return error
        checked = error
    if only_check:
        return checked or Ended(HARMLESS, "not tried beyond the check")
    try:
        trial.use()
        end = Ended(HARMLESS, "")
    except Ended as error:
        end = error
    if end.outcome == HARMLESS and trial.warnings:
        end = Ended(WARNED, trial.warnings[0])
    if checked is None:
        return end
    return Ended(checked.outcome, f"without the check: {end.outcome}, {end.reason}; {checked.reason}")


def train_for_engines(tables: Tables) -> None:
    """Train and export the model that engines run, and price the new rows with ort-cpu."""
    trial = Trial(Plugin("engine", "ort-cpu", True, "", ""), tables.folder / "built-in", tables)
    train = ("train", tables.folder / "train.csv", "--valid", tables.folder / "valid.csv", *SHORT, *BAG)
    trial.succeed("train", *train, "--no-refit", "--out", "run")
    trial.succeed("export", "export", "run", "--out", tables.bundle)
    tables.expected = trial.predict(tables.bundle, tables.folder / "new.csv", "--engine", "ort-cpu")


def outcomes(
    plugins: list[Plugin], *, jobs: int, all_steps: bool, only_check: bool
) -> Iterator[tuple[Plugin, Ended, float]]:
    """Yield each plugin with its outcome and its seconds, in order."""

    def timed(plugin: Plugin) -> tuple[Plugin, Ended, float]:
        began = time.monotonic()
        end = try_plugin(plugin, root, tables, all_steps=all_steps, only_check=only_check)
        return plugin, end, time.monotonic() - began

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(jobs) as pool:
        root = Path(name)
        (root / "tables").mkdir()
        tables = write_tables(root / "tables")
        if any(plugin.kind == "engine" for plugin in plugins) and not only_check:
            train_for_engines(tables)
        yield from pool.map(timed, plugins)


def is_bad(plugin: Plugin, outcome: str) -> bool:
    """Return whether a mistake is silently wrong, or a correct plugin anything but right."""
    return outcome != HARMLESS if plugin.right else outcome == SILENT


def main() -> None:
    """Parse the command line, try the plugins and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, help="of the plugins; all kinds by default")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of plugins")
    parser.add_argument("--jobs", type=int, default=1, help="plugins at a time")
    parser.add_argument("--all", action="store_true", help="train also with what the check refuses")
    parser.add_argument("--check", action="store_true", help="only the check")
    parser.add_argument("--right", action="store_true", help="only correct plugins")
    options = parser.parse_args()
    plugins = [plugin for kind in KINDS if options.kind in (None, kind) for plugin in plugins_of(kind)]
    if options.only:
        plugins = [plugin for plugin in plugins if plugin.name in options.only]
    if options.right:
        plugins = [plugin for plugin in plugins if plugin.right]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    bad = 0
    tried = outcomes(plugins, jobs=options.jobs, all_steps=options.all, only_check=options.check)
    for plugin, end, seconds in tried:
        label = (
            end.outcome if not plugin.right else "right" if end.outcome == HARMLESS else f"BAD, {end.outcome}"
        )
        reason = " ".join(re.sub(r"\S*/mine.py", "mine.py", end.reason).split())[:300]
        print(f"{plugin.kind:9}{plugin.name:28}{label:20}{seconds:4.0f} s  {reason}", flush=True)
        counts[plugin.kind]["right" if label == "right" else "refused right" if plugin.right else label] += 1
        bad += is_bad(plugin, end.outcome)
    counts["all"] = sum(counts.values(), Counter())
    columns = [*OUTCOMES, "right", "refused right"]
    print("\n" + "kind".ljust(9), *columns, sep="  ")
    for kind, some in counts.items():
        print(kind.ljust(9), *(str(some[name]).rjust(len(name)) for name in columns), sep="  ")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
