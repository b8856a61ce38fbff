"""The tools through the SDK's client, as an assistant calls them: answers, limits, and calls of an enemy."""

import json
import math
import os
import re
import subprocess
import sysconfig
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import pricekit as pk
from pricekit.plugin import ConfigError

pytest.importorskip("mcp")
psutil = pytest.importorskip("psutil")

import pricekit_mcp  # noqa: E402
from anyio import create_task_group, run, sleep  # noqa: E402
from anyio.from_thread import start_blocking_portal  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters  # noqa: E402

PRICEKIT = Path(sysconfig.get_path("scripts"), "pricekit")
pytestmark = pytest.mark.skipif(not PRICEKIT.is_file(), reason="the command pricekit is not installed")

SECRET = "canary-7f3a"
MAX_ROWS = 300
PATHS = {
    "check": {"table": "products.csv"},
    "train": {"table": "products.csv", "out": "new"},
    "evaluate": {"model": "run", "table": "products.csv"},
    "predict": {"model": "run", "table": "products.csv", "out": "new.csv"},
    "explain": {"model": "run", "table": "products.csv"},
}
"""Calls that are right, of which each hostile call changes one path."""


def parameters(folder, options=(), plugin_file=""):
    """How a client starts the server; the current folder is the one that it serves, with modules of an enemy."""
    variables = {
        "OMP_NUM_THREADS": "1",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "PRICEKIT_PLUGIN_FILES": plugin_file,
    }
    return StdioServerParameters(
        command=str(PRICEKIT), args=["mcp", str(folder), *options], cwd=folder, env=variables
    )


@contextmanager
def connected(server):
    """Yield a function that calls a tool, and returns its result and the messages about its progress."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:

        def call(tool, arguments):
            messages = []

            async def calling():
                async def progressed(progress, total, message):
                    messages.append((progress, message))

                return await client.call_tool(tool, arguments, progress_callback=progressed)

            return portal.call(calling), messages

        call.tools = portal.call(client.list_tools).tools
        yield call


def answer(call, tool, arguments):
    result, _ = call(tool, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def error(call, tool, arguments):
    """Return the one sentence of an error; it names no place and no secret of this machine."""
    result, _ = call(tool, arguments)
    assert result.is_error, (tool, arguments, result.structured_content)
    (content,) = result.content
    assert result.structured_content is None
    assert "\n" not in content.text
    assert len(content.text) < 400
    for hidden in (SECRET, "/tmp", "/root", "/home", "Traceback", sysconfig.get_path("purelib")):
        assert hidden not in content.text, (tool, arguments)
    return content.text


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder that no call may read or write."""
    folder = tmp_path_factory.mktemp("outside")
    pk.make_catalog(100, seed=5).assign(catalog_content=SECRET).to_csv(folder / "secret.csv", index=False)
    (folder / "model").mkdir()
    (folder / "model" / "pricekit.json").write_text(json.dumps({"kind": SECRET}))
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory, outside):
    """The folder of the server, with what an enemy may put into it."""
    folder = tmp_path_factory.mktemp("shop")
    pk.make_catalog(150).to_csv(folder / "products.csv", index=False)
    (folder / "more").mkdir()
    (folder / "more" / "products.csv").write_bytes((folder / "products.csv").read_bytes())
    (folder / "inside.csv").symlink_to("more/products.csv")
    (folder / "prices.csv").symlink_to("more/products.csv")
    many = pk.make_catalog(MAX_ROWS + 1).to_csv(index=False)
    (folder / "many.csv").write_text(many)
    with (folder / "huge.csv").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "linked").symlink_to(outside)
    (folder / "more" / "up").symlink_to("../..")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling.csv").symlink_to(outside / "new.csv")
    os.mkfifo(folder / "pipe.csv")
    for model in ("with-link", "with-pipe", "with-more"):
        (folder / model).mkdir()
        (folder / model / "pricekit.json").write_text("{}")
    (folder / "with-link" / "best.safetensors").symlink_to(outside / "secret.csv")
    (folder / "with-more" / "linked").symlink_to(outside)
    os.mkfifo(folder / "with-pipe" / "run.json")
    for name in ("pandas", "torch", "mcp", "anyio", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(outside / 'imported')!r}, 'w')")
    return folder


