"""What a command is: a function of a `Run` and of the values of its options, as click declares them.

    @command("dissolve", examples=("dissolve 1 --summary sum_4c4b",))
    @options.summary_options
    @flag("--keep", "Keep the summary in the database.")
    def dissolve(run: Run, *, target: SummaryOptions, keep: bool) -> Answer:
        "The first sentence is shown where commands are listed."

Every command has the common options besides its own. What takes long to import, such as what a change
needs, is imported where it is used, so that help and completion are quick.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click
from lcm_core.base.errors import ConfigurationError, FileMissingError, UsageError
from lcm_core.base.values import Record, Struct

from lcm_tui.cli.kinds import Choice, FilePath, RawPath
from lcm_tui.cli.presentation import PROGRAM, Presentation, cancelled

if TYPE_CHECKING:
    from lcm_core.base.settings import Options

    from lcm_tui.cli.answer import Outcome, Run

F = TypeVar("F", bound=Callable[..., Any])
Decorator: TypeAlias = Callable[[Any], Any]

#: The sections of a command's help.
OPTIONS, COMMON = "Options", "Common options"
#: Forms that only some commands have, where they declare it.
FORMS: Final = ("csv",)
#: The variable that says how answers are printed.
FORMAT_VARIABLE: Final = "LCM_TUI_FORMAT"


class Sectioned(click.Option):
    """An option in a section of its own in help."""

    def __init__(self, *args: Any, section: str, **attributes: Any) -> None:
        self.section = section
        super().__init__(*args, **attributes)


def option(
    name: str, kind: click.ParamType[Any], metavar: str, words: str, *, into: str = "", **more: Any
) -> Decorator:
    """An option with a value, which its *words* explain; *into*: the parameter if the name is another.

    A *section* and what else click knows may be given.
    """
    names = (name, into) if into else (name,)
    chosen = {"section": OPTIONS, **more}
    return click.option(*names, cls=Sectioned, type=kind, metavar=metavar, help=words, **chosen)


def flag(name: str, words: str, *, into: str = "", section: str = OPTIONS) -> Decorator:
    """An option without a value."""
    names = (name, into) if into else (name,)
    return click.option(*names, cls=Sectioned, section=section, is_flag=True, help=words)


def argument(name: str, kind: click.ParamType[Any], metavar: str, words: str, **more: Any) -> Decorator:
    """A word of the command line that is no option."""
    return click.argument(name, type=kind, metavar=metavar, help=words, **more)


def gather(name: str, kind: type[Struct], *parameters: Decorator) -> Callable[[F], F]:
    """Declare some *parameters*, whose values a function gets as one record, in the parameter *name*."""

    def declare(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            given = {name: values.pop(name) for name in kind.__struct_fields__ if name in values}
            return function(*args, **{name: kind(**given)}, **values)

        declared: Any = call
        declared.gathered = (kind, *getattr(function, "gathered", ()))
        for each in reversed(parameters):
            declared = each(declared)
        return declared  # type: ignore[no-any-return]

    return declare


def parameters_of(*declared: Decorator) -> list[click.Parameter]:
    """The options and arguments that decorators declare."""

    def nothing() -> None: ...

    function: Any = nothing
    for each in reversed(declared):
        function = each(function)
    return list(reversed(function.__click_params__))


# -- common ---------------------------------------------------------------------------------------------
# The options of every command, which stand before or after its words.


class CommonOptions(Record, frozen=True):
    """What every command takes."""

    db: str | None = None
    config: str | None = None
    openclaw_dir: str | None = None
    sessions: str | None = None
    output: str | None = None
    as_json: bool = False
    pretty: bool = False
    no_color: bool = False
    quiet: bool = False
    utc: bool = False
    verbose: bool = False
    allow_unknown_schema: bool = False

    @property
    def form(self) -> str:
        """The form that only some commands have; empty: one of every command's."""
        return self.output or "" if self.output in FORMS and not self.as_json else ""

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


_common: Final = partial(option, section=COMMON)
_common_flag: Final = partial(flag, section=COMMON)
_QUIET: Final = "Print only errors; the exit code is the answer."
common_options = gather(
    "common",
    CommonOptions,
    _common("--db", RawPath(), "PATH", "The database file."),
    _common("--config", RawPath(), "PATH", "The host's openclaw.json."),
    _common("--openclaw-dir", RawPath(), "PATH", "The host's state folder."),
    _common("--sessions", RawPath(), "DIR", "A sessions folder, or a folder of agents."),
    _common(
        "--format",
        Choice("json", "table", *FORMS),
        "json|table|csv",
        "JSON, or the engine's tab-separated table; without it a table for people. Lists also CSV.",
        into="output",
    ),
    _common_flag("--json", "The same as --format json.", into="as_json"),
    _common_flag("--pretty", "Indent JSON."),
    _common_flag("--no-color", "No colours, no bold and dim text; drawings in letters."),
    click.option("-q", "--quiet", cls=Sectioned, section=COMMON, is_flag=True, help=_QUIET),
    _common_flag("--utc", "Show times in UTC; typed ones that name no zone are UTC, too."),
    _common_flag(
        "--verbose",
        "Report on standard error which files are used and how long it took; with --version, all versions.",
    ),
    _common_flag(
        "--allow-unknown-schema",
        "Also change rows to which a table or column refers that lcm-tui does not know.",
    ),
)


