"""``lcm_expand``: from summaries down to what they were made from (docs/engine/recall.md, "lcm_expand")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lcm_core.javascript import Json, JsonObject, first_units
from lcm_core.recall.answer import ToolAnswer, ToolError
from lcm_core.recall.grants import GrantError
from lcm_core.recall.parameters import MAX_SAFE_INTEGER, Parameters
from lcm_core.recall.patterns import units
from lcm_core.recall.routing import route
from lcm_core.recall.scope import Caller, Scope, granted, resolve_scope
from lcm_core.recall.searching import Clock, Hit, Search, search_rows
from lcm_core.records import ConversationId, Message, Summary, SummaryId, SummaryText
from lcm_core.store.recalled import RecalledRows
from lcm_core.store.search import Kind, Order
from lcm_core.tokens import Estimator, estimate

DEFAULT_DEPTH: Final = 3
QUERY_LIMIT: Final = 50
#: Summaries and messages that one walk takes at most, whatever it is allowed.
MAX_STEPS: Final = 100_000
_SNIPPET: Final = 200
EXPAND_HINT: Final = "Use allConversations=true for cross-conversation expansion."
ONLY_SUBAGENTS: Final = (
    "lcm_expand is only available in sub-agent sessions. Use lcm_expand_query to ask a focused question "
    "against expanded summaries, or lcm_describe/lcm_grep for lighter lookups."
)
NO_GRANT: Final = (
    "Delegated expansion requires a valid grant. This sub-agent session has no propagated expansion grant."
)
NOTHING_ASKED: Final = "Either summaryIds or query must be provided."


@dataclass(frozen=True, slots=True)
class ExpandedMessage:
    """A message that an expansion came to."""

    message: Message
    tokens: int  #: as stored, else as estimated


@dataclass(frozen=True, slots=True)
class Expansion:
    """What lies below one summary, as far as the cap reached."""

    summary_id: SummaryId
    children: tuple[SummaryText, ...]
    messages: tuple[ExpandedMessage, ...]
    tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Expansions:
    """Several of them under one cap."""

    each: tuple[Expansion, ...]
    truncated: bool

    @property
    def tokens(self) -> int:
        """Of all of them."""
        return sum(one.tokens for one in self.each)

    @property
    def cited(self) -> tuple[SummaryId, ...]:
        """Every summary in them, each once, in order."""
        ids = (
            summary_id
            for one in self.each
            for summary_id in (one.summary_id, *(child.summary.summary_id for child in one.children))
        )
        return tuple(dict.fromkeys(ids))

    @property
    def document(self) -> dict[str, Json]:
        """The expansions as a value, with snippets in place of texts."""
        return {
            "expansions": [
                {
                    "summaryId": one.summary_id,
                    "children": [
                        {
                            "summaryId": child.summary.summary_id,
                            "kind": child.summary.kind,
                            "snippet": snippet(child.content),
                            "tokenCount": child.summary.tokens,
                        }
                        for child in one.children
                    ],
                    "messages": [
                        {
                            "messageId": one.message.message_id,
                            "role": one.message.role,
                            "snippet": snippet(one.message.content),
                            "tokenCount": one.tokens,
                        }
                        for one in one.messages
                    ],
                }
                for one in self.each
            ],
            "citedIds": list(self.cited),
            "totalTokens": self.tokens,
            "truncated": self.truncated,
        }


class _Walk:
    """One walk down, which ends for good where the cap is reached."""

    def __init__(self, rows: RecalledRows, include_messages: bool, cap: float) -> None:
        self.children: list[SummaryText] = []
        self.messages: list[ExpandedMessage] = []
        self.tokens = 0
        self.truncated = False
        self._rows = rows
        self._include_messages = include_messages
        self._cap = cap

    def down(self, root: Summary, depth: int) -> None:
        """Go *depth* levels down: each source, then what lies below it, before the next one.

        A source that the way has come through is not entered again: a damaged file may hold a circle.
        """
        way: list[tuple[Summary, Iterator[SummaryText], int]] = []
        self._enter(way, root, depth)
        while way and not self.truncated:
            _, sources, left = way[-1]
            source = next(sources, None)
            if source is None:
                way.pop()
            elif self._take(source.summary.tokens):
                self.children.append(source)
                self._enter(way, source.summary, left - 1)

    def _enter(
        self, way: list[tuple[Summary, Iterator[SummaryText], int]], summary: Summary, left: int
    ) -> None:
        if left <= 0 or any(one.summary_id == summary.summary_id for one, _, _ in way):
            return
        if summary.kind == "condensed":
            edges = self._rows.edges("summary_id", summary.summary_id)
            way.append((summary, iter(self._rows.summaries([edge.source for edge in edges])), left))
        elif self._include_messages:
            for message in self._rows.messages(self._rows.message_ids(summary.summary_id)):
                tokens = message.tokens or estimate(message.content, Estimator.WEIGHTED)
                if not self._take(tokens):
                    return
                self.messages.append(ExpandedMessage(message, tokens))

    def _take(self, tokens: int) -> bool:
        """Whether so many more fit; where they do not, the walk is over."""
        fits = self.tokens + tokens <= self._cap and len(self.children) + len(self.messages) < MAX_STEPS
        self.truncated = not fits
        self.tokens += tokens if fits else 0
        return fits


def expand_summary(
    rows: RecalledRows,
    summary_id: SummaryId,
    *,
    depth: int = DEFAULT_DEPTH,
    include_messages: bool = False,
    cap: float = math.inf,
) -> Expansion:
    """What lies below a summary; nothing below one that is not there."""
    walk = _Walk(rows, include_messages, cap)
    root = rows.summary(summary_id)
    if root is not None:
        walk.down(root.summary, depth)
    return Expansion(summary_id, tuple(walk.children), tuple(walk.messages), walk.tokens, walk.truncated)


def expand_all(
    rows: RecalledRows,
    summary_ids: Iterable[SummaryId],
    *,
    depth: int = DEFAULT_DEPTH,
    include_messages: bool = False,
    cap: float = math.inf,
) -> Expansions:
    """Several summaries, which share a cap in their order; the first that passes it is the last."""
    each: list[Expansion] = []
    tokens = 0
    for summary_id in summary_ids:
        if tokens >= cap:
            return Expansions(tuple(each), True)
        one = expand_summary(
            rows, summary_id, depth=depth, include_messages=include_messages, cap=cap - tokens
        )
        each.append(one)
        tokens += one.tokens
        if one.truncated:
            return Expansions(tuple(each), True)
    return Expansions(tuple(each), False)


def expansion_text(expansions: Expansions) -> str:
    """The expansions for a model: ids and sizes, and the beginning of the first source."""
    lines = [f"## Expansion Results ({len(expansions.each)} summaries, {expansions.tokens} total tokens)", ""]
    for one in expansions.each:
        kind = "condensed" if one.children else "leaf"
        lines.append(f"### {one.summary_id} ({kind}, {one.tokens} tokens)")
        if one.children:
            lines.append(f"Children: {', '.join(child.summary.summary_id for child in one.children)}")
        if one.messages:
            listed = (
                f"msg#{m.message.message_id} ({m.message.role}, {m.tokens} tokens)" for m in one.messages
            )
            lines.append(f"Messages: {', '.join(listed)}")
        if one.children:
            lines.append(f"[Snippet: {snippet(one.children[0].content)}]")
        lines.append("")
    if expansions.cited:
        lines.append(f"Cited IDs for follow-up: {', '.join(expansions.cited)}")
    lines.append(f"[Truncated: {'yes' if expansions.truncated else 'no'}]")
    return "\n".join(lines)


def snippet(text: str) -> str:
    """The first 200 units of a text."""
    return text if len(units(text)) <= _SNIPPET else first_units(text, _SNIPPET) + "..."


# -- the tool ----------------------------------------------------------------------------------------------


def expand(
    rows: RecalledRows,
    given: JsonObject,
    caller: Caller,
    now: datetime | None = None,
) -> ToolAnswer:
    """The answer of ``lcm_expand``; a call that makes no sense is answered with its error."""
    try:
        return _expand(rows, Parameters(given), caller, now or datetime.now(UTC))
    except ToolError as error:
        return error.answer
    except GrantError as error:
        return ToolError(str(error)).answer


def _expand(rows: RecalledRows, parameters: Parameters, caller: Caller, now: datetime) -> ToolAnswer:
    if not caller.is_delegated:
        raise ToolError(ONLY_SUBAGENTS)
    grant = caller.grant
    if grant is None or caller.grants is None:
        raise ToolError(NO_GRANT)
    scope = resolve_scope(rows, parameters, caller, no_grant=NO_GRANT)
    ids = [SummaryId(one) for one in parameters.texts("summaryIds")]
    query = parameters.text("query")
    if not ids and not query:
        raise ToolError(NOTHING_ASKED)
    if ids:
        check_inside(rows, ids, scope)
    else:
        ids = [hit.summary_id for hit in candidates(rows, query, scope, now) if hit.summary_id is not None]
    cap = parameters.number("tokenCap")
    depth = parameters.number("maxDepth")
    messages = parameters.flag("includeMessages")
    routed = route(
        probe=not parameters.texts("summaryIds"),
        candidates=len(ids),
        query=query or None,
        max_depth=depth,
        token_cap=MAX_SAFE_INTEGER if cap is None else cap,
        include_messages=messages,
    )
    covered = granted(rows, grant)
    conversation = scope.single or _conversation_of(rows, ids) or next(iter(covered), ConversationId(0))
    levels, tokens = caller.grants.permitted(
        grant.grant_id,
        conversation,
        ids if parameters.texts("summaryIds") else (),
        max_depth=depth,
        token_cap=cap,
        family=covered,
    )
    expansions = expand_all(rows, ids, depth=levels, include_messages=messages, cap=tokens)
    caller.grants.consume(grant.grant_id, expansions.tokens)
    return ToolAnswer(
        expansion_text(expansions),
        {
            "expansionCount": len(expansions.each),
            "citedIds": list(expansions.cited),
            "totalTokens": expansions.tokens,
            "truncated": expansions.truncated,
            "policy": routed.document,
            "executionPath": "direct",
            "observability": {
                "decisionPath": {"policyAction": routed.action, "executionPath": "direct"},
                "policyReasons": list(routed.reasons),
            },
        },
    )


def candidates(
    rows: RecalledRows, query: str, scope: Scope, now: datetime, limit: int = QUERY_LIMIT
) -> list[Hit]:
    """The summaries that words are found in, newest first."""
    search = Search(query, True, scope.conversations, None, None, limit, Order.RECENCY, now)
    return search_rows(rows, search, Kind.SUMMARIES, Clock())


def check_inside(
    rows: RecalledRows, ids: Sequence[SummaryId], scope: Scope, hint: str | None = EXPAND_HINT
) -> None:
    """See that summaries belong to the conversations of a call.

    Raises:
        ToolError: some do not.
    """
    known = {text.summary.summary_id: text.summary for text in rows.summaries(ids)}
    outside = [one for one in ids if one in known and not scope.covers(known[one].conversation_id)]
    if outside:
        where = f"conversation {scope.single}" if scope.single is not None else scope.label
        raise ToolError(f"Some summaryIds are outside {where}: {', '.join(outside)}", hint)


def _conversation_of(rows: RecalledRows, ids: Sequence[SummaryId]) -> ConversationId | None:
    found = rows.summaries(ids[:1])
    return found[0].summary.conversation_id if found else None
