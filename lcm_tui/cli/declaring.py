"""What a command is: a function whose parameters are annotated with the options that they stand for.

    @command("dissolve", examples=("dissolve 3 --summary sum_4c4b",))
    def dissolve(run: Run, *, conversation: ConversationOptions, keep: Keep = False) -> Answer:
        "The first sentence is shown where commands are listed."

A parameter that is annotated with a dataclass stands for the options of its fields, at any depth; a field
that is annotated with no option keeps its default, and a subclass may make an option of it. The modules of
commands import nothing of the core but kinds of values: what a command needs it imports when it is called,
so that help, completion and refusals are quick.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias, get_origin

import click

from lcm_tui.cli.kinds import Choice, Kind, Raw, StoredText

if TYPE_CHECKING:
    from lcm_core.base.settings import Options

    from lcm_tui.cli.answer import Answer, Run


P = ParamSpec("P")
Outcome: TypeAlias = "Answer | int"

#: The section of a command's help that its own options stand in.
OPTIONS = "Options"


@dataclass(frozen=True, slots=True)
class Option:
    """An option; without a *kind* it is a flag, which takes no value."""

    flag: str  #: such as ``--budget``
    help: str
    kind: Kind[Any] | None = None
    metavar: str = ""  #: what stands for the value in help
    several: bool = False  #: it may be given several times; the parameter is a tuple
    section: str = OPTIONS
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument; one with a default may be left out."""

    name: str  #: in capitals
    help: str
    kind: Kind[Any] = dataclasses.field(default_factory=StoredText)
    several: bool = False  #: the parameter is a tuple


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter of a command: its name in Python, what was declared, and its default."""

    name: str
    shape: Option | Argument
    default: Any = Parameter.empty

    @property
    def needed(self) -> bool:
        """Whether it cannot be left out."""
        return self.default is Parameter.empty


@dataclass(frozen=True)
class Command:
    """A command as it was declared."""

    path: str  #: its words, such as ``history undo``
    function: Callable[..., Outcome]
    examples: tuple[str, ...] = ()  #: without the name of the program
    forms: tuple[str, ...] = ()  #: what ``--format`` takes besides that of every command

    @property
    def dotted(self) -> str:
        """Its name for machines, such as ``history.undo``."""
        return self.path.replace(" ", ".")

    @property
    def help(self) -> str:
        """What it does."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def parameters(self) -> tuple[Declared, ...]:
        """Its own options and arguments, in their order."""
        return tuple(declared for _, _, several in self._taken for declared in several)

    @cached_property
    def _taken(self) -> tuple[tuple[str, Any, tuple[Declared, ...]], ...]:
        """Each parameter of the function behind the first: its name, its annotation, what it stands for."""
        scope = vars(sys.modules[self.function.__module__])
        taken = list(inspect.signature(self.function).parameters.values())[1:]
        found = ((one, eval(one.annotation, scope)) for one in taken)  # what we wrote ourselves
        return tuple((one.name, kind, tuple(_declared(one.name, kind, one.default))) for one, kind in found)

    def takes(self, options: type[Any]) -> bool:
        """Whether one of its parameters holds the options of this dataclass, at any depth."""
        return any(issubclass(one, options) for _, kind, _ in self._taken for one in _records(kind))

    def call(self, run: Run, values: Mapping[str, Any]) -> Outcome:
        """Run it with the *values* of its options and arguments by name."""
        return self.function(run, **{name: gathered(name, kind, values) for name, kind, _ in self._taken})


def command(
    path: str, *, examples: Sequence[str] = (), forms: Sequence[str] = ()
) -> Callable[[Callable[Concatenate[Run, P], Outcome]], Command]:
    """Declare a function of a `Run` and options as the command of these words."""
    return lambda function: Command(path, function, tuple(examples), tuple(forms))


def _declared(name: str, annotation: Any, default: Any = Parameter.empty) -> Iterator[Declared]:
    if _is_record(annotation):
        for field, kind in _fields(annotation):
            unset = field.default is dataclasses.MISSING
            yield from _declared(field.name, kind, Parameter.empty if unset else field.default)
    else:
        yield Declared(name, _shape(annotation), default)


def gathered(name: str, annotation: Any, values: Mapping[str, Any]) -> Any:
    """The value of a parameter, of the *values* of its options by name."""
    if not _is_record(annotation):
        return values[name]
    return annotation(**{one.name: gathered(one.name, kind, values) for one, kind in _fields(annotation)})


def declared_in(options: type[Any]) -> tuple[Declared, ...]:
    """The options that a dataclass stands for."""
    return tuple(_declared("", options))


@cache
def _fields(kind: Any) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    """The fields of a dataclass that are annotated with options, with their annotations."""
    found = ((one, _annotation(kind, one)) for one in dataclasses.fields(kind))
    return tuple((one, given) for one, given in found if _is_annotated(given))


def _is_annotated(given: Any) -> bool:
    return get_origin(given) is Annotated or _is_record(given)


def _is_record(given: Any) -> bool:
    """Whether an annotation is a dataclass, which stands for several options."""
    return dataclasses.is_dataclass(given)


