"""The server: what the tools are, and their calls."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import anyio.to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ToolDescription
from pydantic import ValidationError

from pricekit.plugin import ConfigError, PricekitError, did_you_mean, logger, shorten
from pricekit.plugin.commands import stdout
from pricekit_mcp import __version__
from pricekit_mcp.folder import Folder
from pricekit_mcp.limits import Limits
from pricekit_mcp.tools import TOOLS, Arguments, Tool
from pricekit_mcp.worker import run

CALLS = 2
"""Calls that run at a time; others wait."""
DEFAULT_LIMITS = Limits()
_INSTRUCTIONS = (
    "pricekit prices products from catalogue text. All paths are relative to the one folder of this server, and no "
    "file is ever replaced. Begin with check, then train a model, evaluate it, and predict or explain prices."
)
_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/'\"]+/)+[^\s'\",;:]*")
"""An absolute path in a message."""


def server(folder: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Server[Any]:
    """Return a server of the Model Context Protocol whose tools read and write one folder.

    Its tools are check, train, evaluate, predict and explain. They take relative paths, and nothing outside of the
    folder is opened, whatever links it contains. Each call runs in a process of its own, within the limits; an error is
    one sentence, without secrets of this machine. Run it with any transport of the package `mcp`.

    Args:
        folder: the folder.
        limits: of each call.

    Raises:
        ConfigError: there is no such folder.

    Example:
        >>> import anyio, tempfile
        >>> import pricekit as pk
        >>> import pricekit_mcp
        >>> from mcp import Client
        >>> folder = tempfile.mkdtemp()
        >>> pk.make_catalog(100).to_csv(f"{folder}/products.csv", index=False)
        >>> async def rows():
        ...     async with Client(pricekit_mcp.server(folder)) as client:
        ...         answer = await client.call_tool("check", {"table": "products.csv"})
        ...         return answer.structured_content["rows"]
        >>> anyio.run(rows)
        100
    """
    calls = _Calls(Folder(folder), limits)
    return Server(
        "pricekit",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=calls.call_tool,
    )


def serve(folder: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> None:
    """Answer a client on standard input and output, until standard input ends.

    Args:
        folder: the folder.
        limits: of each call.

    Raises:
        ConfigError: there is no such folder.
    """
    anyio.run(_serve, server(folder, limits))


async def _serve(serving: Server[Any]) -> None:
    # The program `pricekit` keeps standard output for data, and has replaced sys.stdout.
    async with stdio_server(stdout=anyio.wrap_file(stdout())) as (requests, answers):
        await serving.run(requests, answers, serving.create_initialization_options())


async def _list_tools(
    context: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(tools=[_described(name, tool) for name, tool in TOOLS.items()])


def _described(name: str, tool: Tool) -> ToolDescription:
    writes = any(kind.new for kind in tool.paths.values())
    return ToolDescription(
        name=name,
        description=tool.run.__doc__,
        input_schema=tool.takes.model_json_schema(),
        output_schema=tool.answers.model_json_schema(),
        annotations=ToolAnnotations(read_only_hint=not writes, destructive_hint=False, open_world_hint=False),
    )


class _Calls:
    """Calls of tools in a folder."""

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder, self._limits, self._free = folder, limits, anyio.Semaphore(CALLS)

    async def call_tool(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Return the answer of a tool, or an error of one sentence."""
        try:
            tool, arguments = _checked(params.name, params.arguments or {})
            answer = await self._answer(context, params.name, tool, arguments)
        except PricekitError as error:
            return CallToolResult(content=[_text(str(error))], is_error=True)
        except Exception:
            logger.exception(f"{shorten(params.name)} failed")
            return CallToolResult(
                content=[_text(f"{shorten(params.name)} failed; the log of the server says why")],
                is_error=True,
            )
        content = answer.model_dump_json()
        return CallToolResult(content=[_text(content)], structured_content=answer.model_dump(mode="json"))

    async def _answer(
        self, context: ServerRequestContext[Any], name: str, tool: Tool, arguments: Arguments
    ) -> Any:
        values = arguments.model_dump()
        paths = {argument: kind for argument, kind in tool.paths.items() if values[argument] is not None}
        began = anyio.current_time()

        async def report(message: str) -> None:
            await context.session.report_progress(anyio.current_time() - began, None, message)

        async with self._free:
            with tempfile.TemporaryDirectory(prefix="pricekit-mcp-") as private:
                work, home = Path(private, "work"), Path(private, "home")
                work.mkdir()
                home.mkdir()
                await anyio.to_thread.run_sync(self._copy_out, values, paths, work)
                try:
                    reply = await run(name, values, work, home, self._limits, self._folder.path, report)
                except PricekitError as error:
                    raise PricekitError(_without_paths(str(error), work)) from None
                await anyio.to_thread.run_sync(self._copy_in, values, paths, work)
                reply["notes"] = [_without_paths(note, work) for note in reply["notes"]]
                return tool.answers.model_validate(reply)

    def _copy_out(self, values: dict[str, Any], paths: dict[str, Any], work: Path) -> None:
        """Copy what a tool reads to a private folder, under the paths that the caller uses."""
        for argument, kind in paths.items():
            self._folder.check(values[argument], argument, folder=kind.folder, new=kind.new)
        for argument, kind in paths.items():
            target = work / PurePosixPath(values[argument])
            target.parent.mkdir(parents=True, exist_ok=True)
            if not kind.new and not target.exists():  # a table in a model is there already
                self._folder.copy_out(values[argument], argument, target, self._limits.max_bytes)

    def _copy_in(self, values: dict[str, Any], paths: dict[str, Any], work: Path) -> None:
        """Copy what a tool has written to the folder."""
        for argument, kind in paths.items():
            if kind.new:
                self._folder.copy_in(work / PurePosixPath(values[argument]), values[argument], argument)


def _checked(name: str, values: dict[str, Any]) -> tuple[Tool, Arguments]:
    """Return a tool and its arguments; raises ConfigError."""
    if name not in TOOLS:
        raise ConfigError(
            f"there is no tool {shorten(name)!r}; expected one of {', '.join(TOOLS)}.{did_you_mean(name, TOOLS)}"
        )
    tool = TOOLS[name]
    try:
        return tool, tool.takes.model_validate(values)
    except ValidationError as error:
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        argument = shorten(".".join(map(str, first["loc"])), 60)
        if first["type"] == "extra_forbidden":
            names = ", ".join(tool.takes.model_fields)
            raise ConfigError(f"{name} has no argument {argument!r}; expected {names}") from None
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"the argument {argument} of {name} is wrong: {shorten(reason, 200)}") from None


def _without_paths(message: str, work: Path) -> str:
    """Return a message without absolute paths; those of the private folder become relative ones."""
    for folder in (os.path.realpath(work), str(work)):
        message = message.replace(f"{folder}/", "")
    return _PATH.sub("(a path outside)", message)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)
