"""What is refused of a command line, as one sentence with what may have been meant (docs/spec/command.md,
"Errors").
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import click
from lcm_core.base.errors import UsageError

from lcm_tui.cli import tree
from lcm_tui.cli.command import Command, outer_parameters, parameters_of, takes_value, typed_words, words_of
from lcm_tui.cli.kinds import label
from lcm_tui.cli.presentation import PROGRAM

#: Commands and options that a question names, at most, and how like what was typed they are (of 1).
_NAMED, _LIKE = 3, 0.8
#: Words that people try first for a command of another name.
_OTHER_NAMES = {
    "check": "doctor",
    "compare": "context CONVERSATION --compare NAME=VALUE",
    "delete": "conversations delete",
    "describe": "show",
    "find": "grep",
    "fix": "doctor",
    "forget": "conversations delete --forever",
    "health": "doctor",
    "map": "summaries --map",
    "prune": "conversations delete",
    "search": "grep",
    "snapshots": "context CONVERSATION --snapshots",
    "tail": "messages CONVERSATION --tail fresh",
    "tree": "summaries",
    "version": "--version",
}
#: How ids begin that `show` takes.
_IDS = ("sum_", "file_", "focus_", "op_", "batch_", "asm_")


def refusal(error: click.UsageError) -> UsageError:
    """What click says of a command line, as one sentence of ours."""
    ctx = error.ctx
    assert ctx is not None  # every part of the tree gives it its own
    dotted = words_of(ctx).replace(" ", ".")
    if isinstance(error, click.NoSuchCommand):
        given = " ".join(filter(None, (words_of(ctx), error.command_name)))
        named = given if given.strip() else repr(given)
        return UsageError(
            f"Unknown command: {named}.{_meant(given, str(ctx.command.name or ''))}", code="INVALID_COMMAND"
        )
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error, ctx)
    if isinstance(error, click.BadOptionUsage):
        taken = next(one for one in ctx.command.params if error.option_name in one.opts)
        problem = "needs a value" if takes_value(taken) else "takes no value"
        return UsageError(
            f"{error.option_name} {problem}.", details={"option": error.option_name.lstrip("-")}
        )
    if isinstance(error, click.MissingParameter) and isinstance(ctx.command, Command):
        if isinstance(error.param, click.Argument) and label(error.param) == "CONVERSATION":
            from lcm_tui.cli.options import no_conversation

            return no_conversation(dotted)
        return UsageError(
            f"{words_of(ctx)} needs an argument: {ctx.command.usage(ctx)}.",
            code="INVALID_COMMAND",
            details={"command": dotted},
        )
    return UsageError(
        error.format_message().rstrip(".") + ".", details={"command": dotted} if dotted else None
    )


def _no_such_option(error: click.NoSuchOption, ctx: click.Context) -> UsageError:
    option, words = error.option_name, words_of(ctx)
    dotted = typed_words(ctx).replace(" ", ".")
    details: dict[str, Any] = {"option": option.lstrip("-")}
    if option in ("--conversation-id", "--session-key") and any(
        isinstance(one, click.Argument) and label(one) == "CONVERSATION" for one in ctx.command.params
    ):
        how = f"its id, session key or title without an option, as in `{PROGRAM} {words} 3`"
        return UsageError(f"{words} takes no {option}: name the conversation by {how}.", details=details)
    of_group = words in tree.WORDS and tree.is_group(words)
    near = _like(option, error.possibilities or (), _NAMED, 0.6)  # click counts the dashes as alike
    near = near or ([option.lower()] if option.lower() in ("-v", "--version") else [])
    if of_group or not near or option in _shared():
        if of_group and option in _flags(one for each in tree.declared(words).values() for one in each.own):
            return tree.GroupAloneError(ctx)
        if option in _shared():
            return UsageError(
                f"{option} is not supported by {dotted or f'{PROGRAM} without a command'}.",
                code=None if dotted else "INVALID_COMMAND",
                details={**details, **({"command": dotted} if dotted else {})},
            )
        near = _near(option, words) if of_group else []
    return UsageError(f"Unknown option {option}.{_did_you_mean(near)}", details=details)


def _shared() -> set[str]:
    """What several commands take, or those of the engine: to know all options takes all modules."""
    from lcm_tui.cli import options

    declared = (
        *(options.page_options, options.time_options, options.needed_conversation, options.roles),
        *(options.depth, options.include_content, options.budget, options.at, options.watch),
        *(options.sql_flags(), options.model_options),
    )
    return {*_flags(parameters_of(*declared)), "--count", "--kind"}


def _near(option: str, group: str) -> list[str]:
    """What an unknown option may have been meant as: a command of the *group*, with its option or none."""
    common = _flags(outer_parameters())
    by_flag: dict[str, str] = {}  # the first command of the group that has it
    for one in tree.declared(group).values():
        for each in _flags(one.own):
            by_flag.setdefault(each, one.path)
    flags = _like(option, [*common, *by_flag], 1)
    meant = [flag if flag in common else f"{by_flag[flag]} {flag}" for flag in flags]
    return [*meant, *(f"{group} {word}" for word in _like(option, tree.last_words(group), 1))]


def _flags(params: Iterable[click.Parameter]) -> list[str]:
    """The options of *params* by their long names."""
    return [one.opts[-1] for one in params if isinstance(one, click.Option) and not one.is_eager]


def _meant(given: str, group: str) -> str:
    """What a word that is no command may have been meant as."""
    given = given.lower()
    last = given.split(" ")[-1]
    paths = [path for word in tree.WORDS for path in tree.paths(word)]
    if group and (fitting := _takes(group, last)):
        return f" Did you mean {fitting} {last}?"
    if not group and (other := _OTHER_NAMES.get(last)):
        return f" Did you mean {other}?"
    first = () if group else tree.WORDS
    near = get_close_matches(
        given, [*(path for path in paths if path.startswith(group)), *first], _NAMED, 0.7
    )
    if near:
        return _did_you_mean(near)
    if group:
        verbs = tree.last_words(group)
        return f" `{group}` has {', '.join(verbs[:-1])} and {verbs[-1]}: `{PROGRAM} {group} --help`."
    return _meant_below(last, paths) or f" `{PROGRAM} --help` lists the commands."


def _takes(group: str, word: str) -> str | None:
    """The command that shows what a number or an id names, of the *group* if it has one; None: neither."""
    if not word.isdigit():
        return "show" if word.startswith(_IDS) else None
    listing = tree.declared(group).get("list")
    taken = [label(one) for one in listing.arguments] if listing else []
    return f"{group} list" if taken == ["CONVERSATION"] else "show"


def _meant_below(word: str, paths: Iterable[str]) -> str:
    """The same of a word that is the second one of some commands, or nearly so."""
    pairs = [path.split() for path in paths if " " in path]
    for one in _like(word, {second for _, second in pairs}, 1):
        groups = [group for group, second in pairs if second == one]
        if len(groups) <= _NAMED:
            return _did_you_mean(f"{group} {one}" for group in groups)
        return (
            f" `{one}` is a command of {', '.join(groups[:-1])} and {groups[-1]}, as in `{groups[0]} {one}`."
        )
    return ""


def _like(typed: str, names: Iterable[str], most: int, at_least: float = _LIKE) -> list[str]:
    """The *names* most like what was *typed*; dashes, which all options begin with, make none alike."""
    bare = {name.lstrip("-"): name for name in names}
    return [bare[one] for one in get_close_matches(typed.lstrip("-"), sorted(bare), most, at_least)]


def _did_you_mean(near: Iterable[str]) -> str:
    names = sorted(set(near))
    if not names:
        return ""
    said = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
    return f" Did you mean {said}?"