def _records(given: Any) -> Iterator[type[Any]]:
    """The dataclasses that an annotation names."""
    if _is_record(given):
        yield given
        for _, kind in _fields(given):
            yield from _records(kind)


def _annotation(kind: Any, field: dataclasses.Field[Any]) -> Any:
    owner = next(one for one in kind.__mro__ if field.name in inspect.get_annotations(one))
    try:
        return eval(str(field.type), vars(sys.modules[owner.__module__]))
    except NameError:  # a type that is imported for checkers only: no option
        return None


def _shape(annotation: Any) -> Option | Argument:
    shapes: list[Option | Argument] = [
        one for one in annotation.__metadata__ if isinstance(one, Option | Argument)
    ]
    return shapes[0]


# -- as click has it -------------------------------------------------------------------------------------


class ClickOption(click.Option):
    """An option with what is declared of it."""

    def __init__(self, declared: Declared, shape: Option) -> None:
        self.shape = shape
        kind: dict[str, Any] = {"type": shape.kind, "metavar": shape.metavar or None}
        super().__init__(
            [shape.flag, declared.name],
            help=shape.help,
            hidden=shape.hidden,
            multiple=shape.several,
            **(kind if shape.kind else {"is_flag": True}),
        )


class ClickArgument(click.Argument):
    """An argument with help."""

    def __init__(self, declared: Declared, shape: Argument) -> None:
        self.words = shape.help
        needed = declared.needed
        dots = "..." if shape.several else ""
        super().__init__(
            [declared.name],
            type=shape.kind,
            required=needed,
            nargs=-1 if shape.several else 1,
            metavar=f"{shape.name}{dots}" if needed else f"[{shape.name}{dots}]",
        )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Its name and what it means."""
        return self.make_metavar(ctx), self.words


def click_parameter(declared: Declared) -> click.Parameter:
    """A declared parameter as click has it."""
    shape = declared.shape
    return ClickOption(declared, shape) if isinstance(shape, Option) else ClickArgument(declared, shape)


# -- common ---------------------------------------------------------------------------------------------
# The options of every command, which stand before or after its words.

#: Forms of some commands: CSV of what takes `PageOptions`, the others where a command declares them.
FORMS: Final = ("csv",)

COMMON: Final = "Common options"

Db: TypeAlias = Annotated[str | None, Option("--db", "The database file.", Raw(), "PATH", section=COMMON)]
Config: TypeAlias = Annotated[
    str | None, Option("--config", "The host's openclaw.json.", Raw(), "PATH", section=COMMON)
]
OpenclawDir: TypeAlias = Annotated[
    str | None, Option("--openclaw-dir", "The host's state folder.", Raw(), "PATH", section=COMMON)
]
Sessions: TypeAlias = Annotated[
    str | None,
    Option("--sessions", "A sessions folder, or a folder of agents.", Raw(), "DIR", section=COMMON),
]
Format: TypeAlias = Annotated[
    str | None,
    Option(
        "--format",
        "JSON, or the engine's tab-separated table; without it a table for people. Lists also CSV.",
        Choice("json", "table", *FORMS),
        "json|table|csv",
        section=COMMON,
    ),
]
AsJson: TypeAlias = Annotated[bool, Option("--json", "The same as --format json.", section=COMMON)]
Pretty: TypeAlias = Annotated[bool, Option("--pretty", "Indent JSON.", section=COMMON)]
NoColor: TypeAlias = Annotated[bool, Option("--no-color", "No bold and dim text.", section=COMMON)]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "Print only errors; the exit code is the answer.", section=COMMON)
]
Utc: TypeAlias = Annotated[
    bool, Option("--utc", "Show times in UTC; typed ones that name no zone are UTC, too.", section=COMMON)
]
Verbose: TypeAlias = Annotated[
    bool,
    Option(
        "--verbose",
        "Report on standard error which files are used and how long it took; with --version, all versions.",
        section=COMMON,
    ),
]
AllowUnknownSchema: TypeAlias = Annotated[
    bool,
    Option(
        "--allow-unknown-schema",
        "Also change rows to which a table or column refers that lcm-tui does not know.",
        section=COMMON,
    ),
]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """What every command takes."""

    db: Db = None
    config: Config = None
    openclaw_dir: OpenclawDir = None
    sessions: Sessions = None
    output: Format = None
    as_json: AsJson = False
    pretty: Pretty = False
    no_color: NoColor = False
    quiet: Quiet = False
    utc: Utc = False
    verbose: Verbose = False
    allow_unknown_schema: AllowUnknownSchema = False

    def settings(self) -> Options:
        """The same as the settings want it."""
        from lcm_core.base.setting_values import OutputFormat
        from lcm_core.base.settings import Options

        given = OutputFormat.JSON if self.as_json else self.output
        chosen = None if given is None else OutputFormat.TABLE if given in FORMS else OutputFormat(given)
        return Options(
            self.db,
            self.config,
            self.openclaw_dir,
            self.sessions,
            output_format=chosen,
            allow_unknown_schema=self.allow_unknown_schema,
            utc=self.utc,
        )
