"""Every command by its words. The module of a first word is imported when one of its commands is meant."""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from lcm_tui.cli.declaring import Command, CommonOptions, Option, declared_in

#: In the order in which help lists them, by the module of ``commands`` that declares them.
_DECLARED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "look": (
        *("status", "engine"),
        *("conversations list", "conversations show"),
        *("messages list", "messages tail"),
        *("summaries list", "summaries show", "summaries previous", "summaries map"),
        *("context show", "context compare", "context snapshots"),
        *("files list", "files show"),
        *("sessions list", "sessions show", "sessions compare"),
    ),
    "recall": ("grep", "describe", "expand", "ask", "tool", "mcp"),
    "doctor": ("doctor",),
    "repair": ("dissolve", "rewrite", "repair", "compact"),
    "focus": (
        *("focus list", "focus show", "focus create", "focus refocus"),
        *("focus activate", "focus clear", "focus delete"),
    ),
    "conversations": ("transplant", "merge", "backfill", "prune", "import"),
    "remnic": ("remnic list", "remnic show", "remnic import", "remnic verify", "remnic undo"),
    "history": ("history list", "history show", "history undo", "history redo", "history prune"),
    "program": (
        *("backup", "restore", "migrate", "reindex"),
        *("config show", "config get", "config set"),
        *("prompts list", "prompts show", "prompts render", "prompts diff", "prompts export"),
        *("report", "demo", "completion", "help"),
    ),
}
COMMANDS: Final = tuple(path for paths in _DECLARED_IN.values() for path in paths)
_MODULES: Final = {path.split()[0]: module for module, paths in _DECLARED_IN.items() for path in paths}
#: What the commands with a common first word are about.
GROUPS: Final = {
    "conversations": "The conversations of the database.",
    "messages": "The messages of a conversation.",
    "summaries": "The summaries: lists, one with its sources and uses, its previous context, the map.",
    "context": "The context of a conversation: what the model sees.",
    "focus": "Focus briefs: texts about one question that replace the summaries they cover.",
    "files": "The large files that messages refer to.",
    "sessions": "The sessions of the host, in its databases and in files.",
    "remnic": "Remnic's LCM store: browse it, import into it, compare it.",
    "history": "What lcm-tui changed in this database; undo and redo.",
    "config": "The settings: what the files say, what applies, and why.",
    "prompts": "List, show and override the summary prompts.",
}
#: Options of the program itself, which take no value.
NO_VALUE: Final = ("-h", "--help", "-v", "--version")
#: First words, each once.
FIRST_WORDS: Final = tuple(dict.fromkeys(path.split()[0] for path in COMMANDS))


def below(group: str) -> list[str]:
    """The second words behind the first word *group*."""
    return [path.split()[1] for path in COMMANDS if path.startswith(f"{group} ")]


@cache
def declared(word: str) -> Mapping[str, Command]:
    """The commands that begin with a first word, by their words; their module is imported."""
    module = _MODULES[word]
    found = vars(importlib.import_module(f"lcm_tui.cli.commands.{module}")).values()
    return {one.path: one for one in found if isinstance(one, Command) and one.path.split()[0] == word}


def are_unknown(words: Sequence[str]) -> bool:
    """Whether *words*, at least one, begin no command and name no group."""
    return words[0] not in FIRST_WORDS or (
        words[0] in GROUPS and len(words) > 1 and " ".join(words[:2]) not in COMMANDS
    )


def every() -> Iterator[Command]:
    """Every command in order; all their modules are imported."""
    return (declared(path.split()[0])[path] for path in COMMANDS)


def options_of(command: Command) -> list[Option]:
    """The options that a command takes, the common ones last."""
    return [*(one.shape for one in command.parameters if isinstance(one.shape, Option)), *_common()]


def in_order(arguments: Sequence[str]) -> list[str]:
    """The same command line, the words of the command first: options may come before and between them."""
    given = list(arguments)
    if "--" in given:
        given = _words_before_dashes(given, given.index("--"))
    for at, word in enumerate(given):
        if word == "--":
            break
        if word in FIRST_WORDS and is_all_options(given[:at], word):
            rest = given[at + 1 :]
            for second, name in enumerate(rest if word in GROUPS else ()):
                if name == "--":
                    break
                if name in below(word) and is_all_options(rest[:second], word):
                    return [word, name, *given[:at], *rest[:second], *rest[second + 1 :]]
            other = first_word(rest) if word in GROUPS else None
            if other is not None:  # no command's: it is refused by its name
                return [word, rest[other], *given[:at], *rest[:other], *rest[other + 1 :]]
            return [word, *given[:at], *rest]
    if is_consumed(given, {one.flag for one in _common() if one.kind is not None}):
        return given
    first = first_word(given)  # no command's, or behind options of others: it is refused by its name
    if first is None:
        return given
    words = given[first : first + 1]
    rest = [*given[:first], *given[first + 1 :]]
    if words[0] in GROUPS and (after := first_word(rest)) is not None:
        words.append(rest.pop(after))
    return [*words, *rest]


def _words_before_dashes(given: list[str], at: int) -> list[str]:
    """The same command line with the command's words moved before the ``--`` at *at*, which may precede them.

    What else is behind the dashes stays there: it is no option, whatever it looks like.
    """
    before, behind = given[:at], given[at + 1 :]
    first = first_word(before)
    if first is None:
        missing = 2 if behind and behind[0] in GROUPS else 1
    else:
        missing = 1 if before[first] in GROUPS and first_word(before[first + 1 :]) is None else 0
    words = behind[:missing]
    if any(word.startswith("-") for word in words):
        return given
    return [*before, *words, "--", *behind[missing:]]


def first_word(given: Sequence[str]) -> int | None:
    """Where a part of a command line has its first word that is no option, nor the value of one."""
    valued: set[str] | None = None
    at = 0
    while at < len(given) and given[at] != "--":
        if not given[at].startswith("-"):
            return at
        if given[at] in NO_VALUE:
            at += 1
            continue
        if valued is None:  # the options of every command are looked at: that takes time
            valued = {name for one in every() for name in _valued(one)}
        at += 2 if given[at] in valued else 1
    return None


def is_all_options(given: Sequence[str], word: str) -> bool:
    """Whether a part of a command line is nothing but options, and their values, of commands of this word."""
    if not given:
        return True
    options = [option for one in declared(word).values() for option in options_of(one)]
    known = {*NO_VALUE, *(one.flag for one in options)}
    if any(one.partition("=")[0] not in known for one in given if one.startswith("-")):
        return False
    return is_consumed(given, {option.flag for option in options if option.kind is not None})


def is_consumed(given: Sequence[str], valued: Container[str]) -> bool:
    """Whether a part of a command line is nothing but options and the values of those that are *valued*."""
    at = 0
    while at < len(given):
        if not given[at].startswith("-"):
            return False
        at += 2 if given[at] in valued else 1
    return at == len(given)


def _valued(command: Command) -> Iterator[str]:
    """The spellings of its options that take a value."""
    return (option.flag for option in options_of(command) if option.kind is not None)


def _common() -> Iterator[Option]:
    """The options of every command."""
    return (one.shape for one in declared_in(CommonOptions) if isinstance(one.shape, Option))