# -- help and version -----------------------------------------------------------------------------------


class Invocation(Struct):
    """What is known about a run of the program as its command line is understood."""

    presentation: Presentation | None = None  #: None: not understood so far
    page: str | None = None  #: help that was asked for
    asked_for: str = ""  #: the words of the command whose help it is
    version: bool = False  #: it was asked for


def _asks_for_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.obj.page = ctx.get_help()
        ctx.obj.asked_for = words_of(ctx)
        ctx.exit()


def _asks_for_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.obj.version = True
        ctx.exit()


def _asking(*names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, is_flag=True, is_eager=True, expose_value=False, **attributes)


def outer_parameters(*, shows_version: bool = False) -> list[click.Parameter]:
    """The common options, and those that ask for the version or for help."""
    return parameters_of(
        common_options,
        _asking(
            *("-v", "--version"),
            callback=_asks_for_version,
            hidden=not shows_version,
            help="Print the version and exit.",
        ),
        _asking("-h", "--help", callback=_asks_for_help, help="Show this message and exit."),
    )


def words_of(ctx: click.Context) -> str:
    """The words of the command that is parsed; empty for the program itself."""
    return " ".join(ctx.command_path.split()[1:])


#: Where the words that were typed are kept if they mean another command (`tree.MEANING`).
TYPED: Final = "typed words"


def typed_words(ctx: click.Context) -> str:
    """The words by which the command that is parsed was called: its own, or earlier ones."""
    return str(ctx.meta.get(TYPED) or words_of(ctx))


