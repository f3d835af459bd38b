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

from lcm_tui.cli import options, tree
from lcm_tui.cli.answer import Answer
from lcm_tui.cli.command import Command, common_options, parameters_of, takes_value
from lcm_tui.cli.kinds import label
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.tables.blocks import Verbatim

# -- help for programs -----------------------------------------------------------------------------------
# Every command with what it takes.

#: Options that several commands share, by the names that the engine's own help has for some of them.
_SHARED = {
    "globalOptions": common_options,
    "listOptions": options.page_options,
    "selectorOptions": options.conversation_options,
    "timeOptions": options.time_options,
    "pastOptions": options.past_options,
    "changeOptions": options.sql_flags(),
    "modelOptions": options.model_options,
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
    every = [*tree.every()]
    chosen = [one for one in every if not path or f"{one.path} ".startswith(f"{path} ")]
    shared = {name: [*_options(parameters_of(declared))] for name, declared in _SHARED.items()}
    known = {option for found in shared.values() for option in found}
    own = {one.path: [option for option in _options(one.own) if option not in known] for one in every}
    data: dict[str, Json] = {
        "usage": f"{PROGRAM} <command> [options]",
        "commands": [_usage(one) for one in chosen],
        **shared,
        "globalOptions": [*shared["globalOptions"], "--help", "--version"],
        **{name: own[of] for name, of in _OF_ONE.items()},
        "options": {one.path: [*_options(one.own)] for one in chosen},
        "help": {one.path: " ".join(str(one.help).split()) for one in chosen},
    }
    return Answer("help", data, [], {})


def _usage(one: Command) -> str:
    """The words of a command with its arguments; a conversation is named by options, as by the engine."""
    by_option = "--conversation-id <id> | --session-key <key>"
    named = f"({by_option})" if one.takes(options.NeededConversation) else f"[{by_option}]"
    arguments = [
        named if one.takes(options.ConversationOptions) and each.name == "conversation" else _argument(each)
        for each in one.arguments
    ]
    return " ".join([one.path, *arguments])


def _argument(one: click.Argument) -> str:
    dots = "..." if one.nargs == -1 else ""
    name = f"<{label(one).lower().replace('_', '-')}>{dots}"
    return name if one.required else f"[{name}]"


def _options(taken: Iterable[click.Parameter]) -> Iterator[str]:
    for one in taken:
        if isinstance(one, click.Option) and not one.hidden:
            metavar = one.metavar or ""
            value = _VALUES.get(metavar) or re.sub("[A-Z_]+", lambda word: word[0].lower(), metavar)
            yield f"{one.opts[0]} <{value}>" if takes_value(one) else one.opts[0]


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
