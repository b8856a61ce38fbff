"""`pricekit plugins` with twelve broken packages installed together, in separate processes."""

import json
import os
import subprocess
import sys

import pytest

from pricekit.cli.plugins import USE
from pricekit.predict.ort import OrtCpu, OrtTensorRTX

HOOK = "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses({}):\n    {}\n"

BROKEN = {
    "absent": ("import does_not_exist", "pip install does_not_exist"),
    "raises": ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "syntax": ("def broken(:", "SyntaxError"),
    "argument": (HOOK.format("rigister", "pass"), "rigister"),
    "unknown": (
        "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_lossses(register): pass",
        "unknown hook",
    ),
    "undecorated": (
        "def pricekit_register_losses(register): pass",
        "decorate it with @pricekit.plugin.hookimpl",
    ),
    "interface": ("pricekit_api = 2", "upgrade pricekit"),
    "duplicate": (HOOK.format("register", "register('smape', 'a:B', '')"), "registered twice"),
    "spelled": (HOOK.format("register", "register('My Loss', 'a:B', '')"), "lower-case letters"),
    "target": (HOOK.format("register", "register('x', 'y', '')"), "'package.module:Attribute'"),
    "lazy": (HOOK.format("register", "register('lazy', 'broken_lazy:Gone', '')"), "has no attribute 'Gone'"),
}
"""Twelve ways to break, and what `doctor` says of each."""


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Install one package for each kind of failure, in the form that pip installs."""
    folder = tmp_path_factory.mktemp("site")
    for way, (source, _) in BROKEN.items():
        (folder / f"broken_{way}.py").write_text("print('I am on stdout')\n" + source)
        facts = folder / f"broken_{way}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: broken-{way}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[pricekit]\n{way} = broken_{way}\n")
    return folder


@pytest.fixture(scope="module")
def with_broken(broken):
    def run(*arguments, **environment):
        command = [sys.executable, "-m", "pricekit", *map(str, arguments)]
        paths = [str(broken), *filter(None, [os.environ.get("PYTHONPATH")])]
        packages = ",".join(f"broken-{way}" for way in BROKEN)
        given = {"PYTHONPATH": os.pathsep.join(paths), "PRICEKIT_LOAD_PLUGINS": packages}
        environment = os.environ | given | environment
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=240
        )

    return run


def test_doctor_names_all_twelve_plugins_and_the_fixes(with_broken):
    done = with_broken("plugins", "doctor")
    assert done.returncode == 3
    assert "12 failed" in done.stderr
    said = {part.split(" ", 1)[0]: " ".join(part.split()) for part in done.stdout.split("\n\n")}
    for way, (_, expected) in BROKEN.items():
        assert expected in said[f"broken-{way}"], way
    assert "Traceback" not in done.stdout + done.stderr
    assert "Traceback" in with_broken("plugins", "doctor", "--traceback").stdout


def test_doctor_shows_what_each_engine_runs_on(pricekit, monkeypatch):
    def broken(self):
        raise ValueError("no such bus")

    monkeypatch.setattr(OrtCpu, "runs_on", lambda self: "8 CPUs")
    monkeypatch.setattr(OrtTensorRTX, "runs_on", broken)
    code, out, _ = pricekit("plugins", "doctor")
    assert code == 0
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("ort-"))
    assert lines["ort-cpu"] == "8 CPUs"
    assert lines["ort-cuda"].startswith("cannot run here: this onnxruntime")
    assert "failed while looking for its device: ValueError: no such bus" in lines["ort-tensorrt-rtx"]


@pytest.mark.slow
def test_the_built_ins_work_next_to_twelve_broken_packages(with_broken, catalog, tmp_path):
    assert with_broken("--help").stderr == ""
    listed = json.loads(with_broken("plugins", "list", "--json").stdout)
    assert [p["version"] for p in listed if p["state"] == "failed"] == ["1.0"] * 11
    assert {p["kind"] for p in listed if p["package"] == "pricekit"} == set(USE)
    for command in (
        ["train", catalog, "--out", tmp_path / "run", *SMALL, *FEW_TREES],
        ["export", tmp_path / "run", "--out", tmp_path / "bundle"],
        ["predict", tmp_path / "bundle", catalog, "--out", tmp_path / "prices.csv", "--engine", "ort-cpu"],
    ):
        done = with_broken(*command)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("is ignored") == 11
    assert len((tmp_path / "prices.csv").read_text().splitlines()) == 401


def test_a_run_that_needs_a_broken_plugin_gives_the_reason(with_broken, catalog, tmp_path):
    done = with_broken("train", catalog, "--out", tmp_path / "run", "--loss", "x")
    assert done.returncode == 3
    assert "unknown loss 'x'" in done.stderr
    assert "broken-target 1.0 (the target of loss 'x'" in done.stderr
    assert "cannot be loaded from broken_lazy:Gone" in (
        with_broken("train", catalog, "--out", tmp_path / "run", "--loss", "lazy").stderr
    )


def test_the_environment_selects_the_loaded_plugins(with_broken, catalog):
    def broken_ones(*arguments, **environment):
        done = with_broken("plugins", "list", "--json", *arguments, **environment)
        return [p["name"] for p in json.loads(done.stdout) if p["package"].startswith("broken")], done.stderr

    assert broken_ones(PRICEKIT_LOAD_PLUGINS="") == ([], "")
    assert broken_ones("--no-plugins") == ([], "")
    assert broken_ones(PRICEKIT_LOAD_PLUGINS="broken-lazy")[0] == ["lazy"]
    assert broken_ones(PRICEKIT_LOAD_PLUGINS="lazy,raises")[0] == ["lazy", "raises"]
    assert "names nobody, but no such plugin" in broken_ones(PRICEKIT_LOAD_PLUGINS="nobody")[1]
    strict = with_broken("plugins", "list", PRICEKIT_STRICT_PLUGINS="1", PRICEKIT_LOAD_PLUGINS="raises")
    assert (strict.returncode, strict.stderr.count("pricekit: ")) == (3, 1)
    assert (
        "plugin raises of broken-raises 1.0 failed to load: RuntimeError: no luck. Upgrade" in strict.stderr
    )


SMALL = [
    *("--epochs", "8", "--set", "training.learning_rate=0.01", "--no-refit"),
    *("--set", "backbone.width=8", "--set", "backbone.buckets=64"),
]

FEW_TREES = ("--set", "feature_options.trees.rounds=8")

FEATURE = """
import numpy as np
import pricekit