class Paged(click.Command):
    """A command, or a group of them: its help has sections, and what it refuses has its context."""

    examples: tuple[str, ...] = ()  #: without the name of the program

    def shown(self) -> list[click.Parameter]:
        """What its help tells of."""
        return self.params

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it does, and its examples."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write_text(f"{PROGRAM} {example}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those under other titles, the common ones."""
        sections: dict[str, list[tuple[str, str]]] = {OPTIONS: []}
        for one in self.shown():
            title = one.section if isinstance(one, Sectioned) else OPTIONS
            if isinstance(one, click.Option) and (record := one.get_help_record(ctx)):
                sections.setdefault(title, []).append(record)
        sections[COMMON] = sections.pop(COMMON, [])
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take its arguments."""
        if not ctx.resilient_parsing:
            refuse_dashes(self.params, args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


def takes_value(one: click.Parameter) -> bool:
    """Whether a parameter is an option with a value."""
    return isinstance(one, click.Option) and not one.is_flag


def refuse_dashes(params: Sequence[click.Parameter], arguments: Sequence[str]) -> None:
    """Refuse what stands behind an option and begins with a dash: more often a value was forgotten."""
    valued = {name for one in params if takes_value(one) for name in one.opts}
    option, databases = "", 0
    for argument in arguments:
        if option and argument.startswith("-") and len(argument) > 1:
            raise UsageError(
                f"{option} needs a value; join a value that begins with a dash: {option}={argument}.",
                details={"option": option.lstrip("-"), "value": argument},
            )
        if not option and argument == "--":
            return
        databases += not option and argument.partition("=")[0] == "--db"
        if databases > 1:
            raise UsageError("--db is given twice: name one database.", details={"option": "db"})
        option = argument if not option and argument in valued else ""


# -- commands -------------------------------------------------------------------------------------------

#: Commands that use no setting of the host's, or say themselves what of its configuration was not read.
_WITHOUT_HOST: Final = frozenset({"", "config", "demo"})


class Command(Paged):
    """One command."""

    def __init__(
        self,
        *args: Any,
        path: str,
        examples: tuple[str, ...] = (),
        forms: tuple[str, ...] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **{**attributes, "add_help_option": False})
        self.path = path  #: its words, such as ``history undo``
        self.examples = examples
        self.forms = forms  #: what ``--format`` takes besides that of every command
        self.help = inspect.cleandoc(self.help or "")
        self.own = tuple(self.params)  #: its own options and arguments
        self.params += outer_parameters(shows_version=not path)

    @property
    def dotted(self) -> str:
        """Its name for machines, such as ``history.undo``."""
        return self.path.replace(" ", ".")

    @property
    def arguments(self) -> list[click.Argument]:
        """Its arguments."""
        return [one for one in self.own if isinstance(one, click.Argument)]

    def takes(self, options: type[Any]) -> bool:
        """Whether it gathers the options of this dataclass."""
        return any(issubclass(one, options) for one in getattr(self.callback, "gathered", ()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take its arguments; what is too much is refused by what it is."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            raise UsageError(
                f"{self.path} does not take {' '.join(rest)}: {self.usage(ctx)}.{self._meant(rest[0])}",
                code="INVALID_COMMAND",
                details={"command": self.dotted},
            )
        return rest

    def usage(self, ctx: click.Context) -> str:
        """Its words with its arguments."""
        return " ".join([PROGRAM, self.path, *(one.make_metavar(ctx) for one in self.arguments)])

    def _meant(self, word: str) -> str:
        """The option that a word too many was meant for: that of a summary, or the one that takes a path."""
        if word.startswith("sum_") and any("--summary" in one.opts for one in self.own):
            return f" Name a summary by an option: --summary {word}."
        taking = [one.opts[0] for one in self.own if takes_value(one) and isinstance(one.type, FilePath)]
        if word.endswith(".db") and self.path != "backup":
            taking = ["--db"]
        looks_so = os.sep in word or word.endswith((".db", ".json", ".jsonl"))
        return f" Did you mean {taking[0]} {shlex.quote(word)}?" if looks_so and len(taking) == 1 else ""

    def invoke(self, ctx: click.Context) -> Outcome:
        """Run it with what was parsed."""
        from lcm_core.base.setting_values import OutputFormat, SettingSource
        from lcm_core.base.settings import resolve

        from lcm_tui.cli.answer import Run

        values = dict(ctx.params)
        common = CommonOptions(**{name: values.pop(name) for name in CommonOptions.__struct_fields__})
        try:
            settings = resolve(common.settings(), os.environ, home=Path.home())
            sessions = settings.sessions
            if sessions.source is SettingSource.COMMAND_LINE and not sessions.value.exists():
                raise FileMissingError(
                    "folder of sessions", sessions.value, "Check --sessions.", code="FOLDER_NOT_FOUND"
                )
            if settings.write_unknown_schema.value:
                from lcm_core.change.schema import allow_unknown_schema

                allow_unknown_schema(True)
            if values.get("allow_unread_wal") and values.get("apply"):
                from lcm_tui.cli.verbose import keep_unread_wal

                keep_unread_wal(settings, quiet=common.quiet)
            chosen, form = settings.output_format, common.form
            explicit_table = (
                chosen.value is OutputFormat.TABLE and chosen.source is SettingSource.COMMAND_LINE
            )
            presentation = Presentation(
                chosen.value is OutputFormat.JSON,
                explicit_table and not form,
                common.pretty,
                not common.no_color,
                form,
                common.quiet,
            )
            if FORMAT_VARIABLE in {one.where for one in settings.diagnostics if self.path}:
                problem = f"{FORMAT_VARIABLE} must be json or table, not {os.environ[FORMAT_VARIABLE]!r}."
                raise ConfigurationError(problem, details={"variable": FORMAT_VARIABLE})
            if common.as_json and common.output in FORMS:
                raise UsageError(f"--json and --format {common.output} exclude each other: give one of them.")
            self._check_form(form)  # else the error has the form that applies without it
            ctx.obj.presentation = presentation
            run = Run(settings, presentation)
            if common.verbose:
                from lcm_tui.cli.verbose import verbose

                with verbose(settings):
                    return self._call(run, values)
            silent = common.quiet or (self.dotted in _WITHOUT_HOST and not values.get("path"))
            if silent or not settings.unread:
                return self._call(run, values)
            from lcm_tui.cli.verbose import with_unread

            return with_unread(settings.unread, presentation, lambda: self._call(run, values))
        except KeyboardInterrupt:
            raise cancelled() from None

    def _call(self, run: Run, values: dict[str, Any]) -> Outcome:
        assert self.callback is not None
        outcome: Outcome = self.callback(run, **values)
        return outcome

    def _check_form(self, form: str) -> None:
        """Refuse a *form* that it does not have, before it does anything."""
        if form and form not in self.forms:
            named = self.dotted or f"{PROGRAM} without a command"
            has = ", ".join(["json", "table", *self.forms])
            raise UsageError(
                f"--format {form} is not supported by {named}: it has {has}.",
                details={"option": "format", "value": form, "command": self.dotted},
            )


def command(
    path: str, *, examples: Sequence[str] = (), forms: Sequence[str] = ()
) -> Callable[[Callable[..., Outcome]], Command]:
    """Declare a function of a `Run` and of options as the command of these words."""
    return click.command(
        (path.split() or [""])[-1], cls=Command, path=path, examples=tuple(examples), forms=tuple(forms)
    )
