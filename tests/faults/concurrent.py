"""Two or three commands on one output, or one that reads what another one replaces."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.campaign import Case
from tests.faults.commands import Command, Ended, succeed
from tests.faults.models import (
    assert_equal_files,
    assert_equal_runs,
    assert_equal_weights,
    assert_nothing_left,
    command_of,
    write_table,
)

TRIALS, SHORT = 60, 9
REQUIREMENT = "one proceeds, the others explain; files are never mixed"

OTHER = ("--set", "backbone.vocab_size=400", "--seed", "5")
"""Options of a second training, which has other weights and another tokenizer."""


@dataclass(frozen=True)
class Meeting:
    """Commands that meet.

    Attributes:
        commands: the words of each command, and the folder with the result that it has alone.
        given: what is copied into the folder first, from a folder of the shared one.
        compare: raises AssertionError unless a folder has the same result as another one.
    """

    commands: tuple[tuple[list[str], str], ...]
    compare: Callable[[Path, Path], None]
    given: tuple[str, ...] = ()


def _same_run(one: Path, other: Path) -> None:
    assert_equal_runs(one / "run", other / "run")
    assert_equal_files(one, other, "run/tokenizer.json", "run/preprocess.json", "run/config.toml")


def _same_cv(one: Path, other: Path) -> None:
    for fold in ("fold-0", "fold-1"):
        assert_equal_runs(one / "cv" / fold, other / "cv" / fold)
        assert_equal_files(one, other, f"cv/{fold}/tokenizer.json", f"cv/{fold}/sample.parquet")
    assert_equal_files(one, other, "cv/held_out.parquet", "cv/cv.toml", "cv/folds.parquet")


def _same_bundle(one: Path, other: Path) -> None:
    assert_equal_files(
        one, other, *(f"bundle/{name}" for name in ("model.onnx", "tokenizer.json", "preprocess.json"))
    )
    succeed("bundle", "inspect", one / "bundle", folder=one)


def _same_prices(one: Path, other: Path) -> None:
    assert_equal_files(one, other, "prices.csv")


def _same_pretraining(one: Path, other: Path) -> None:
    assert_equal_weights(one / "weights/model.safetensors", other / "weights/model.safetensors")
    assert_equal_files(one, other, "weights/tokenizer.json")


def _meetings() -> dict[str, Meeting]:
    train, cv, predict = command_of("train"), command_of("cv"), command_of("predict")
    trains = (train, "a"), ([*train, *OTHER], "b")
    overwrites = ([*train, "--overwrite"], "a"), ([*train, *OTHER, "--overwrite"], "b")
    exports = (["export", "run", "--out", "bundle"], "a"), (["export", "run-b", "--out", "bundle"], "b")
    bundles = ([*predict, "--resume"], "a"), (["predict", "bundle-b", *predict[2:]], "b")
    pretrains = (command_of("pretrain"), "a"), ([*command_of("pretrain"), "--seed", "5"], "b")
    replaced = (["export", "run", "--out", "bundle"], "a"), overwrites[1]
    return {
        "train, train": Meeting(trains, _same_run),
        "train, train, resume": Meeting((*trains, ([*train, "--resume"], "a")), _same_run),
        "overwrite, overwrite": Meeting(overwrites, _same_run, ("run",)),
        "cv, cv": Meeting(((cv, "a"), ([*cv, *OTHER], "b")), _same_cv),
        "export, export": Meeting(exports, _same_bundle, ("run", "run-b")),
        "export, export, overwrite": Meeting(
            (*exports, ([*exports[1][0], "--overwrite"], "b")), _same_bundle, ("run", "run-b", "bundle")
        ),
        "predict, predict": Meeting(bundles, _same_prices, ("bundle", "bundle-b")),
        "pretrain, pretrain": Meeting(pretrains, _same_pretraining),
        "export, overwrite": Meeting(replaced, _same_read, ("run",)),
    }


def _same_read(one: Path, other: Path) -> None:
    """The bundle of a run that is replaced meanwhile is that of the old run or of the new one, never of both."""
    if (one / "bundle").exists():
        _any_equal(_same_bundle, one, [other.with_name("a"), other.with_name("b")])
    _any_equal(_same_run, one, [other.with_name("a"), other.with_name("b")])


def prepare(folder: Path) -> None:
    """Run every command alone, in one folder for each of two variants."""
    seconds: dict[str, float] = {}
    write_table(folder / "table.csv")
    write_table(folder / "more.csv", 20_000, seed=1)
    for variant, more in (("a", []), ("b", list(OTHER))):
        (folder / variant).mkdir()
        _link_tables(folder, folder / variant)
        for kind in ("train", "cv", "export", "predict", "pretrain"):
            options = ["--seed", "5"] * bool(more) if kind == "pretrain" else more * (kind in ("train", "cv"))
            began = time.perf_counter()
            succeed(*command_of(kind), *options, folder=folder / variant)
            seconds[kind] = time.perf_counter() - began
    (folder / "seconds.json").write_text(json.dumps(seconds))


def _link_tables(shared: Path, folder: Path) -> None:
    for name in ("table.csv", "more.csv"):
        (folder / name).symlink_to(shared / name)


def trial(case: Case) -> str:
    """Start the commands at random moments; the result must be that of one of those that succeeded."""
    names = list(_meetings())
    name = names[case.number % len(names)]
    meeting, folder = _meetings()[name], case.folder
    _link_tables(case.shared, folder)
    for given in meeting.given:
        variant = "b" if given.endswith("-b") else "a"
        shutil.copytree(case.shared / variant / given.removesuffix("-b"), folder / given)
    kind = "train" if "overwrite" in meeting.commands[0][0] else meeting.commands[0][0][0]
    seconds = json.loads((case.shared / "seconds.json").read_text())[kind]
    started = []
    for words, variant in meeting.commands:
        started.append((variant, Command(*words, folder=folder)))
        time.sleep(case.random.choice([0, 0.3, 1.2]) * case.random.random() * seconds)
    ended = [(variant, command.wait()) for variant, command in started]
    winners = {variant for variant, one in ended if one.code == 0}
    refused = [_refusal(one) for _, one in ended if one.code != 0]
    assert winners, ended
    _any_equal(meeting.compare, folder, [case.shared / variant for variant in sorted(winners)])
    assert_nothing_left(folder)
    return f"{name}: {', '.join(sorted(refused)) or 'both in turn'}"


def _refusal(ended: Ended) -> str:
    """Return why a command did not proceed; AssertionError if it does not say so."""
    ended.check_explained()
    if "has been writing" in ended.output:
        assert ended.code == 4, ended
        assert "(PID " in ended.output, ended
        return "refused"
    assert "already exists" in ended.output or "differ" in ended.output, ended
    return "came later"


def _any_equal(compare: Callable[[Path, Path], None], folder: Path, expected: list[Path]) -> None:
    failures = []
    for other in expected:
        try:
            compare(folder, other)
        except (AssertionError, OSError, KeyError) as error:
            failures.append(error)
        else:
            return
    raise AssertionError(f"the result is that of none of {expected}: {failures}")
