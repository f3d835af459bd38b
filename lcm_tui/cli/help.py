"""``--help`` for programs: what there is and what a command takes, made from the declarations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click
from lcm_core.base.setting_values import Json

from lcm_tui.cli import options, tree
from lcm_tui.cli.answer import Answer
from lcm_tui.cli.command import Command, common_options, parameters_of, takes_value
from lcm_tui.cli.kinds import label
from lcm_tui.cli.presentation import PROGRAM

#: Options that several commands share, by the names that the engine's own help has for some of them.
_SHARED = {
    "globalOptions": common_options,
    "listOptions": options.page_options,
    "selectorOptions": options.engine_conversation,
    "timeOptions": options.engine_times,
    "periodOptions": options.period_options,
    "pastOptions": options.at,
    "mapOptions": options.as_map,
    "changeOptions": options.sql_flags(),
    "modelOptions": options.model_options,
}
#: What the engine's help calls the options of single commands.
_OF_ONE = {"messageOptions": "messages", "summaryOptions": "summaries"}
#: What stands for a value in our help and in that of the engine.
_VALUES = {
    "TIME": "iso-timestamp",
    "TIME..TIME": "start>..<end",
    "DURATION": "duration: s|m|h|d|w",
    "CURSOR": "opaque-cursor",
    "N": "integer",
}


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
        **{name: [each for each in own[of] if "--tail" not in each] for name, of in _OF_ONE.items()},
        "tailOptions": ["--count <1..500>"],
        "options": {one.path: [*_options(one.own)] for one in chosen},
        "help": {one.path: " ".join(str(one.help).split()) for one in chosen},
    }
    return Answer("help", data, [], {})


def _usage(one: Command) -> str:
    """The words of a command with its arguments; a conversation by the options that the engine's has."""
    by_option = "--conversation-id <id> | --session-key <key>"
    named = f"[{by_option}]" if one.path == "summaries" else f"({by_option})"
    by_engine = one.takes(options.EngineConversation)
    return " ".join([one.path, *([named] if by_engine else map(_argument, one.arguments))])


def _argument(one: click.Argument) -> str:
    dots = "..." if one.nargs == -1 else ""
    name = f"<{label(one).lower().replace('_', '-')}>{dots}"
    return name if one.required else f"[{name}]"


def _options(taken: Iterable[click.Parameter]) -> Iterator[str]:
    for one in taken:
        if isinstance(one, click.Option) and not one.hidden:
            metavar = one.metavar or ""
            value = _VALUES.get(metavar) or re.sub("[A-Z_]+", lambda word: word[0].lower(), metavar)
            yield f"{one.opts[0]} <{value}>" if takes_value(one) else max(one.opts, key=len)