class Characters:
    names = ("characters",)
    def fit(self, table):
        return {}
    def transform(self, table, state):
        return table.text.str.len().to_numpy(np.float32)[:, None]

@pricekit.plugin.hookimpl
def pricekit_register_features(register):
    register("characters", f"{__name__}:Characters", "how long a text is")
"""


def test_a_file_of_plugins_is_used_like_a_package(pricekit, catalog, tmp_path):
    file = tmp_path / "my features.py"
    file.write_text(FEATURE)
    code, out, _ = pricekit("plugins", "show", "characters", "--plugin", file)
    assert (code, "my features.py file" in out) == (0, True)
    train = ["train", catalog, "--out", tmp_path / "run", "--features", "characters", *SMALL]
    assert pricekit(*train)[0] == 3
    assert pricekit(*train, "--plugin", file)[0] == 0
    assert pricekit("export", tmp_path / "run", "--out", tmp_path / "bundle", "--plugin", file)[0] == 0
    predict = ["predict", tmp_path / "bundle", catalog, "--out", tmp_path / "prices.csv"]
    code, _, err = pricekit(*predict)
    assert code == 3
    assert "the feature 'characters'" in err
    message = "load its file 'my features.py' (in Python: pricekit.use_plugins). Use --plugin."
    assert message in " ".join(err.split())
    assert pricekit(*predict, "--plugin", file, "--engine", "ort-cpu")[0] == 0
    assert pricekit("plugins", "show", "characters")[0] == 3  # it was loaded for those commands alone


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "does not exist"), ("import nothing_of_it", "nothing_of_it"), ("x = (", "SyntaxError")],
)
def test_a_wrong_file_is_reported_in_one_paragraph(pricekit, tmp_path, content, expected):
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    code, _, err = pricekit("plugins", "list", "--plugin", file)
    assert code == 3
    assert expected in err
    assert err.count("pricekit: ") == 1


def test_a_folder_is_not_a_plugin_file(pricekit, tmp_path):
    code, _, err = pricekit("plugins", "list", "--plugin", tmp_path)
    assert (code, "is a folder; expected a Python file" in " ".join(err.split())) == (3, True)


def test_show_prints_the_requirements_and_location_of_a_plugin(pricekit):
    facts = json.loads(pricekit("plugins", "show", "bag", "--json")[1])
    assert facts["needs"] == "pricekit[train]"
    assert facts["defined"].split(":")[0] == "pricekit.nets.bag"
    assert {"name": "width", "type": "int"}.items() <= next(
        option for option in facts["options"] if option["name"] == "width"
    ).items()


def test_help_is_quick_because_it_imports_no_plugin(broken):
    code = "import sys; sys.argv = ['pricekit', '--help']\nfrom pricekit.cli.main import main\ntry: main()\n"
    code += "except SystemExit: pass\nheavy = {'torch', 'pandas', 'numpy', 'pluggy', 'rich', 'pydantic'}\n"
    code += "print('heavy:', heavy & set(sys.modules), [m for m in sys.modules if m.startswith('broken')])"
    environment = os.environ | {"PYTHONPATH": str(broken)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "heavy: set() []"


KERNEL_OF_ANOTHER_VERSION = """
from pricekit import plugin