@pytest.fixture(scope="module")
def call(shop):
    with connected(parameters(shop, ["--max-rows", str(MAX_ROWS), "--max-bytes", "200000000"])) as calling:
        assert not (shop / "run").exists()
        result, messages = calling("train", {"table": "products.csv", "out": "run", "epochs": 1})
        assert not result.is_error, result.content[0].text
        calling.trained, calling.messages = result.structured_content, messages
        yield calling


def listing(folder):
    """What is in a folder, and when and how large everything was written."""
    return {
        path.relative_to(folder).as_posix(): (state.st_mode, state.st_size, state.st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
        for state in [path.lstat()]
    }


def test_the_tools_describe_themselves(call):
    tools = {tool.name: tool for tool in call.tools}
    assert list(tools) == ["check", "train", "evaluate", "predict", "explain"]
    assert all(tool.description.endswith(".") and len(tool.description) < 200 for tool in tools.values())
    assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == {
        "train",
        "predict",
    }
    for tool in tools.values():
        properties = tool.input_schema["properties"]
        assert all("description" in each for each in properties.values()), tool.name
        assert tool.input_schema["additionalProperties"] is False
    train = set(tools["train"].input_schema["properties"])
    assert train == {"table", "out", "text", "price", "id", "policy", "epochs", "time_budget"}


def test_a_check_suggests_columns_and_has_notes(call):
    report = answer(call, "check", {"table": "more/products.csv"})
    assert (report["rows"], report["usable"], report["trainable"]) == (150, 150, True)
    assert (report["text"], report["price"], report["id"]) == (["catalog_content"], "price", "sample_id")
    assert "few" in report["notes"][0]


def test_a_training_writes_a_run_and_reports_progress(call, shop):
    assert call.trained["model"] == "run"
    assert call.trained["held_out"] == 22
    model = pk.load(shop / "run")
    assert call.trained["metrics"] == model.metrics
    times, texts = zip(*call.messages, strict=True)
    assert list(times) == sorted(times)
    assert any("%" in text for text in texts)
    stored = b"".join(path.read_bytes() for path in (shop / "run").rglob("*.json"))
    assert b"/tmp" not in stored
    assert not [path for path in shop.iterdir() if path.name.startswith(".")]


def test_scores_are_those_of_the_model(call, shop):
    held_out = answer(call, "evaluate", {"model": "run"})
    expected = pk.load(shop / "run").evaluate()
    assert (held_out["rows"], held_out["metric"]) == (22, "smape")
    assert held_out["metrics"] == pytest.approx(expected.metrics)
    assert held_out["interval"] == pytest.approx(list(expected.interval))


def test_prices_are_in_the_answer_and_in_a_new_file(call, shop):
    arguments = {"model": "run", "table": "inside.csv", "out": "more/prices.csv", "rows": 3}
    prediction = answer(call, "predict", arguments)
    table = pk.read_table(shop / "products.csv")
    expected = pk.load(shop / "run").predict(table)
    assert (prediction["rows"], prediction["out"]) == (150, "more/prices.csv")
    assert [row["id"] for row in prediction["prices"]] == table.ids.astype(str).tolist()[:3]
    assert [row["price"] for row in prediction["prices"]] == pytest.approx(expected[:3].tolist())
    written = (shop / "more" / "prices.csv").read_text().splitlines()
    assert len(written) == 151
    before = listing(shop)
    assert "exists already" in error(call, "predict", arguments)
    again = answer(call, "predict", {"model": "run", "table": "prices.csv", "rows": 3})
    assert again["prices"] == prediction["prices"]
    assert listing(shop) == before


def test_a_price_is_the_product_of_its_factors(call):
    ids = [str(number) for number in range(7, 14)]
    explanations = answer(call, "explain", {**PATHS["explain"], "ids": ids})["explanations"]
    assert [row["id"] for row in explanations] == ids
    for row in explanations:
        product = row["base"] * row["others"] * math.prod(part["factor"] for part in row["factors"])
        assert product == pytest.approx(row["price"], rel=1e-3)


OUTSIDE = {
    "parent": "../outside/secret.csv",
    "deep-parent": "more/../../secret.csv",
    "absolute": "/etc/passwd",
    "home": "~/.ssh/id_rsa",
    "device": "/dev/zero",
    "link": "link.csv",
    "link-to-folder": "linked",
    "through-link": "linked/secret.csv",
    "through-link-up": "more/up/outside0/secret.csv",
    "loop": "loop",
    "dangling": "dangling.csv",
    "pipe": "pipe.csv",
    "stdin": "-",
    "stream": "-.jsonl",
    "s3": "s3://bucket/products.csv",
    "file": "file:///etc/passwd",
    "database": "postgresql://user@host/shop",
    "https": "https://example.com/products.csv",
    "pattern": "*.csv",
    "deep-pattern": "**/*.csv",
    "nul": "products.csv\0.png",
    "escape": "\x1b[2Jproducts.csv",
    "backslash": "..\\outside\\secret.csv",
    "empty": "",
    "itself": ".",
    "long": "a/" * 400 + "b",
    "long-name": "a" * 999,
    "too-long": "a" * 100_000,
}
WRONG = {"number": 7, "list": ["products.csv"], "object": {"path": "products.csv"}, "true": True}

HOSTILE = {
    f"{tool}-{argument}-{name}": (tool, arguments | {argument: value}, argument)
    for tool, arguments in PATHS.items()
    for argument in arguments
    for name, value in (OUTSIDE | WRONG).items()
    if not (argument == "out" and name == "true")
}
HOSTILE |= {
    f"{tool}-{argument}-none": (tool, arguments | {argument: None}, argument)
    for tool, arguments in PATHS.items()
    for argument in arguments
    if (tool, argument) not in (("predict", "out"), ("evaluate", "table"))
}
HOSTILE |= {
    f"{tool}-with-{argument}": (tool, PATHS[tool] | {argument: value}, argument)
    for tool in PATHS
    for argument, value in {
        "settings": {"backbone.weights": "/etc"},
        "config": "run/config.toml",
        "plugins": ["torch.py"],
        "weights": "/etc",
        "init": "run",
        "overwrite": True,
        "columns": ["a"],
    }.items()
}
HOSTILE |= {
    f"{tool}-{argument}-{number}": (tool, PATHS[tool] | {argument: value}, argument)
    for tool, argument, values in (
        ("check", "text", ("catalog_content", [], [1], ["a" * 300], ["a"] * 101)),
        ("check", "price", (1, ["price"], "")),
        ("check", "id", ({}, "a" * 201)),
        ("train", "policy", ("../policy", "/etc/passwd", "best\n", 1, "file.py")),
        ("train", "epochs", (0, -1, 1.5, "1", 10**30, True)),
        ("train", "time_budget", (0, -1, "1h", [])),
        ("predict", "rows", (0, 101, "1", 1.5)),
        ("predict", "out", ("products.py", "products", "more/new.csv/", "run/config.toml")),
        ("explain", "rows", (0, 10**9)),
        ("explain", "ids", ("7", [], [7], ["a"] * 101)),
        ("explain", "model", ("with-link", "with-more", "with-pipe", "products.csv")),
        ("evaluate", "model", ("missing", "more/missing")),
        ("train", "out", ("products.csv", "run", "more", "missing/new", "products.csv/new", "link.csv")),
        ("predict", "out", ("inside.csv", "many.csv", "dangling.csv", "linked/new.csv")),
        ("check", "table", ("more", "huge.csv", "missing.csv", "products.csv/x", "PRODUCTS.CSV")),
    )
    for number, value in enumerate(values)
}


def test_hostile_calls_get_one_error_and_touch_nothing(call, shop, outside):
    assert len(HOSTILE) > 300
    before = listing(shop), listing(outside)
    for tool, arguments, argument in HOSTILE.values():
        text = error(call, tool, arguments)
        assert argument in text, (tool, arguments, text)
    assert "no tool" in error(call, "shell", {"command": "id"})
    assert "no argument" in error(call, "check", {"table": "products.csv", "\x1b[2J" * 1000: 1})
    assert "is wrong: Field required" in error(call, "check", {})
    assert (listing(shop), listing(outside)) == before
    assert answer(call, "check", PATHS["check"])["rows"] == 150
    assert (listing(shop), listing(outside)) == before


@pytest.mark.parametrize("tool", ["check", "train", pytest.param("predict", marks=pytest.mark.slow)])
def test_a_table_with_more_rows_than_allowed_is_refused(call, shop, tool):
    before = listing(shop)
    assert f"more than {MAX_ROWS} rows" in error(call, tool, PATHS[tool] | {"table": "many.csv"})
    assert listing(shop) == before


GARBAGE = [
    b"no json",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "check", "arguments": ["x"]}}',
    b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
    b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}',
]


