"""`pricekit config show` and `pricekit config schema`."""

import json
import sys
import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricekit.cli.config import _layers, as_toml
from pricekit.cli.config import config as command
from pricekit.cli.train import train
from pricekit.config import read_toml
from pricekit.config.resolve import configure, explain
from pricekit.options import READ_OPTIONS, config_of

POLICIES = ["quick", "ultra", "fast", "blazing", "optimized"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_shown_configuration_can_be_read_back(pricekit, tmp_path, policy):
    flags = ("--policy", policy, "--text", "title,about", "--set", "backbone.weights=none")
    flags = flags if policy != "quick" else flags[:4]
    code, out, err = pricekit("config", "show", *flags)
    assert code == 0, err
    (tmp_path / "whole.toml").write_text(out)
    given = {"policy": policy, "columns": {"text": ["title", "about"]}}
    assert configure([read_toml(tmp_path / "whole.toml")]) == configure([given])


def test_the_shown_configuration_is_what_train_uses(pricekit, catalog, tmp_path):
    flags = ("--policy", "fast", "--seed", "3", "--time-budget", "2h", "--set", "head.dropout=[0.5, 0, 0]")
    dry = pricekit("train", catalog, "--out", tmp_path / "run", "--dry-run", *flags)
    shown = pricekit("config", "show", *flags)
    assert (dry[0], shown[0]) == (0, 0), dry[2] + shown[2]
    assert {k: v for k, v in tomllib.loads(shown[1]).items() if v} == {
        k: v for k, v in tomllib.loads(dry[1]).items() if v
    }


def test_epochs_are_a_number_or_auto(pricekit):
    found = _sources(pricekit, "--policy", "fast", "--epochs", "auto")
    assert found["training.epochs"] == ("auto", "flag --epochs")
    for wrong in ("many", "0", "-3", "1.5"):
        code, _, err = pricekit("config", "show", "--epochs", wrong)
        assert code == 2
        assert f"training.epochs is {wrong if wrong == '0' else repr(wrong)}: expected a whole number" in err


def _sources(pricekit, *flags):
    code, out, err = pricekit("config", "show", "--json", *flags)
    assert code == 0, err
    return {row["setting"]: (row["value"], row["source"]) for row in json.loads(out)}


def test_each_value_shows_its_source(pricekit, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        "max_length = 100\n[training]\nepochs = 8\nbatch_size = 32\n[loss]\nname = 'focal-smape'\n"
    )
    epochs = [_sources(pricekit)["training.epochs"]]
    flags = ["--config", file]
    epochs.append(_sources(pricekit, *flags)["training.epochs"])
    flags += ["--epochs", "9", "--max-length", "90", "--id", "sku"]
    epochs.append(_sources(pricekit, *flags)["training.epochs"])
    flags += ["--set", "training.epochs=1", "--set", "training.epochs=2", "--set", "training.patience=none"]
    found = _sources(pricekit, *flags)
    epochs.append(found["training.epochs"])
    assert epochs == [("auto", "policy quick"), (8, f"file {file}"), (9, "flag --epochs"), (2, "--set")]
    assert found["training.batch_size"] == (32, f"file {file}")
    assert found["training.patience"] == (None, "--set")
    assert found["training.save_epochs"] == (1, "default")
    assert found["training.save_steps"] == (None, "default")
    assert found["max_length"] == (90, "flag --max-length")
    assert found["columns.id"] == ("sku", "flag --id")
    assert found["loss.name"] == ("focal-smape", f"file {file}")
    assert found["loss.gamma"] == (2.0, "plugin default")
    assert found["policy.name"] == ("quick", "default")
    assert found["backbone.name"] == ("bag", "policy quick")


def test_the_order_of_flags_does_not_matter(pricekit):
    found = _sources(pricekit, "--random-weights", "--weights", "w", "--backbone", "distilroberta")
    assert found["backbone.name"] == ("distilroberta", "flag --backbone")
    assert found["backbone.weights"] == ("w", "flag --weights")
    assert found["backbone.random_weights"] == (True, "flag --random-weights")


def test_the_text_has_each_value_with_its_source(pricekit):
    code, out, err = pricekit("config", "show", "--policy", "fast", "--loss", "focal-smape")
    assert code == 0, err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert 'name = "focal-smape" # flag --loss' in lines
    assert "gamma = 2.0 # plugin default" in lines
    assert "epochs = 15 # policy fast" in lines
    assert "widths = [512, 256, 128] # policy fast" in lines
    assert "# limit = none # default" in lines
    assert err == ""


def test_a_file_with_any_name_is_a_source(pricekit, tmp_path):
    file = tmp_path / "a\nseed = 3"
    file.write_text("seed = 4")
    code, out, err = pricekit("config", "show", "--config", file)
    assert code == 0, err
    assert tomllib.loads(out)["seed"] == 4
    assert f"{tmp_path.name}/a?seed = 3" in out


def test_values_that_toml_cannot_represent_are_reported(pricekit):
    code, _, err = pricekit("config", "show", "--set", "training.patience=none")
    assert code == 0
    assert "also add --set training.patience=none" in err


FLAGS = {
    "policy": st.sampled_from(["quick", "fast"]),
    "backbone": st.sampled_from(["bag", "roberta-base"]),
    "features": st.sampled_from([["fast15"], ["fast15", "ultra25"]]),
    "loss": st.sampled_from(["smape", "focal-smape"]),
    "max_length": st.integers(1, 9),
    "seed": st.integers(0, 9),
    "limit": st.integers(1, 9),
    "epochs": st.integers(1, 9),
    "time_budget": st.sampled_from(["2h", "90m"]),
    "text": st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=2),
    "price": st.text(max_size=20),
    "id": st.text(max_size=20),
}
NO_FLAGS = dict.fromkeys([*FLAGS, "weights", "config"]) | {"random_weights": False, "settings": ()}


