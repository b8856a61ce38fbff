"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

import click

from pricekit.cli.completion import completer
from pricekit.errors import ConfigError
from pricekit.io.sources import refuse_credentials
from pricekit.options import OpenOptions, Parameter, parameters_of

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Place(click.Path):
    """A path or an address. One with a password is refused before anything prints it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        refuse_credentials(str(value), "table" if param is None or param.name is None else param.name)
        return super().convert(value, param, ctx)


TABLE = FOLDER = _Place()
REQUIRED = "required"
"""Instead of a default: the command needs the option."""

optional_table = click.argument("table", type=TABLE, required=False)


def flag(name: str, text: str) -> Decorator:
    """Return an option without a value, with its help."""
    return click.option(name, is_flag=True, help=text)


def json_option(text: str) -> Decorator:
    """Return --json with its help."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def options_of(declared: type, **defaults: str) -> Decorator:
    """Return a decorator that adds the options of a function of pricekit to its command.

    Args:
        declared: the TypedDict of the options.
        defaults: what holds without an option, by its name, where the command differs from the function.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, parameter in reversed(parameters_of(declared).items()):
            words = defaults.get(name, "")
            command = click.option(cls=DeclaredOption, parameter=parameter, words=words)(command)
        return command

    return decorate


def limit_options(limits: type) -> Decorator:
    """Return a decorator that adds an option for each field of a dataclass of limits to a command.

    Args:
        limits: its fields are numbers, seconds if of the type float. Their metadata have the text `help`, and
            `may_be_zero` if 0 is allowed.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(fields(limits)):
            text, seconds = each.metadata["help"], each.type in (float, "float")
            strict = not each.metadata.get("may_be_zero", False)
            command = click.option(
                f"--{each.name.replace('_', '-')}",
                type=click.FloatRange(min=0, min_open=strict) if seconds else click.IntRange(min=int(strict)),
                metavar="SECONDS" if seconds else "N",
                default=each.default,
                show_default=True,
                help=f"{text[:1].upper()}{text[1:]}.",
            )(command)
        return command

    return decorate


def model_and_table(declared: type, *, required: bool = True) -> Decorator:
    """Return a decorator that adds the arguments and options of a method of `Model` to its command.

    Args:
        declared: the TypedDict of its options, which follow the model and the table.
        required: the method needs a table.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = options_of(declared)(options_of(OpenOptions)(command))
        command = click.argument("table", type=TABLE, required=required)(command)
        return click.argument("model", type=FOLDER)(command)

    return decorate


class DeclaredOption(click.Option):
    """An option that a TypedDict in `pricekit.options` declares.

    Its help is read when it is shown, because settings import pydantic.

    Args:
        names: none; the declaration has them.
        parameter: its declaration.
        words: what holds without it, if not what the declaration says.
    """

    def __init__(self, names: Sequence[str], *, parameter: Parameter, words: str) -> None:
        self.parameter, self.words = parameter, words
        kinds, named = parameter.kinds, parameter.option.names
        self.joined = parameter.several and named not in ("", "setting", "measure")
        default = parameter.option.default
        super().__init__(
            [_flags(parameter), parameter.name],
            required=parameter.required or words == REQUIRED,
            is_flag=bool in kinds,
            default=False if parameter.annotation is bool else None if default == () else default,
            type=_type(parameter),
            multiple=parameter.several,
            metavar=parameter.option.metavar or named.upper() or ("N" if int in kinds else None),
            shell_complete=completer(named, several=self.joined),
        )

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the names in texts that are joined by commas, and None for no value where Python has None."""
        value = super().process_value(ctx, value)
        if value is None and self.required:  # for click, a default of None is a value
            raise click.MissingParameter(ctx=ctx, param=self)
        if self.joined:
            value = split_names(value)
        try:
            self.parameter.check(value)
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, self) from None
        return self.parameter.default if self.multiple and not value else value

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flags and the description."""
        text, default = self.parameter.describe()
        text = f"{text[:1].upper()}{text[1:]}."
        if self.multiple:
            text += (
                " Names are joined by commas, or the option is repeated."
                if self.joined
                else " May be repeated."
            )
        if default and not self.required:
            text += f"  [default: {self.words or default}]"
        flags = {
            one.name: one.opts[0] if isinstance(one, click.Option) else one.human_readable_name
            for one in ctx.command.params
        }
        self.help = re.sub(r"`(\w+)`", lambda word: flags.get(word[1], word[1]), text)
        return super().get_help_record(ctx)


def _flags(parameter: Parameter) -> str:
    """Return the flags of an option, as `click.option` takes them."""
    name = {"settings": "set"}.get(parameter.name, parameter.name).replace("_", "-")
    flags = f"--{name}" if len(name) > 1 else f"-{name}"
    return f"{flags}/--no-{name}" if parameter.annotation == bool | None else flags


def _type(parameter: Parameter) -> Any:
    """Return the type of the values on the command line; functions check all else."""
    kinds = parameter.kinds
    if parameter.choices:
        return click.Choice(parameter.choices)
    if parameter.is_path:
        return TABLE
    if bool in kinds:
        return bool
    if parameter.is_numbers:
        return _numbers
    return parameter.number or (_whole if int in kinds else str)


def _numbers(text: str) -> list[float] | str:
    """Return numbers that are joined by commas, and another text as it is."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return text


def _whole(text: str) -> int | str:
    """Return a text of digits as a number, and another one as it is."""
    return int(text) if text.isdecimal() else text


def split_names(values: Iterable[str]) -> list[str]:
    """Return all names in texts with names that are separated by commas."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