def test_garbage_is_survived_and_stdout_has_messages_only(shop):
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    }
    messages = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        *GARBAGE,
        b'{"jsonrpc": "2.0", "id": 9, "method": "tools/list"}',
    ]
    started = {name: value for name, value in os.environ.items() if not name.startswith("PRICEKIT_")}
    with subprocess.Popen(
        [PRICEKIT, "mcp", shop], cwd=shop, env=started, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        server.stdin.write(b"\n".join(messages) + b"\n")
        server.stdin.flush()
        answers = {}
        while 9 not in answers:
            message = json.loads(server.stdout.readline())
            answers[message.get("id")] = message
        assert server.communicate(timeout=60)[0] == b""
    assert all("error" in answers[number] for number in (2, 3, 4, 5))
    assert len(answers[9]["result"]["tools"]) == 5
    assert server.returncode == 0


def test_a_call_that_takes_too_long_ends_with_its_processes(shop):
    with connected(parameters(shop, ["--time-limit", "0.5"])) as call:
        before = listing(shop)
        (server,) = [one for one in psutil.Process().children() if "--time-limit" in one.cmdline()]
        assert "train took more than 0.5 seconds" in error(call, "train", PATHS["train"])
        assert server.children(recursive=True) == []
        assert "expected a relative path" in error(call, "check", {"table": "/etc/passwd"})
        assert listing(shop) == before


def test_an_error_names_no_place_of_this_machine(shop, tmp_path):
    plugin = tmp_path / "broken.py"
    plugin.write_text("import a_missing_module")
    with connected(parameters(shop, ["--plugin", str(plugin)])) as call:
        text = error(call, "train", PATHS["train"])
    assert "a_missing_module" in text
    assert "(a path outside)" in text
    assert not (shop / "new").exists()


SPAWNING = """
import subprocess, sys, time
from pathlib import Path

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Path(__file__).with_suffix(".part").write_text(str(child.pid))
Path(__file__).with_suffix(".part").rename(Path(__file__).with_suffix(".pid"))
time.sleep(600)
"""
"""A plugin of the server's user that starts a process in a session of its own."""


@pytest.mark.slow
def test_a_call_ends_with_the_server_and_with_processes_in_other_sessions(shop, tmp_path):
    plugin, pid = tmp_path / "spawning.py", tmp_path / "spawning.pid"
    plugin.write_text(SPAWNING)

    async def start_and_leave():
        async with (
            Client(parameters(shop, plugin_file=str(plugin))) as client,
            create_task_group() as group,
        ):
            group.start_soon(client.call_tool, "train", PATHS["train"])
            while not pid.exists():
                await sleep(0.1)
            group.cancel_scope.cancel()

    run(start_and_leave)
    deadline = time.monotonic() + 60
    while psutil.pid_exists(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not psutil.pid_exists(int(pid.read_text()))


@pytest.mark.examples
def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "assistants.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(example, names)
    assert len(names["prices"]) == 10
    assert (tmp_path / "prices.csv").is_file()


def test_the_folder_must_exist(tmp_path, raises):
    with raises(ConfigError, "folder"):
        pricekit_mcp.server(tmp_path / "missing")
    with raises(ConfigError, "max_rows"):
        pricekit_mcp.Limits(max_rows=0)
    with raises(ConfigError, "time_limit"):
        pricekit_mcp.Limits(time_limit=-1.0)