class Mine(plugin.Kernel):
    version = plugin.KERNEL + 1

@plugin.hookimpl
def pricekit_register_kernels(register):
    register("mine", f"{__name__}:Mine", "a toy")
"""


def test_doctor_shows_why_a_kernel_cannot_be_used(pricekit, bundle, catalog, tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNEL_OF_ANOTHER_VERSION)
    code, out, _ = pricekit("plugins", "doctor", "--plugin", file)
    assert code == 3
    assert "cannot be used" in out
    assert "Upgrade pricekit" in " ".join(out.split())
    prices = tmp_path / "prices.csv"
    code, _, err = pricekit("predict", bundle, catalog, "--out", prices, "--plugin", file)
    assert (code, err.count("Python computes what kernels.py would")) == (0, 1)


def test_a_changed_feature_in_a_bundle_is_reported(pricekit, catalog, tmp_path):
    file = tmp_path / "features.py"
    file.write_text(FEATURE)
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    code, _, err = pricekit(
        "train", catalog, "--out", run, "--features", "characters", *SMALL, "--plugin", file
    )
    assert code == 0
    assert "--out BUNDLE --plugin " in " ".join(err.split())  # what is next can be pasted
    assert pricekit("export", run, "--out", bundle, "--plugin", file)[0] == 0
    predict = ["predict", bundle, catalog, "--out", tmp_path / "prices.csv", "--engine", "ort-cpu"]
    assert "prices may differ" not in pricekit(*predict, "--plugin", file)[2]
    file.write_text(FEATURE + "\n# another version\n")
    code, _, err = pricekit(*predict, "--plugin", file)
    assert (code, "prices may differ" in " ".join(err.split())) == (0, True)
    file.write_text(FEATURE.replace('names = ("characters",)', 'names = ("letters",)'))
    code, _, err = pricekit(*predict, "--plugin", file)
    assert (code, "the model was made with features.py file" in " ".join(err.split())) == (3, True)


@pytest.mark.parametrize("command", ["train", "export", "predict"])
def test_a_run_without_its_plugin_file_names_it(pricekit, catalog, tmp_path, command):
    file, run = tmp_path / "features.py", tmp_path / "run"
    file.write_text(FEATURE)
    assert (
        pricekit("train", catalog, "--out", run, "--features", "characters", *SMALL, "--plugin", file)[0] == 0
    )
    arguments = {
        "train": ["train", catalog, "--out", run, "--resume"],
        "export": ["export", run, "--out", tmp_path / "bundle"],
        "predict": ["predict", run, catalog, "--out", tmp_path / "prices.csv"],
    }
    code, _, err = pricekit(*arguments[command])
    assert code == 3
    assert "load its file features.py" in " ".join(err.split())


def test_two_files_of_one_name_are_two_plugins(pricekit, tmp_path):
    for folder, name in (("a", "first"), ("b", "second")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(FEATURE.replace('"characters"', f'"{name}"'))
    files = [tmp_path / "a" / "mine.py", tmp_path / "b" / "mine.py"]
    for name in ("first", "second"):
        code, out, _ = pricekit(
            "plugins", "show", name, "--json", *(p for f in [*files, files[0]] for p in ("--plugin", f))
        )
        assert (code, json.loads(out)["columns"]) == (0, [name])


def test_a_file_s_error_has_its_line(pricekit, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def later():\n    return undefined\n\nlater()\n")
    code, _, err = pricekit("plugins", "list", "--plugin", file)
    assert (code, "NameError: name 'undefined' is not defined (line 2)" in " ".join(err.split())) == (3, True)


def test_an_observer_is_listed(pricekit, tmp_path):
    file = tmp_path / "watch.py"
    file.write_text("import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_run_ended(folder): pass\n")
    assert "observes runs" in pricekit("plugins", "list", "--plugin", file)[1]
    code, _, err = pricekit("plugins", "check", file)
    assert (code, 'such as @plugin.feature("name"), above a class' in " ".join(err.split())) == (3, True)


LOSS = """
from pricekit import plugin

