"""How functions become commands: the common options, options in any order, and refusals in our form."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias, get_type_hints

import typer
from lcm_core.errors import CancelledError, LcmError, UsageError
from lcm_core.settings import Options, OutputFormat, SettingSource, resolve
from typer.core import TyperGroup

from lcm_tui.cli import options
from lcm_tui.cli.answer import PROGRAM, Answer, Run
from lcm_tui.cli.options import Presentation
from lcm_tui.cli.parameters import expanded, gathered

P = ParamSpec("P")
Outcome: TypeAlias = Answer | int

#: Options that take no value.
FLAGS = frozenset(
    {"--json", "--pretty", "--no-color", "--help", "-h", "--version", "--include-content", "--content"}
    | {"--assembled", "--no-clamp"}
    | {"--apply", "--dry-run", "--yes", "--quick-check", "--force", "--sql", "--keep", "--last"}
    | {"--aggressive"}
    | {"--skip-duplicates", "--assume-rollover"}
    | {"--recompact", "--single-root"}
    | {"--all", "--whole-file", "--keep-sources"}
    | {"--archive", "--delete", "--forget", "--empty", "--no-session-key", "--orphaned", "--archived"}
    | {"--vacuum"}
    | {"--with-later", "--unfold"}
    | {"--leaf", "--sweep", "--if-due", "--no-fallback"}
    | {"--current"}
    | {"--resume", "--show-prompts", "--no-previous", "--subtree", "--stale", "--contaminated"}
)
#: What typer raises for a command line that makes no sense; the class is exported under no name of its own.
PARSING_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError"
)


@dataclass(slots=True)
class Invocation:
    """What is known about a run before and after its command line is understood."""

    presentation: Presentation


class Group(TyperGroup):
    """Commands under a common word; an unknown one is refused as the engine refuses it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments of the group; one below the root needs a subcommand."""
        if not args and ctx.parent is not None and not ctx.resilient_parsing:
            known = ", ".join(self.list_commands(ctx))
            raise UsageError(f"{ctx.info_name} needs a subcommand: {known}.", code="INVALID_COMMAND")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that *args* begin with."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            words = " ".join([*ctx.command_path.split()[1:], args[0]])
            raise UsageError(f"Unknown command: {words}.", code="INVALID_COMMAND")
        return super().resolve_command(ctx, args)


def _common(
    *,
    db: options.Db = None,
    config: options.Config = None,
    openclaw_dir: options.OpenclawDir = None,
    sessions: options.Sessions = None,
    output: options.Format = None,
    as_json: options.AsJson = False,
    pretty: options.Pretty = False,
    no_color: options.NoColor = False,
) -> Run:
    """The options of every command, resolved."""
    given = options.common_options(db, config, openclaw_dir, sessions, output, as_json)
    settings = resolve(given, os.environ, home=Path.home())
    if settings.write_unknown_schema.value:
        from lcm_core.change.known_schema import allow_unknown_schema

        allow_unknown_schema(True)
    chosen = settings.output_format
    explicit_table = chosen.value is OutputFormat.TABLE and chosen.source is SettingSource.COMMAND_LINE
    wants_json = chosen.value is OutputFormat.JSON
    return Run(settings, Presentation(wants_json, explicit_table, pretty, not no_color))


_COMMON_PARAMETERS = tuple(inspect.signature(_common, eval_str=True).parameters.values())
_COMMON_NAMES = frozenset(parameter.name for parameter in _COMMON_PARAMETERS)


def with_common_options(function: Callable[Concatenate[Run, P], Outcome]) -> Callable[..., Outcome]:
    """*function* as typer calls it: with the common options, which become the `Run` it takes first.

    A parameter that is annotated with a dataclass stands for the options of its fields (`parameters`).
    """
    hints = get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    taken = [option for parameter in own for option in expanded(parameter)]

    # Typer passes keywords by name, which no signature can promise.
    common: Callable[..., Run] = _common
    outcome_of: Callable[..., Outcome] = function

    def invoke(context: typer.Context, **values: Any) -> Outcome:
        if context.invoked_subcommand is not None:  # the root, on the way to a command
            return 0
        try:
            run = common(**{name: values.pop(name) for name in _COMMON_NAMES})
            context.obj.presentation = run.presentation
            return outcome_of(run, **{parameter.name: gathered(parameter, values) for parameter in own})
        except KeyboardInterrupt:
            raise CancelledError("Cancelled; nothing was changed.") from None

    first = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    seen: Any = invoke  # a function has no declared signature to set
    seen.__signature__ = inspect.Signature([first, *taken, *_COMMON_PARAMETERS])
    seen.__doc__ = function.__doc__
    return invoke


def command(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Run, P], Outcome]], Callable[Concatenate[Run, P], Outcome]]:
    """Register a function of a `Run` and options as the command *name* of *app*."""

    def register(
        function: Callable[Concatenate[Run, P], Outcome],
    ) -> Callable[Concatenate[Run, P], Outcome]:
        app.command(name)(with_common_options(function))
        return function

    return register


def in_order(arguments: Sequence[str], groups: frozenset[str]) -> list[str]:
    """The same command line, the words of the command first: options may stand before and between them."""
    words: list[str] = []
    before: list[str] = []
    rest = list(arguments)
    while rest and rest[0] != "--" and len(words) < (2 if words and words[0] in groups else 1):
        if _is_option(rest[0]):
            taken = 1 if rest[0] in FLAGS or "=" in rest[0] else 2
            before += rest[:taken]
            rest = rest[taken:]
        else:
            words.append(rest.pop(0))
    return [*words, *before, *rest]


def flags_in(arguments: Sequence[str]) -> Iterator[str]:
    """The options on a command line, without their values."""
    skip = False
    for argument in arguments:
        if argument == "--":
            return
        if skip:
            skip = False
        elif _is_option(argument):
            yield argument
            skip = argument not in FLAGS and "=" not in argument


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and len(argument) > 1


def first_presentation(arguments: Sequence[str]) -> Presentation:
    """How to print before the command line is understood: by options, environment, or config file."""
    wanted: str | None = None
    for at, argument in enumerate(arguments):
        if argument == "--json":
            wanted = OutputFormat.JSON
        elif argument == "--format":
            wanted = arguments[at + 1] if at + 1 < len(arguments) else wanted
        elif argument.startswith("--format="):
            wanted = argument.removeprefix("--format=")
    if wanted not in {*OutputFormat}:
        try:
            wanted = resolve(Options(), os.environ, home=Path.home()).output_format.value
        except LcmError:
            wanted = OutputFormat.TABLE
    return Presentation(
        json=wanted == OutputFormat.JSON,
        pretty="--pretty" in arguments,
        color="--no-color" not in arguments,
    )


def refusal(error: Exception, known_options: frozenset[str]) -> UsageError:
    """What typer says of a command line, as one sentence of ours (docs/engine/command.md, "Errors")."""
    context = getattr(error, "ctx", None)
    words = [] if context is None else context.command_path.split()[1:]
    dotted = ".".join(words)
    option = getattr(error, "option_name", None)
    if isinstance(option, str):
        return _option_refusal(error, option, dotted, known_options)
    parameter = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and parameter is not None:
        needed = [str(one.metavar) for one in context.command.params if _is_needed(one)] if context else []
        usage = " ".join([PROGRAM, *words, *(needed or [str(parameter.metavar)])])
        return UsageError(f"{dotted} needs an argument: {usage}.", details={"command": dotted})
    text = str(getattr(error, "format_message", error.__str__)())
    return UsageError(text.rstrip(".") + ".", details={"command": dotted} if dotted else None)


def _is_needed(parameter: Any) -> bool:
    return bool(parameter.required) and parameter.param_type_name == "argument"


def _option_refusal(error: Exception, option: str, dotted: str, known_options: frozenset[str]) -> UsageError:
    name = option.lstrip("-")
    where = dotted or f"{PROGRAM} without a command"
    if type(error).__name__ != "NoSuchOption":
        takes_none = "does not take" in str(error)
        problem = "takes no value" if takes_none else "needs a value"
        return UsageError(f"{option} {problem}.", details={"option": name})
    if option in known_options:
        details = {"option": name, "command": dotted} if dotted else {"option": name}
        return UsageError(f"{option} is not supported by {where}.", details=details)
    near = getattr(error, "possibilities", None) or ()
    hint = f" Did you mean {' or '.join(sorted(near))}?" if near else ""
    return UsageError(f"Unknown option {option}.{hint}", details={"option": name})
