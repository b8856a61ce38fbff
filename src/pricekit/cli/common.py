"""What every command has: a call of its function, the options for plugins and output, and hints in its errors."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from pricekit.cli.terminal import RESULT, print_json, set_level
from pricekit.errors import ConfigError, MachineError, PluginError, PricekitError
from pricekit.io.causes import causes, is_temporary, lacks_memory, lacks_threads
from pricekit.io.files import describe_failure
from pricekit.io.stdout import kept_for_data
from pricekit.options import READ_OPTIONS
from pricekit.wording import shorten

Result = TypeVar("Result")

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
    codes = {ConfigError: USAGE, PluginError: PLUGIN, MachineError: TEMPORARY}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), INVALID)


def explain(error: BaseException) -> str:
    """Return one clear error message, with the hint of `add_hint`."""
    return " ".join([_sentence(error), *getattr(error, "__notes__", ())])


def add_hint(error: PricekitError, context: click.Context) -> None:
    """Attach the options of the running command that fix an error, as a note such as "Set --text."."""
    if hasattr(error, "__notes__"):  # an inner command has already attached them
        return
    if hint := _hint(error, context):
        error.add_note(hint)


def _sentence(error: BaseException) -> str:
    if isinstance(error, PricekitError):
        text = str(error)
        return f"{text}." if hasattr(error, "__notes__") and not text.endswith((".", "?", "!")) else text
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
        option = isinstance(parameter, click.Option)
        shown = parameter.opts[0] if option else parameter.human_readable_name
        names[_verb(parameter, context)].append(shown)
    hint = ", or ".join(f"{verb} {' or '.join(shown)}" for verb, shown in names.items() if shown)
    return f"{hint[0].upper()}{hint[1:]}." if hint else ""


def _verb(parameter: click.Parameter, context: click.Context) -> str:
    """Return the advice for a parameter: check it if it was given, otherwise set it."""
    named = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
    if named or not isinstance(parameter, click.Option):
        return "check"
    if parameter.multiple and not getattr(parameter, "joined", False):  # a list of names is set as a whole
        return "use"
    return "add" if parameter.is_flag else "set"


def with_common_options(command: click.Command) -> click.Command:
    """Add the common options to a command, or to all commands of a group. A second call changes nothing."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_common_options(inner)
    elif not any(parameter.name == "log_format" for parameter in command.params):
        command.params += [*plugin_options(), *output_options()]
        if command.callback is not None:
            command.callback = kept_for_data()(_with_hints()(command.callback))
    return command


def output_options() -> list[click.Parameter]:
    """Return --quiet, --verbose and --log-format."""
    return _eager(
        click.Option(["--quiet"], is_flag=True, callback=_quiet, help="Print only errors and the result."),
        click.Option(["-v", "--verbose"], is_flag=True, callback=_verbose, help="Print details."),
        click.Option(
            ["--log-format"],
            type=click.Choice(["text", "json"]),
            default="text",
            callback=_log_format,
            help="json: one JSON object per line on stderr, without progress bars.",
        ),
    )


def _eager(*options: click.Option) -> list[click.Parameter]:
    """Return options that act in their callbacks, before the other options are parsed."""
    for option in options:
        option.is_eager, option.expose_value = True, False
    return list(options)


def _quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    if quiet:
        set_level(RESULT)
        _hide_progress(context)


def _verbose(context: click.Context, _: click.Parameter, verbose: bool) -> None:
    if verbose:
        set_level(logging.DEBUG)


def _log_format(context: click.Context, _: click.Parameter, log_format: str) -> None:
    if log_format == "json":
        print_json()
        _hide_progress(context)


def _hide_progress(context: click.Context) -> None:
    from pricekit.io.progress import use_reporter

    context.with_resource(use_reporter(None))


def call(function: Callable[..., Result], flags: Mapping[str, Any]) -> Result:
    """Call a function of pricekit with the flags of its command, which have the names of its parameters."""
    return function(**flags)


def ask_model(method: str, flags: Mapping[str, Any]) -> Any:
    """Return the answer of a method of the model that a command names.

    Without a table, and for a report, it may also be a cross-validation or a search, which answers about the rows that
    it held out.

    Args:
        method: its name.
        flags: of the command; for a cross-validation, options for reading a table are an error.

    Raises:
        PricekitError: as of the method; or the model cannot be opened.
    """
    import pricekit as pk

    options = dict(flags)
    path, engine, trust = (options.pop(name) for name in ("model", "engine", "trust"))
    of_table = flags["table"] is not None and method != "report"
    trained = (pk.Model if of_table else pk.load)(path, engine, trust=trust)
    if isinstance(trained, pk.Tuning):
        trained = trained.model
    if method != "report" and isinstance(trained, pk.CrossValidation):
        from pricekit.options import WeighedOptions, refuse_reading_options

        refuse_reading_options(
            {name: options.pop(name) for name in ("table", *WeighedOptions.__annotations__)}
        )
    return call(getattr(trained, method), options)


@contextmanager
def _with_hints() -> Iterator[None]:
    """Add the options that fix an error to the errors that a command raises."""
    try:
        yield
    except PricekitError as error:
        add_hint(error, click.get_current_context())
        raise


def plugin_options() -> list[click.Parameter]:
    """Return --plugin and --no-plugins."""
    return _eager(
        click.Option(
            ["--plugin", "plugin_files"],
            type=click.Path(),
            multiple=True,
            metavar="FILE",
            callback=lambda context, _, paths: load_files(context, paths),
            help="Python file of plugins to load in addition to the installed packages.",
        ),
        click.Option(["--no-plugins"], is_flag=True, callback=_load_none, help="Load no plugin packages."),
    )


def load_files(context: click.Context, paths: Sequence[str]) -> None:
    """Load Python files of plugins, until the command ends."""
    if paths:
        from pricekit.core.loader import FILES, with_files

        try:
            files = with_files(paths)
        except ConfigError as error:
            raise click.BadParameter(str(error), context, param_hint="--plugin") from None
        context.with_resource(_environment(FILES, files))


def read_flags(flags: dict[str, Any]) -> list[str]:
    """Return the command-line words that read a table in the same way."""
    words = []
    for name in READ_OPTIONS:
        if value := flags.get(name):
            joined = value if isinstance(value, str) else ",".join(value)
            words += [f"--{name.replace('_', '-')}", "tab" if joined == "\t" else joined]
    return words


def again(files: Container[str] | None = None) -> str:
    """Return the --plugin options that the next command also needs.

    Args:
        files: the names of the plugin files that it needs; None: all that this command has.
    """
    from pricekit.core.loader import plugin_files

    needed = [path for path in plugin_files() if files is None or Path(path).name in files]
    return "".join(f" --plugin {shlex.quote(os.path.relpath(path))}" for path in needed)


def _load_none(context: click.Context, _: click.Parameter, none: bool) -> None:
    if none:
        from pricekit.core.loader import ONLY

        context.with_resource(_environment(ONLY, ""))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable of the loader until the command ends, also for processes that it starts."""
    from pricekit.core.loader import registry

    before = os.environ.get(name)
    os.environ[name] = value
    registry.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})
        registry.cache_clear()