@example({"price": "a\u2028b\x85c\\", "text": ["[", "],[\r"]}, ())  # what some take for the end of a line
@settings(max_examples=80, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=FLAGS), st.sampled_from([(), ("training.epochs=5",), ("loss=smape",)])
)
def test_any_flags_give_what_train_is_given_and_can_be_read_back(flags, overrides):
    given = NO_FLAGS | flags | {"settings": overrides}
    read_back = tomllib.loads(as_toml(explain(_layers(given))))
    assert configure([read_back]) == config_of(given)


def test_show_has_the_flags_of_train():
    """Errors that name a setting."""
    names = [{parameter.name for parameter in c.params} for c in (train, command.commands["show"])]
    about_the_run = {
        "table",
        "out",
        "valid",
        "init",
        *READ_OPTIONS,
        "resume",
        "overwrite",
        "allow_leak",
        "unpriced",
        "teacher",
        "dry_run",
    }
    # added when a command is called
    everywhere = {"plugin_files", "no_plugins", "quiet", "verbose", "log_format"}
    assert names[0] - about_the_run - everywhere == names[1] - {"as_json"} - everywhere


def test_the_schema_is_json_on_stdout(pricekit):
    code, out, err = pricekit("config", "schema")
    assert (code, err) == (0, "")
    assert json.loads(out)["properties"]["training"]


def _toys(folder, *targets):
    source = "import pricekit\n@pricekit.plugin.hookimpl\ndef pricekit_register_losses(register):\n"
    source += "".join(f"    register('toy{i}', '{target}', 'a toy')\n" for i, target in enumerate(targets))
    (folder / "toys.py").write_text(source)
    return folder / "toys.py"


def test_plugins_that_cannot_be_imported_are_omitted_with_one_notice(pricekit, tmp_path):
    file = _toys(tmp_path, "does_not_exist:Lost", "does_not_exist:Gone")
    code, out, err = pricekit("config", "schema", "--plugin", file)
    assert code == 0, err
    assert json.loads(out)["properties"]["loss"]["anyOf"][0]["enum"] == [
        *("focal-smape", "log-huber", "log-l1", "log-l2", "mape", "pinball"),
        "smape",
    ]
    (line,) = [line for line in err.splitlines() if "omitted" in line]
    assert "loss toy0, loss toy1 (ModuleNotFoundError: No module named 'does_not_exist')" in line
    assert "pip install does_not_exist" in line


@pytest.mark.parametrize("arguments", [("schema",), ("show", "--json", "--loss", "toy0")])
def test_output_of_a_plugin_does_not_reach_stdout(pricekit, tmp_path, monkeypatch, arguments):
    (tmp_path / "noisy_toy.py").write_text("print('noise')\nclass Loss: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "noisy_toy", raising=False)
    code, out, err = pricekit("config", *arguments, "--plugin", _toys(tmp_path, "noisy_toy:Loss"))
    assert code == 0, err
    assert "toy0" in str(json.loads(out))
    assert "noise" in err


WRONG = {
    "an unknown key": (("--set", "trainig.epochs=3"), "did you mean 'training'"),
    "a typo of an option": (("--set", "backbone.widht=3"), "Did you mean 'width'"),
    "an option of another plugin": (("--set", "loss.gamma=3"), "takes no options"),
    "a wrong type": (("--set", "training.epochs=many"), "training.epochs is 'many'"),
    "an unknown plugin": (("--policy", "quik"), "Did you mean 'quick'"),
    "options of no feature": (("--set", "feature_options.fast15.x=1"), "not among features"),
    "a missing file": (("--config", "nowhere.toml"), "nowhere.toml cannot be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_reported_in_one_paragraph(pricekit, case):
    flags, saying = WRONG[case]
    code, out, err = pricekit("config", "show", *flags)
    assert (code, out) == (3 if case == "an unknown plugin" else 2, "")
    assert saying in err
    assert err.startswith("pricekit: ")
    assert err.count("\n") == 1


def test_an_invalid_toml_file(pricekit, tmp_path):
    (tmp_path / "c.toml").write_text("= 3")
    code, out, err = pricekit("config", "show", "--config", tmp_path / "c.toml")
    assert (code, out) == (2, "")
    assert "is not valid TOML" in err


@pytest.mark.parametrize("arguments", [(), ("show",), ("schema",)])
def test_help_shows_how(pricekit, arguments):
    code, out, _ = pricekit("config", *arguments, "--help")
    assert code == 0
    assert sum(line.strip().startswith("pricekit config ") for line in out.splitlines()) == 2
