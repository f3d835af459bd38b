"""A command line read with the options of every command, before any command is meant.

The engine's command reads it so first, which decides what it says of two mistakes at once
(docs/engine/command.md, "Errors").
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from lcm_core.base.errors import FileMissingError, LcmError, UsageError

from lcm_tui.cli import registry
from lcm_tui.cli.declaring import (
    COMMON,
    FORMS,
    OPTIONS,
    Argument,
    ClickOption,
    Command,
    CommonOptions,
    Option,
    Outcome,
    click_parameter,
    declared_in,
    gathered,
)
from lcm_tui.cli.kinds import FilePath
from lcm_tui.cli.presentation import PROGRAM, Presentation, cancelled

#: What the engine's command knows beside the common options; all else it refuses before it looks at words.
ENGINE_OPTIONS: Final = frozenset(
    {
        *("--conversation-id", "--session-key"),
        *("--after", "--before", "--between", "--recency", "--limit", "--cursor"),
        *("--role", "--include-content", "--depth", "--kind", "--count"),
    }
)
_HELP, _VERSION = ("-h", "--help"), ("-v", "--version")


@dataclass(slots=True)
class Scanned:
    """The words of a command line that are no options, and whether it has `--version` or `--help`."""

    words: list[str] = field(default_factory=list)
    help: bool = False
    version: bool = False
    unknown: bool = False  #: it holds an option that no command has


def every_option() -> Iterator[Option]:
    """Every option of every command; all their modules are imported."""
    return (one for command in registry.every() for one in registry.options_of(command))


@cache
def _by_name() -> Mapping[str, Option]:
    return {one.flag: one for one in every_option()}


def scanned(arguments: Sequence[str]) -> Scanned:
    """Read a command line.

    Raises:
        UsageError: an option without its value, or with one that it does not take. Unknown options count as
            flags: whoever knows what command is meant names them.
    """
    found, rest = Scanned(), list(arguments)
    while rest:
        given = rest.pop(0)
        if given == "--":
            found.words += rest
            break
        if len(given) < 2 or not given.startswith("-"):
            found.words.append(given)
            continue
        name, joined, value = given.partition("=") if given.startswith("--") else (given, "", "")
        option = None if name in registry.NO_VALUE else _by_name().get(name)
        if option is not None and option.kind is not None:
            if not joined:
                refuse_dashes(name, rest[0] if rest else None)
                rest.pop(0)
        elif joined and (option is not None or name in registry.NO_VALUE):
            raise UsageError(f"{name} takes no value.", details={"option": name.lstrip("-"), "value": value})
        found.unknown |= option is None and name not in registry.NO_VALUE
        found.help |= name in _HELP
        found.version |= name in _VERSION
    return found


def refuse_dashes(option: str, value: str | None) -> None:
    """Refuse a *value* of an option that is missing, or begins with a dash: more often it was forgotten."""
    details = {"option": option.lstrip("-")}
    if value is None:
        raise UsageError(f"{option} needs a value.", details=details)
    if value.startswith("-") and len(value) > 1:
        raise UsageError(
            f"{option} needs a value; join a value that begins with a dash: {option}={value}.",
            details={**details, "value": value},
        )


# -- tree -----------------------------------------------------------------------------------------------
# The commands as click has them: made from their declarations when they are meant, with pages of help.

_COMMON = declared_in(CommonOptions)
_HELP_NAMES = ("-h", "--help")
_VERSION_NAMES = ("-v", "--version")
_EXIT_CODES = (
    "Every command prints JSON with --json. Exit codes: 0 done, 1 internal error, 2 usage, 3 not found, "
    "4 configuration, 5 database, 6 findings, 7 stale, 8 busy, 9 refused, 10 cancelled."
)


@dataclass(slots=True)
class Invocation:
    """What is known about a run of the program as its command line is understood."""

    presentation: Presentation | None = None  #: None: not understood so far
    page: str | None = None  #: help that was asked for
    asked_for: str = ""  #: the words of the command whose help it is
    version: bool = False  #: it was asked for


class GroupAloneError(UsageError):
    """The first word of several commands without a second one."""

    def __init__(self, group: str, page: str, *, said: bool) -> None:
        words = f"{group} needs a subcommand: {', '.join(registry.below(group))}."
        super().__init__(words, code="INVALID_COMMAND")
        self.page = f"{page}\n\n{words}" if said else page  #: what there is, for people


def _asks_for_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.obj.page = ctx.get_help()
        ctx.obj.asked_for = words_of(ctx)
        ctx.exit()


def _asks_for_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.obj.version = True
        ctx.exit()


def _answer_what_is_asked(ctx: click.Context, seen: Scanned) -> None:
    """End with the version or the help, if a command line that is refused otherwise asks for one."""
    _asks_for_version(ctx, ctx.command.params[0], seen.version)
    _asks_for_help(ctx, ctx.command.params[0], seen.help)


def words_of(ctx: click.Context) -> str:
    """The words of the command that is parsed; empty for the program itself."""
    return " ".join(ctx.command_path.split()[1:])


def _own_options(*, shows_version: bool) -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for names, words, callback, hidden in (
        (_VERSION_NAMES, "Print the version and exit.", _asks_for_version, not shows_version),
        (_HELP_NAMES, "Show this message and exit.", _asks_for_help, False),
    ):
        options.append(
            click.Option(
                names,
                is_flag=True,
                is_eager=True,
                expose_value=False,
                help=words,
                hidden=hidden,
                callback=callback,
            )
        )
    return options


class _Paged(click.Command):
    """Writes its help in sections: arguments, options, those under other titles, the common ones."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], OPTIONS: []}
        for one in self.get_params(ctx):
            title = one.shape.section if isinstance(one, ClickOption) else OPTIONS
            if record := one.get_help_record(ctx):
                sections.setdefault("Arguments" if isinstance(one, click.Argument) else title, []).append(
                    record
                )
        sections[COMMON] = sections.pop(COMMON, [])
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if isinstance(self, Group):
            self.format_commands(ctx, formatter)


