"""``expand``: from a summary down to what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.commands.grep import AsEngine
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import WholeNumber, invalid

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: That of `recall.read.DEFAULT_TOKENS`.
DEFAULT_TOKENS, _MAX_TOKENS = 4_000, 1_000_000
#: No summary is so far above its messages.
_MAX_LEVEL = 1_000_000

IdArgument: TypeAlias = Annotated[
    str,
    Argument(
        "ID",
        "m12, sum_..., file_..., a brief (or a unique prefix of a summary or brief), or a citation.",
    ),
]
Tokens: TypeAlias = Annotated[
    int,
    Option("--tokens", f"Tokens of a page; {DEFAULT_TOKENS:,} by default.", WholeNumber(1, _MAX_TOKENS), "N"),
]
NoMessages: TypeAlias = Annotated[
    bool, Option("--no-messages", "Only summaries, without the messages below.")
]
ByLevel: TypeAlias = Annotated[
    bool, Option("--by-level", "What is below the summary level by level, and the tokens of each; no texts.")
]
OneLevel: TypeAlias = Annotated[
    int | None,
    Option(
        "--level", "Only the texts of this level: 0 is the summary itself.", WholeNumber(0, _MAX_LEVEL), "N"
    ),
]


@command(
    "expand",
    examples=(
        "expand sum_4c4bd5292abfa225 --tokens 2000",
        "expand sum_4c4bd5292abfa225 --by-level",
        "expand sum_4c4bd5292abfa225 --level 1",
    ),
)
def expand(
    run: Run,
    *,
    name: IdArgument,
    tokens: Tokens = DEFAULT_TOKENS,
    cursor: options.Cursor = None,
    no_messages: NoMessages = False,
    by_level: ByLevel = False,
    level: OneLevel = None,
    as_engine: AsEngine = False,
) -> Answer:
    """Read down from a summary to its messages with their tool calls, page by page, with citations."""
    from lcm_tui.cli import recall

    named = {"--by-level": by_level, "--level": level is not None, "--as-engine": as_engine}
    chosen = [option for option, given in named.items() if given]
    if len(chosen) > 1:
        raise invalid(chosen[0].removeprefix("--"), f"cannot be combined with {chosen[1]}")
    if as_engine and cursor:
        raise invalid("cursor", "cannot be combined with --as-engine: its tool has no pages")
    if chosen and no_messages and not as_engine:
        raise invalid("no-messages", f"cannot be combined with {chosen[0]}")
    if by_level:
        return recall.expand_levels(run, name)
    if level is not None:
        return recall.expand_level(run, name, level, tokens, cursor)
    if as_engine:
        return recall.engine_expand(run, name, tokens, with_messages=not no_messages)
    return recall.expand(run, name, tokens, cursor, with_messages=not no_messages)