@plugin.loss("squares")
class Squares(plugin.LogPrice):
    "mean squared error of the log price"

    def terms(self, raw, price):
        return self.distance(raw, price).square()
"""


def test_after_an_export_the_next_command_needs_only_features(pricekit, catalog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("features.py", FEATURE), ("losses.py", LOSS)):
        (tmp_path / name).write_text(text)
    files = ["--plugin", "features.py", "--plugin", "losses.py"]
    train = ["train", catalog, "--out", "run", "--features", "characters", "--loss", "squares", *SMALL]
    code, _, err = pricekit(*train, *files)
    assert (code, "--out BUNDLE --plugin features.py --plugin losses.py" in " ".join(err.split())) == (
        0,
        True,
    )
    code, _, err = pricekit("export", "run", "--out", "bundle", *files)
    assert code == 0
    assert " ".join(err.split()).endswith("predict bundle TABLE --out prices.csv --plugin features.py")
    predict = ["predict", "bundle", catalog, "--out", "prices.csv", "--engine", "ort-cpu"]
    assert pricekit(*predict, "--plugin", "features.py")[0] == 0


def test_show_explains_a_decorated_class(pricekit, tmp_path):
    file = tmp_path / "losses.py"
    options = (
        "    class Options(BaseModel):\n        power: float = Field(2.0, description='of the distance')\n"
    )
    options += "    def __init__(self, options):\n        super().__init__()\n\n    def terms"
    file.write_text("from pydantic import BaseModel, Field\n" + LOSS.replace("    def terms", options))
    code, out, _ = pricekit("plugins", "show", "squares", "--json", "--plugin", file)
    facts = json.loads(out)
    assert (code, facts["summary"]) == (0, "mean squared error of the log price")
    assert facts["defined"].endswith(f":Squares, {file}:5")
    assert [(o["name"], o["default"], o["description"]) for o in facts["options"]] == [
        ("power", 2.0, "of the distance")
    ]
    shown = pricekit("plugins", "show", "squares", "--plugin", file)[1]
    for words in ("losses.py:5", "mean squared error of the log price", "of the distance"):
        assert words in shown
