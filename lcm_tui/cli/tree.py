"""The commands by their words: the module of a first word is imported when one of its commands is meant."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli.command import COMMON, TYPED, Command, Paged, Sectioned, outer_parameters, takes_value
from lcm_tui.cli.kinds import a_file
from lcm_tui.cli.presentation import PROGRAM

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from lcm_tui.cli.answer import Outcome

#: The first words in the groups and the order in which help lists them, each with a line of what it is for.
SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Look": {
        "status": "what the database contains; --report writes a bug report",
        "show": "show whatever has an id; verify a citation",
        "conversations": "list, show, export, archive, prune or delete conversations",
        "messages": "list the messages of a conversation; its fresh tail",
        "summaries": "list summaries, or draw what they cover",
        "context": "what the model sees, and how two contexts differ",
        "files": "list the large files that messages refer to",
        "sessions": "list the sessions of the host; compare one with Codex's",
        "engine": "prepared compactions and compaction debt",
        "disk": "what takes space on the disk; free it",
    },
    "Search": {
        "grep": "search messages, tool calls, summaries, briefs and large files",
        "expand": "read down from a summary to its messages",
        "ask": "answer a question from the memory, with citations",
    },
    "Repair": {
        "doctor": "check the database; --fix fixes what needs no model",
        "dissolve": "put the sources of a summary in its place in the context",
        "repair": "write new texts for broken summaries",
        "rewrite": "write new texts for any summaries",
        "compact": "compact a conversation as its engine would",
        "focus": "texts about one question that replace what they cover",
        "transplant": "copy the summaries of one context to the front of another",
        "merge": "rejoin a session that a rollover split",
        "reindex": "rebuild the search tables",
        "migrate": "bring an old database to the engine's current schema",
    },
    "Undo and backup": {
        "history": "what lcm-tui changed in this database; undo and redo",
        "backup": "copy one consistent state of the database",
        "restore": "put a backup in the place of the database",
    },
    "Import and export": {
        "backfill": "import a session's transcript as the engine would",
        "import": "import a conversation that was exported",
        "remnic": "import into Remnic's store, compare with it, undo that",
    },
    "Agents": {
        "mcp": "serve the memory, read only, over the Model Context Protocol",
        "tool": "call a recall tool as an agent does",
    },
    "This program": {
        "config": "the settings: what the files say, what applies, and why",
        "prompts": "show, compare and export the summary prompts",
        "demo": "try the app on a copy of a demonstration database",
    },
}
#: All first words, each with its line.
WORDS: Final[Mapping[str, str]] = {word: line for lines in SECTIONS.values() for word, line in lines.items()}
#: The second words, where several commands have the same first one. Their module is not needed to know them:
#: a word that was mistyped is refused at once, and the next one completed.
SECOND_WORDS: Final[Mapping[str, str]] = {
    "conversations": "list show export archive prune delete",
    "focus": "list create activate clear delete",
    "remnic": "list import undo",
    "history": "list undo redo prune",
}
#: Words that mean others: a verb that goes without saying, and shorter ways to what is an option.
MEANING: Final[Mapping[str, str]] = {
    "context show": "context",
    "files list": "files",
    "prompts list": "prompts",
    "prompts show": "prompts",
    "sessions list": "sessions",
    "sessions compare": "sessions --compare",
    "summaries map": "summaries --map",
    "conversations forget": "conversations delete --forever",
    "history undo --last": "history undo last",
    "history redo --last": "history redo last",
    "remnic verify": "remnic list --verify",
    "vacuum": "disk --free pages",
    "completion": "--completion",
    # What else the engine's command has.
    "messages list": "messages",
    "messages tail": "messages --tail fresh",
    "summaries list": "summaries",
    "summaries show": "show",
    "config show": "config",
    "config get": "config",
    "config set": "config",
}
EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 internal error, 2 usage, 3 not found, 4 configuration, 5 database, 6 findings, "
    "7 stale, 8 busy, 9 refused, 10 cancelled."
)


class GroupAloneError(UsageError):
    """The first word of several commands without a second one."""

    def __init__(self, ctx: click.Context) -> None:
        group = str(ctx.command.name)
        words = f"{group} needs a subcommand: {', '.join(last_words(group))}."
        super().__init__(words, code="INVALID_COMMAND")
        self.page = f"{ctx.get_help()}\n\n{words}"  #: what there is, for people


@cache
def declared(word: str) -> Mapping[str, Command]:
    """The commands that begin with a first word, by their last one; their module is imported."""
    declares = f"{word}_" if iskeyword(word) else word
    gc.disable()  # what an import makes lives on, as in `__main__`
    module = importlib.import_module(f"lcm_tui.cli.{declares}")
    gc.freeze()
    gc.enable()
    found = {one.path: one for one in vars(module).values() if isinstance(one, Command)}
    return {last: found[path] for last, path in zip(last_words(word), paths(word), strict=True)}


def last_words(word: str) -> list[str]:
    """The last words of the commands that begin with a first word."""
    return SECOND_WORDS.get(word, word).split()


def paths(word: str) -> list[str]:
    """The words of the commands that begin with a first word."""
    return [f"{word} {last}" for last in last_words(word)] if is_group(word) else [word]


def every() -> Iterator[Command]:
    """Every command in order; all their modules are imported."""
    return (one for word in WORDS for one in declared(word).values())


def is_group(word: str) -> bool:
    """Whether commands have this first word and a second one."""
    return word in SECOND_WORDS


class Group(Paged, click.Group):
    """The commands of a first word. Options may stand before the second one, too."""

    def __init__(self, name: str | None, words: str, params: Sequence[click.Parameter]) -> None:
        super().__init__(
            name=name,
            help=words,
            params=list(params),
            add_help_option=False,
            invoke_without_command=True,
            subcommand_metavar="COMMAND [ARGS]...",
            no_args_is_help=False,
            callback=click.pass_context(self.alone),
        )

    def alone(self, ctx: click.Context, /, **_: Any) -> Outcome:
        """What is meant without a word; click calls it on the way to one as well."""
        if ctx.invoked_subcommand is None:
            raise GroupAloneError(ctx)
        return 0

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words behind it; options may stand before them."""
        return super().parse_args(ctx, self._word_first(ctx, args))

    def _word_first(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The same with the word of a command first: options of that command may stand before it."""
        words = self.list_commands(ctx)
        places = [at for at, one in enumerate(args) if one in words]
        for strict in (True, False):  # where no command takes the options before it, the command refuses them
            for at in places:
                dashes = args[at - 1 : at] if args[at - 1 : at] == ["--"] else []
                before = args[: at - len(dashes)]
                options = _options(self.get_command(ctx, args[at])) if before else {}
                if _is_all_options(before, options, strict=strict):
                    return [args[at], *before, *dashes, *args[at + 1 :]]
        return args

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words that may come next."""
        return last_words(str(self.name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a word."""
        group = str(self.name)
        return declared(group)[cmd_name] if cmd_name in last_words(group) else None

    def lines(self) -> Mapping[str, str]:
        """The words that may come next, each with a line of what it is for."""
        return {word: beginning(str(one.help)) for word, one in declared(str(self.name)).items()}

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The words that begin so, or options."""
        from click.shell_completion import CompletionItem

        words = self.lines().items() if incomplete[:1] != "-" else ()
        found = [CompletionItem(word, help=line) for word, line in words if word.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what there is, each with the beginning of its help."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([*self.lines().items()])

    def shown(self) -> list[click.Parameter]:
        """What its help tells of: the common options stand in that of the commands."""
        return [one for one in self.params if getattr(one, "section", "") != COMMON]


class Program(Group):
    """The program itself: every first word, and the app where there is none."""

    def __init__(self, without_a_command: Command) -> None:
        self.without_a_command = without_a_command
        super().__init__(None, str(without_a_command.help), without_a_command.params)
        self.examples = without_a_command.examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words; a file named first is the database, and ``help`` before words asks for theirs."""
        at = args.index("help") if "help" in args else None
        if at is not None and _is_all_options(args[:at], _names(self.params), strict=True):
            args = [*args[:at], *args[at + 1 :], "--help"]
        args = self._meant(ctx, args)
        first = args[0] if args else "-"
        if not (first.startswith("-") or first in WORDS) and (first.endswith(".db") or os.path.exists(first)):
            args = ["--db", *args]
        return super().parse_args(ctx, args)

    def _meant(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The same with other words for those in `MEANING`; options may stand before each of them."""
        for words, meaning in MEANING.items():
            if not {*words.split()} <= {*args}:
                continue
            before, rest, options = list[str](), args, _names(self.params)
            for word in words.split():
                at = rest.index(word) if word in rest else len(rest)
                if at == len(rest) or not _is_all_options(rest[:at], options, strict=rest is not args):
                    break
                before, rest = [*before, *rest[:at]], rest[at + 1 :]
                options = _options(self.get_command(ctx, meaning.split()[0]))
            else:
                ctx.meta[TYPED] = words
                return [*meaning.split(), *before, *rest]
        return args

    def alone(self, ctx: click.Context, /, **_: Any) -> Outcome:
        """Open the app."""
        return 0 if ctx.invoked_subcommand else self.without_a_command.invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The first words."""
        return list(WORDS)

    def lines(self) -> Mapping[str, str]:
        """The first words; their modules are not needed."""
        return WORDS

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """The same, or the path of a database."""
        return super().shell_complete(ctx, incomplete) or a_file(incomplete)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or the group, of a first word."""
        if cmd_name not in WORDS:
            return None
        if is_group(cmd_name):
            return Group(cmd_name, WORDS[cmd_name], outer_parameters())
        return declared(cmd_name)[cmd_name]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, a line each, and the options: 60 lines at most."""
        indent = max(map(len, WORDS)) + 2
        formatter.write("\n")
        for title, lines in SECTIONS.items():
            formatter.write(f"{title}:\n")
            formatter.write("".join(f"  {word:{indent}}{line}\n" for word, line in lines.items()))
        common = " ".join(
            max(one.opts, key=len)
            for one in self.params
            if isinstance(one, Sectioned) and one.section == COMMON
        )
        formatter.write("\n")
        told = f"Every command takes {common} ({PROGRAM} COMMAND --help explains them), the app --no-cache."
        formatter.write_text(f"{told} --version prints the version, --completion SHELL a completion script.")
        formatter.write_text(EXIT_CODES)


def beginning(text: str) -> str:
    """The first paragraph of a help."""
    return " ".join(text.partition("\n\n")[0].split())


def _options(one: click.Command | None) -> dict[str, bool]:
    """The options of a command, or of all commands of a group, and whether each takes a value."""
    commands = declared(str(one.name)).values() if isinstance(one, Group) else [one]
    return _names(each for command in commands if command for each in command.params)


def _names(params: Iterable[click.Parameter]) -> dict[str, bool]:
    """The names of options, and whether each takes a value."""
    return {name: takes_value(each) for each in params for name in each.opts}


def _is_all_options(given: Sequence[str], options: Mapping[str, bool], *, strict: bool) -> bool:
    """Whether a part of a command line is nothing but *options* and their values.

    Unless it is *strict*, other options may be among them, each with a value or without.
    """
    at = 0
    while at < len(given):
        name, joined, _ = given[at].partition("=")
        if not name.startswith("-") or name == "--" or (strict and name not in options):
            return False
        follows = at + 1 < len(given) and not given[at + 1].startswith("-")
        at += 2 if not joined and options.get(name, follows) else 1
    return at == len(given)
