"""``grep``: everything that was said, searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from lcm_tui.cli import options
from lcm_tui.cli.commands.messages import Roles
from lcm_tui.cli.declaring import Argument, Option, command
from lcm_tui.cli.kinds import Choice, Raw, StoredText, WholeNumber, invalid

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer, Run

#: Those of `store.searched.DocumentKind`, and of summaries.
KINDS = Choice("message", "summary", "brief", "file", "leaf", "condensed")
DEFAULT_LIMIT, _MAX_OFFSET = 20, 10**9
#: What the engine's own tool can be narrowed to, one at a time.
_ENGINE_KINDS = frozenset({"message", "summary", "file"})

QueryArgument: TypeAlias = Annotated[
    str, Argument("QUERY", 'Words, "a phrase", the start of a word*; all must match.', Raw())
]
AsRegex: TypeAlias = Annotated[
    bool, Option("--regex", "The query is a regular expression; case does not matter.")
]
AsSubstring: TypeAlias = Annotated[
    bool, Option("--substring", "Search for the query literally, also inside words.")
]
AsEngine: TypeAlias = Annotated[bool, Option("--as-engine", "Search and answer like the engine's own tool.")]
MakeIndex: TypeAlias = Annotated[
    bool, Option("--index", "First create or update the private index of the messages.")
]
NoIndex: TypeAlias = Annotated[bool, Option("--no-index", "Use no private index, and keep no recent search.")]
Forget: TypeAlias = Annotated[
    bool, Option("--forget", "Remove the private index and the recent searches; nothing is searched.")
]
InContext: TypeAlias = Annotated[
    str | None,
    Option(
        "--context",
        "Only texts that are in a context (in), or that are not (out).",
        Choice("in", "out"),
        "in|out",
        section=options.FILTERS,
    ),
]
FailEmpty: TypeAlias = Annotated[bool, Option("--fail-empty", "Exit with code 3 if nothing is found.")]
Limit: TypeAlias = Annotated[
    int,
    Option(
        "--limit",
        f"Maximum number of hits; {DEFAULT_LIMIT} by default.",
        WholeNumber(1, options.MAX_LIMIT),
        "1..500",
    ),
]
Cursor: TypeAlias = Annotated[
    int,
    Option(
        "--cursor",
        "The next page: the cursor printed by the previous page.",
        WholeNumber(0, _MAX_OFFSET),
        "CURSOR",
    ),
]
Agent: TypeAlias = Annotated[
    str | None,
    Option(
        "--agent", "Only sessions of this agent.", StoredText(empty=False), "NAME", section=options.FILTERS
    ),
]
Tools: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--tool",
        "Only messages that call this tool; may be given several times.",
        StoredText(),
        "NAME",
        several=True,
        section=options.FILTERS,
    ),
]
WhatKinds: TypeAlias = Annotated[
    tuple[str, ...],
    Option(
        "--kind",
        f"Only of this kind ({', '.join(KINDS.words)}); may be given several times.",
        KINDS,
        "KIND",
        several=True,
        section=options.FILTERS,
    ),
]


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """Which conversations, and what in them."""

    conversation_id: options.ByConversationId = None
    session_key: options.WholeSession = None
    agent: Agent = None
    role: Roles = ()
    tool: Tools = ()
    kind: WhatKinds = ()
    depth: options.Depth = None
    context: InContext = None


@command("grep", examples=('grep "lease table" --limit 5', "grep 'OPS-[0-9]+' --regex --kind message"))
def grep(
    run: Run,
    *,
    query: QueryArgument = "",
    scope: ScopeOptions,
    times: options.TimeOptions,
    regex: AsRegex = False,
    substring: AsSubstring = False,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = 0,
    index: MakeIndex = False,
    no_index: NoIndex = False,
    forget: Forget = False,
    fail_empty: FailEmpty = False,
    as_engine: AsEngine = False,
) -> Answer:
    """Search messages, tool calls, summaries, focus briefs and large files of all conversations."""
    from lcm_core.recall.terms import Mode, parse

    from lcm_tui.cli import recall

    if forget:
        return recall.forget_searches(run)
    if index and no_index:
        raise invalid("index", "cannot be combined with --no-index")
    if regex and substring:
        raise invalid("regex", "cannot be combined with --substring")
    asked = recall.Asked(
        scope.conversation_id,
        scope.session_key,
        scope.agent,
        tuple(dict.fromkeys(scope.role)),
        tuple(dict.fromkeys(scope.tool)),
        tuple(dict.fromkeys(scope.kind)),
        scope.depth,
        *times.span(run.clock),
        limit,
        cursor,
        None if scope.context is None else scope.context == "in",
        not no_index and (index or run.settings.search_cache.value),
    )
    if as_engine:
        _check_for_the_engine(
            scope, {"--substring": substring, "--index": index, "--cursor": cursor, "--forget": forget}
        )
        return recall.engine_grep(run, query, asked, regex=regex, fail_empty=fail_empty)
    mode = Mode.REGEX if regex else Mode.SUBSTRING if substring else Mode.WORDS
    parsed = parse(query, mode)
    if index:
        recall.bring_up_index(run)
    return recall.grep(run, parsed, asked, fail_empty=fail_empty)


def _check_for_the_engine(scope: ScopeOptions, ours: Mapping[str, object]) -> None:
    """Refuse what the engine's own tool does not know: it must not look as if it had been taken into account.

    Raises:
        UsageError: such an option was given.
    """
    given = {
        **ours,
        "--agent": scope.agent,
        "--role": scope.role,
        "--tool": scope.tool,
        "--depth": scope.depth is not None,
        "--context": scope.context,
        "--kind": len(scope.kind) > 1 or not _ENGINE_KINDS.issuperset(scope.kind),
    }
    for option, value in given.items():
        if value:
            raise invalid(
                option.removeprefix("--"), "cannot be combined with --as-engine: its tool has no such choice"
            )
