"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from pricekit.cli.main import COMMANDS, cli


def commands_page() -> str:
    """Return every command as Markdown: its usage, its help, its arguments and options."""
    context = click.Context(cli, info_name="pricekit")
    return "\n\n".join(
        part for name in COMMANDS for part in _command(cli.get_command(context, name), name, context)
    )


def _command(command: click.Command | None, name: str, above: click.Context) -> Iterator[str]:
    assert command is not None, name
    context = click.Context(command, above, info_name=name, help_option_names=["-h", "--help"])
    depth = "##" if above.parent is None else "###"
    yield f"{depth} pricekit {context.command_path.partition(' ')[2]}"
    yield f"```\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield _paragraphs(command.help or "")
    options = [_option(parameter, context) for parameter in command.get_params(context)]
    if rows := [f"`{names}`\n: {text}" for names, text in filter(None, options)]:
        yield "\n\n".join(rows)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(command.get_command(context, inner), inner, context)


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    if record is None:
        return None
    names, text = record
    text = " ".join(_plain(text).split())
    return names, text or "As in the usage above."


def _paragraphs(text: str) -> str:
    """Return help as Markdown; `\\b` marks paragraphs whose lines stay as they are."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(
        f"```\n{part.removeprefix(chr(8)).strip(chr(10))}\n```" if part.startswith("\b") else _plain(part)
        for part in parts
    )


def _plain(text: str) -> str:
    return re.sub(r"([*_<>\[\]|])", r"\\\1", text)
