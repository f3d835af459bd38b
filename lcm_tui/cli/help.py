"""The version, help for programs, and shell completion, made from the declarations of commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class
from lcm_core import __version__
from lcm_core.base.setting_values import Json

from lcm_tui.cli import registry
from lcm_tui.cli.answer import Answer
from lcm_tui.cli.declaring import Argument, Command, CommonOptions, Declared, Option, declared_in
from lcm_tui.cli.options import (
    ConversationOptions,
    ModelOptions,
    NeededConversation,
    PageOptions,
    PastOptions,
    SqlFlags,
    TimeOptions,
)
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.tables.blocks import Verbatim

# -- help for programs -----------------------------------------------------------------------------------
# Every command with what it takes.

#: Options that several commands share, by the names that the engine's own help has for some of them.
_SHARED = {
    "globalOptions": CommonOptions,
    "listOptions": PageOptions,
    "selectorOptions": ConversationOptions,
    "timeOptions": TimeOptions,
    "pastOptions": PastOptions,
    "changeOptions": SqlFlags,
    "modelOptions": ModelOptions,
}
#: What the engine's help calls the options of single commands.
_OF_ONE = {
    "messageOptions": "messages list",
    "summaryOptions": "summaries list",
    "tailOptions": "messages tail",
}
#: What stands for a value in our help and in that of the engine.
_VALUES = {
    "TIME": "iso-timestamp",
    "TIME..TIME": "start>..<end",
    "N[smhdw]": "duration: s|m|h|d|w",
    "CURSOR": "opaque-cursor",
    "N": "integer",
}


def version(*, verbose: bool) -> Answer:
    """The version of this program; *verbose*: with those of what it runs on, and what it was tried with."""
    if verbose:
        from lcm_host.rows import TRIED_SCHEMA

        from lcm_tui.cli.report import ENGINES_TRIED, version_lines, versions
        from lcm_tui.kit import logfile

        data: dict[str, Json] = {
            "version": __version__,
            **versions(),
            "enginesTried": list(ENGINES_TRIED),
            "hostSchemaTried": TRIED_SCHEMA,
            "logPath": str(logfile.log_path()),
        }
        return Answer("version", data, [Verbatim("\n".join(version_lines()))], {})
    return Answer("version", {"version": __version__}, [Verbatim(f"{PROGRAM} {__version__}")], {})


def listed(path: str = "") -> Answer:
    """What the engine's command answers to ``--help``, with our commands and options; or of one command."""
    chosen = [one for one in registry.every() if not path or f"{one.path} ".startswith(f"{path} ")]
    shared = {name: [*_options(declared_in(kind))] for name, kind in _SHARED.items()}
    known = {option for found in shared.values() for option in found}
    own = {
        one.path: [option for option in _options(one.parameters) if option not in known]
        for one in registry.every()
    }
    data: dict[str, Json] = {
        "usage": f"{PROGRAM} <command> [options]",
        "commands": [_usage(one) for one in chosen],
        **shared,
        "globalOptions": [*shared["globalOptions"], "--help", "--version"],
        **{name: own[of] for name, of in _OF_ONE.items()},
        "options": {one.path: [*_options(one.parameters)] for one in chosen},
        "help": {one.path: " ".join(one.help.split()) for one in chosen},
    }
    return Answer("help", data, [], {})


def _usage(one: Command) -> str:
    """The words of a command with its arguments; a conversation is named by options, as by the engine."""
    by_option = "--conversation-id <id> | --session-key <key>"
    named = f"({by_option})" if one.takes(NeededConversation) else f"[{by_option}]"
    arguments = [
        named if one.takes(ConversationOptions) and each.name == "conversation" else _argument(each)
        for each in one.parameters
        if isinstance(each.shape, Argument)
    ]
    return " ".join([one.path, *arguments])


def _argument(one: Declared) -> str:
    name = f"<{one.shape.name.lower().replace('_', '-')}>" if isinstance(one.shape, Argument) else ""
    dots = "..." if one.shape.several else ""
    return f"{name}{dots}" if one.needed else f"[{name}{dots}]"


def _options(taken: Iterable[Declared]) -> Iterator[str]:
    for one in taken:
        if isinstance(one.shape, Option) and not one.shape.hidden:
            metavar = one.shape.metavar
            value = _VALUES.get(metavar) or re.sub("[A-Z_]+", lambda word: word[0].lower(), metavar)
            yield f"{one.shape.flag} <{value}>" if one.shape.kind else one.shape.flag


# -- shell completion ------------------------------------------------------------------------------------
# The script, and the answers that it requests.

COMPLETION_VARIABLE = "_LCM_TUI_COMPLETE"


def script_for(shell: str) -> str:
    """The completion script of a shell."""
    return ShellComplete.source(_made(click.Command(PROGRAM), shell))  # click's own for bash starts it


def complete(program: click.Command, instruction: str) -> int:
    """Answer a completion script that asks what may come next; the result is an exit code."""
    shell = instruction.removesuffix("_complete")
    if get_completion_class(shell) is None:
        return 1
    try:
        answer = _made(program, shell).complete()
    except (LookupError, ValueError):  # the variables of the question are missing, or say nothing
        return 1
    sys.stdout.write(answer + "\n")
    return 0


def _made(program: click.Command, shell: str) -> ShellComplete:
    found: Any = get_completion_class(shell)
    made: ShellComplete = found(program, {}, PROGRAM, COMPLETION_VARIABLE)
    return made
