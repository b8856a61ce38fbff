"""Reports of failed commands: one paragraph and an exit code."""

from __future__ import annotations

import click

from pricekit.errors import ConfigError, PluginError, PricekitError
from pricekit.support.causes import causes, is_temporary, lacks_memory, lacks_threads
from pricekit.support.files import describe_failure
from pricekit.support.text import shorten

INVALID, USAGE, PLUGIN, TEMPORARY, USELESS, DRIFTED, INTERRUPTED = 1, 2, 3, 4, 5, 6, 130
"""The exit codes of failures; 0 is success. `pricekit --help` lists them."""


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error; a temporary cause, such as a full disk, outranks the error's own type."""
    if isinstance(error, click.exceptions.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        return error.exit_code
    if any(map(is_temporary, causes(error))):
        return TEMPORARY
    codes = {ConfigError: USAGE, PluginError: PLUGIN}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), INVALID)


def explain(error: BaseException) -> str:
    """Return one paragraph about an error, with the hint of `add_hint`."""
    return " ".join([_sentence(error), *getattr(error, "__notes__", ())])


def add_hint(error: PricekitError, context: click.Context) -> None:
    """Attach the options of the running command that fix an error, as a note such as "Set --text."."""
    if hasattr(error, "__notes__"):  # an inner command has already attached them
        return
    if hint := _hint(error, context):
        error.add_note(hint)


def _sentence(error: BaseException) -> str:
    if isinstance(error, PricekitError):
        return _closed(str(error)) if hasattr(error, "__notes__") else str(error)
    if any(map(lacks_memory, causes(error))):
        return "out of memory; use a smaller table or --limit, or a larger machine"
    if any(map(lacks_threads, causes(error))):
        return (
            "the system starts no more threads; end other programs, or raise the limits that ulimit -a shows"
        )
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        extra = "" if package == "pricekit" else ": pip install 'pricekit[train]'"
        return f"this command needs {error.name}, which is not installed{extra}"
    if isinstance(error, OSError):
        return describe_failure(error)
    text = shorten(str(error), 500)
    return (
        f"unexpected error: {type(error).__name__}: {text}. Please report it, with the output of the command when "
        "the environment variable PRICEKIT_TRACEBACK=1 is set"
    )


def _hint(error: PricekitError, context: click.Context) -> str:
    """Return "Set --text, or use --set, or add --overwrite." for those parameters of an error that are options of a
    command.
    """
    known = {parameter.name: parameter for parameter in context.command.params}
    names: dict[str, list[str]] = {"check": [], "set": [], "use": [], "add": []}
    for parameter in (known[name] for name in error.parameters if name in known):
        names[_verb(parameter, context)].append(_name(parameter))
    hint = ", or ".join(f"{verb} {' or '.join(found)}" for verb, found in names.items() if found)
    return f"{hint[0].upper()}{hint[1:]}." if hint else ""


def _verb(parameter: click.Parameter, context: click.Context) -> str:
    """Return the advice for a parameter: check it if it was given, otherwise set it."""
    given = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    if given or isinstance(parameter, click.Argument):
        return "check"
    if parameter.multiple if isinstance(parameter, click.Option) else False:
        return "use"
    return "add" if isinstance(parameter, click.Option) and parameter.is_flag else "set"


def _name(parameter: click.Parameter) -> str:
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name


def _closed(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