class Leaf(_Paged):
    """One command."""

    def __init__(self, declaration: Command) -> None:
        self.declaration = declaration
        name = declaration.path.split()[-1] if declaration.path else None
        super().__init__(name, params=_parameters(declaration), help=declaration.help, add_help_option=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take its arguments; what is too much is refused by what it is."""
        ctx.allow_extra_args = True
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        _refuse_dashes(self, args)
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except (click.UsageError, LcmError) as error:
            self._say_what_comes_first(ctx, given, error)
            raise
        self._refuse_words(ctx, rest)
        return rest

    def _say_what_comes_first(self, ctx: click.Context, given: Sequence[str], error: Exception) -> None:
        """Before an option or a value is refused: `--version`, `--help`, and words too many or too few.

        An option that the engine's command does not know at all is refused before them, as it would do.
        """
        seen = scanned(given)
        if seen.unknown:
            return
        _answer_what_is_asked(ctx, seen)
        if isinstance(error, click.NoSuchOption) and error.option_name not in ENGINE_OPTIONS:
            return
        arguments = [one for one in self.params if isinstance(one, click.Argument)]
        if all(one.nargs == 1 for one in arguments):
            self._refuse_words(ctx, seen.words[len(arguments) :])
            for argument, word in zip(arguments, seen.words, strict=False):
                argument.type.convert(word, argument, ctx)
            for argument in arguments[len(seen.words) :]:
                if argument.required:
                    raise click.MissingParameter(ctx=ctx, param=argument)

    def _refuse_words(self, ctx: click.Context, rest: Sequence[str]) -> None:
        if not rest:
            return
        dotted = self.declaration.dotted
        by_option = rest[0].startswith("sum_") and any(
            one.flag == "--summary" for one in registry.options_of(self.declaration)
        )
        hint = (
            f" Name a summary by an option: --summary {rest[0]}." if by_option else self._path_meant(rest[0])
        )
        raise UsageError(
            f"{dotted} does not take {' '.join(rest)}: {usage(ctx)}.{hint}",
            code="INVALID_COMMAND",
            details={"command": dotted},
        )

    def _path_meant(self, word: str) -> str:
        """The one option that takes a path, for a word that looks like one."""
        own = (one.shape for one in self.declaration.parameters)
        taking = [one.flag for one in own if isinstance(one, Option) and isinstance(one.kind, FilePath)]
        if not taking and word.endswith(".db"):
            taking = ["--db"]
        looks_so = os.sep in word or word.endswith((".db", ".json", ".jsonl"))
        return f" Did you mean {taking[0]} {shlex.quote(word)}?" if looks_so and len(taking) == 1 else ""

    def invoke(self, ctx: click.Context) -> Outcome:
        """Run it."""
        return invoked(self.declaration, ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its examples."""
        if self.declaration.examples:
            with formatter.section("Examples"):
                for example in self.declaration.examples:
                    formatter.write_text(f"{PROGRAM} {example}")


class Group(_Paged, click.Group):
    """Commands that are made when they are meant."""

    def __init__(self, name: str | None, words: str, params: Sequence[click.Parameter]) -> None:
        super().__init__(name=name, help=words, params=list(params), add_help_option=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words behind it; one below the program needs a second word."""
        alone = self.name is not None and "--" not in args and registry.first_word(args) is None
        if alone and not ctx.resilient_parsing:
            asked = [one for one in args if one in registry.NO_VALUE]
            if len(args) > len(asked):  # the options of every command are looked at: that takes time
                _refuse_unknown(args, str(self.name))
                scanned(args)
            if not asked:
                raise GroupAloneError(str(self.name), ctx.get_help(), said=bool(args))
            args = asked  # common options beside it are fine, and change nothing
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words that may come next."""
        return registry.below(str(self.name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a word."""
        found = registry.declared(str(self.name)).get(f"{self.name} {cmd_name}")
        return None if found is None else Leaf(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what there is, each with the beginning of its help."""
        found = [(word, self.get_command(ctx, word)) for word in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(word, _beginning(str(one.help))) for word, one in found if one])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that *args* begin with, or say what may have been meant."""
        found = self.get_command(ctx, args[0])
        if found is None and not ctx.resilient_parsing:
            _refuse_unknown(args, self.name)
            seen = scanned(args)
            _asks_for_version(ctx, self.params[0], seen.version)
            given = " ".join(filter(None, (words_of(ctx), args[0])))
            words = f"Unknown command: {given if given.strip() else repr(given)}.{_meant(given, self)}"
            if seen.help:
                ctx.obj.page = f"{ctx.get_help()}\n\n{words}"
                ctx.exit()
            raise UsageError(words, code="INVALID_COMMAND")
        return None if found is None else args[0], found, args[1:]


class Program(Group):
    """The program itself: every first word, and the app where there is none."""

    def __init__(self, without_a_command: Command) -> None:
        self.declaration = without_a_command
        super().__init__(None, without_a_command.help, _parameters(without_a_command))
        self.invoke_without_command, self.no_args_is_help = True, False
        self.callback = click.pass_context(self._alone)
        self.epilog = _EXIT_CODES

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a command line; options may come before the words of the command."""
        ordered = registry.in_order(args)
        if ctx.resilient_parsing:
            return super().parse_args(ctx, ordered)
        self._refuse_dashed_words(ctx, ordered)
        _refuse_dashes(self, ordered)
        try:
            return super().parse_args(ctx, list(ordered))
        except click.NoSuchOption:
            if (seen := scanned(ordered)).unknown:
                _refuse_unknown(ordered)
            else:
                _answer_what_is_asked(ctx, seen)
            raise

    def _refuse_dashed_words(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Behind ``--`` everything is a word: one with dashes is neither a command nor an option."""
        if "--" not in args:
            return
        before, behind = args[: args.index("--")], args[args.index("--") + 1 :]
        first = registry.first_word(before)
        words = [] if first is None else [before[first]]
        named = [*words, *behind][: 2 if {*(words or behind)[:1]} & {*registry.GROUPS} else 1]
        if any(len(one) > 1 and one.startswith("-") for one in named[len(words) :]):
            _refuse_unknown(before)
            _answer_what_is_asked(ctx, scanned(before))
            given = " ".join(named)
            raise UsageError(f"Unknown command: {given}.{_meant(given, self)}", code="INVALID_COMMAND")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The first words."""
        return list(registry.FIRST_WORDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or the group, of a first word."""
        if cmd_name in registry.GROUPS:
            return Group(cmd_name, registry.GROUPS[cmd_name], _own_options(shows_version=False))
        return Leaf(registry.declared(cmd_name)[cmd_name]) if cmd_name in registry.FIRST_WORDS else None

    def _alone(self, ctx: click.Context, **_: Any) -> Outcome:
        """What is meant without a command; click calls it on the way to one as well."""
        return 0 if ctx.invoked_subcommand else invoked(self.declaration, ctx)


def _beginning(text: str) -> str:
    """The first paragraph of a help."""
    return " ".join(text.partition("\n\n")[0].split())


#: Commands and options that a question names, at most, and how like what was typed they are (of 1).
_NAMED, _LIKE = 3, 0.8
#: Words that people try first for a command of another name.
_OTHER_NAMES = {
    "check": "doctor",
    "delete": "prune",
    "find": "grep",
    "fix": "doctor",
    "health": "doctor",
    "search": "grep",
    "tree": "summaries list",
}


def _meant(given: str, group: Group) -> str:
    """What a word that is no command may have been meant as."""
    if not group.name and (given.endswith(".db") or os.path.isfile(given)):
        return f" To open it: `{PROGRAM} --db {shlex.quote(given)}`."
    given = given.lower()
    last = given.split(" ")[-1]
    if group.name and (fitting := _takes(group.name, last)):
        return f" Did you mean {fitting} {last}?"
    if not group.name and (other := _OTHER_NAMES.get(last)) in registry.COMMANDS:
        return f" Did you mean {other}?"
    paths = [path for path in registry.COMMANDS if path.startswith(str(group.name or ""))]
    first = () if group.name else registry.FIRST_WORDS
    near = get_close_matches(given, [*paths, *first], _NAMED, 0.7)
    if near:
        return _did_you_mean(near)
    if group.name:
        verbs = registry.below(group.name)
        return f" `{group.name}` has {', '.join(verbs[:-1])} and {verbs[-1]}: `{PROGRAM} help {group.name}`."
    return _meant_below(last) or f" `{PROGRAM} help` lists the commands."


#: How an id begins, the argument that takes it, and what shows it where no command of the group does.
_NAMES = (
    ("sum_", "SUMMARY_ID", "summaries show"),
    ("file_", "FILE_ID", "files show"),
    ("op_", "OPERATION_ID", "history show"),
)


def _takes(group: str, word: str) -> str | None:
    """The command that shows what a number or an id names, of the *group* if it has one; None: neither."""
    names = (("CONVERSATION_ID", "conversations show"),) if word.isdigit() else ()
    for name, elsewhere in (*names, *(found[1:] for found in _NAMES if word.startswith(found[0]))):
        taking = {path for path, one in registry.declared(group).items() if _first_argument(one) == name}
        return next((path for verb in ("show", "list") if (path := f"{group} {verb}") in taking), elsewhere)
    return None


def _first_argument(declaration: Command) -> str | None:
    arguments = (one.shape for one in declaration.parameters if isinstance(one.shape, Argument))
    return next((one.name for one in arguments), None)


def _meant_below(word: str) -> str:
    """The same of a word that is the second one of some commands, or nearly so."""
    second = {path.split()[1] for path in registry.COMMANDS if " " in path}
    for one in _like(word, second, 1):
        groups = [group for group in registry.GROUPS if f"{group} {one}" in registry.COMMANDS]
        if len(groups) <= _NAMED:
            return _did_you_mean(f"{group} {one}" for group in groups)
        return (
            f" `{one}` is a command of {', '.join(groups[:-1])} and {groups[-1]}, as in `{groups[0]} {one}`."
        )
    return ""


def _did_you_mean(near: Iterable[str]) -> str:
    names = sorted(set(near))
    if not names:
        return ""
    said = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
    return f" Did you mean {said}?"


def _parameters(declaration: Command) -> list[click.Parameter]:
    own = [click_parameter(one) for one in (*declaration.parameters, *_COMMON)]
    return [*own, *_own_options(shows_version=not declaration.path)]


def usage(ctx: click.Context) -> str:
    """A command with its arguments."""
    pieces = [one.make_metavar(ctx) for one in ctx.command.params if isinstance(one, click.Argument)]
    return " ".join([PROGRAM, *words_of(ctx).split(), *pieces])


#: Commands that use no setting of the host's, or say themselves what of its configuration was not read.
_WITHOUT_HOST: Final = frozenset({"", "completion", "config.show", "demo", "help"})


def invoked(declaration: Command, ctx: click.Context) -> Outcome:
    """Run a command with what was parsed."""
    from lcm_core.base.setting_values import OutputFormat, SettingSource
    from lcm_core.base.settings import resolve

    from lcm_tui.cli.answer import Run

    defaults = {one.name: one.default for one in (*declaration.parameters, *_COMMON)}
    values = {name: defaults[name] if given is None else given for name, given in ctx.params.items()}
    common: CommonOptions = gathered("", CommonOptions, values)
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
            from lcm_tui.cli.report import keep_unread_wal

            keep_unread_wal(settings, quiet=common.quiet)
        chosen = settings.output_format
        form = common.output if common.output in FORMS and not common.as_json else None
        explicit_table = chosen.value is OutputFormat.TABLE and chosen.source is SettingSource.COMMAND_LINE
        as_json = chosen.value is OutputFormat.JSON
        presentation = Presentation(
            as_json, explicit_table and not form, common.pretty, not common.no_color, form or "", common.quiet
        )
        _check_form(declaration, form or "")  # else the error has the form that applies without it
        ctx.obj.presentation = presentation
        run = Run(settings, presentation)
        if common.verbose:
            from lcm_tui.cli.report import verbose

            with verbose(settings):
                return declaration.call(run, values)
        unread = () if common.quiet or declaration.dotted in _WITHOUT_HOST else settings.unread
        if not unread:
            return declaration.call(run, values)
        from lcm_tui.cli.report import with_unread

        return with_unread(unread, presentation, lambda: declaration.call(run, values))
    except KeyboardInterrupt:
        raise cancelled() from None


def _check_form(declaration: Command, form: str) -> None:
    """Refuse a *form* that the command does not have, before it does anything."""
    if not form:
        return
    from lcm_tui.cli.options import PageOptions

    known = [*(["csv"] if declaration.takes(PageOptions) else []), *declaration.forms]
    if form not in known:
        named = declaration.dotted or f"{PROGRAM} without a command"
        raise UsageError(
            f"--format {form} is not supported by {named}: it has {', '.join(['json', 'table', *known])}.",
            details={"option": "format", "value": form, "command": declaration.dotted},
        )


# -- refusals --------------------------------------------------------------------------------------------


def refusal(error: click.UsageError) -> UsageError:
    """What click says of a command line, as one sentence of ours (docs/engine/command.md, "Errors")."""
    ctx = error.ctx
    dotted = "" if ctx is None else words_of(ctx).replace(" ", ".")
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error, dotted)
    if isinstance(error, click.BadOptionUsage):
        flags = {one.flag for one in every_option() if one.kind is None}
        takes_none = error.option_name in flags | {*registry.NO_VALUE}
        problem = "takes no value" if takes_none else "needs a value"
        return UsageError(
            f"{error.option_name} {problem}.", details={"option": error.option_name.lstrip("-")}
        )
    if isinstance(error, click.MissingParameter) and ctx is not None:
        return UsageError(
            f"{dotted} needs an argument: {usage(ctx)}.", code="INVALID_COMMAND", details={"command": dotted}
        )
    return UsageError(
        error.format_message().rstrip(".") + ".", details={"command": dotted} if dotted else None
    )


def _refuse_dashes(command: click.Command, arguments: Sequence[str]) -> None:
    """Refuse what stands behind an option and begins with a dash: more often a value was forgotten."""
    valued = {one.shape.flag for one in command.params if isinstance(one, ClickOption) and one.shape.kind}
    option = ""
    for argument in arguments:
        if option:
            refuse_dashes(option, argument)
        if not option and argument == "--":
            return
        option = argument if not option and argument in valued else ""


def _refuse_unknown(arguments: Sequence[str], group: str | None = None) -> None:
    """Refuse options that no command has: the engine says that before it looks for the command.

    Behind the first word of a *group*, what its own commands have is proposed.
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    begins = "-" if group and registry.first_word(before) is None else "--"
    given = [one.partition("=")[0] for one in before if one.startswith(begins)]
    if not given:
        return
    known = {one.flag for one in every_option()}
    unknown = next((one for one in given if one not in known | {*registry.NO_VALUE}), None)
    if unknown is not None:
        words = _did_you_mean(_near(unknown, group, known))
        raise UsageError(f"Unknown option {unknown}.{words}", details={"option": unknown.lstrip("-")})


def _near(option: str, group: str | None, known: Iterable[str]) -> list[str]:
    """What an unknown option may have been meant as: a command of the *group*, with its option or none."""
    if not group:
        return _like(option, known, _NAMED)
    common = [one.shape.flag for one in _COMMON if isinstance(one.shape, Option)]
    by_flag: dict[str, str] = {}  # the first command of the group that has it
    for path, one in registry.declared(group).items():
        for each in registry.options_of(one):
            by_flag.setdefault(each.flag, path)
    flags = _like(option, [*common, *by_flag], 1)
    meant = [flag if flag in common else f"{by_flag[flag]} {flag}" for flag in flags]
    return [*meant, *(f"{group} {word}" for word in _like(option, registry.below(group), 1))]


def _like(typed: str, names: Iterable[str], most: int, at_least: float = _LIKE) -> list[str]:
    """The *names* most like what was *typed*; dashes, which all options begin with, make none alike."""
    bare = {name.lstrip("-"): name for name in names}
    return [bare[one] for one in get_close_matches(typed.lstrip("-"), sorted(bare), most, at_least)]


def _no_such_option(error: click.NoSuchOption, dotted: str) -> UsageError:
    option = error.option_name
    details: dict[str, Any] = {"option": option.lstrip("-")}
    if any(option == one.flag for one in every_option()):
        where = dotted or f"{PROGRAM} without a command"
        return UsageError(
            f"{option} is not supported by {where}.",
            code=None if dotted else "INVALID_COMMAND",
            details={**details, **({"command": dotted} if dotted else {})},
        )
    near = _like(option, error.possibilities or (), _NAMED, 0.6)  # click counts the dashes as alike
    near = near or ([option.lower()] if option.lower() in _VERSION_NAMES else [])
    return UsageError(f"Unknown option {option}.{_did_you_mean(near)}", details=details)
