"""What three of the engine's tools answer: ``lcm_describe``, ``lcm_expand`` and ``lcm_grep``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, first_units, read_json, trimmed
from lcm_core.base.records import ConversationId, LargeFile, Message, Summary, SummaryId, SummaryText
from lcm_core.base.times import engine_label, engine_moment, iso_z
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record, Struct, field, to_json
from lcm_core.store.search import FoundRow, Kind, Order, RecalledRows

from lcm_recall.answer import MAX_SAFE_INTEGER, Parameters, ToolAnswer, ToolError, id_in
from lcm_recall.grants import Caller, Scope, granted, resolve_scope, route
from lcm_recall.queries import (
    FILE_BYTES,
    Clock,
    FileHit,
    RecallSettings,
    Search,
    read_bounded,
    search_files,
    search_rows,
    syntax_in,
    units,
)

# -- lcm_describe ----------------------------------------------------------------------------------------
# A summary or a file by its id (docs/spec/recall.md, "lcm_describe").

_ID_HINT: Final = (
    "Use a bare ID such as sum_xxx or file_xxx, or a single reference string such as "
    "[LCM Tool Output: file_xxx | ...]."
)
_UNKNOWN_HINT: Final = "Check the ID format (sum_xxx for summaries, file_xxx for files)."
_SCOPE_HINT: Final = "Use allConversations=true for cross-conversation lookup."
DEFAULT_FILE_BYTES: Final = 32_768
_LEAST_FILE_BYTES, _MOST_FILE_BYTES = 1_024, 512_000


class ManifestNode(Record, frozen=True):
    """A summary on the way from the described one towards what was made from it."""

    summary: Summary
    below: SummaryId | None  #: the node that the way came from
    distance: int
    consumers: int
    path: str  #: the ordinals of the edges on the way, four digits each

    @property
    def summaries_only(self) -> int:
        """Tokens of its text and of all summaries below it."""
        return self.summary.tokens + (self.summary.descendant_tokens or 0)

    @property
    def with_messages(self) -> int:
        """The same with the messages."""
        return self.summaries_only + (self.summary.source_message_tokens or 0)


def describe(
    rows: RecalledRows, parameters: Parameters, caller: Caller, settings: RecallSettings, now: datetime
) -> ToolAnswer:
    """The answer of ``lcm_describe``.

    Raises:
        ToolError: the call makes no sense.
    """
    try:
        wanted = id_in(parameters.text("id"))
    except ToolError as error:
        raise ToolError(error.error, error.hint or _ID_HINT) from None
    scope = resolve_scope(rows, parameters, caller)
    if wanted.startswith("sum_"):
        text = rows.summary(SummaryId(wanted))
        owner, file = None if text is None else text.summary.conversation_id, None
    else:
        text, file = None, rows.file(wanted)
        owner = None if file is None else file.conversation_id
    if owner is None:
        raise ToolError(f"Not found: {wanted}", _UNKNOWN_HINT)
    if not scope.covers(owner):
        place = "delegated conversation" if caller.is_delegated else "this session"
        raise ToolError(f"Not found in {place} scope: {wanted}", _SCOPE_HINT)
    if text is not None:
        return _summary_answer(rows, text, parameters, caller, settings)
    assert file is not None
    return _file_answer(rows, file, parameters, settings)


# -- a summary described ---------------------------------------------------------------------------------


def _manifest(rows: RecalledRows, summary: Summary) -> Iterator[ManifestNode]:
    """The summary and, level by level, everything that was made from it, each once."""
    seen = {summary.summary_id}
    level: list[tuple[Summary, SummaryId | None, str]] = [(summary, None, "")]
    distance = 0
    while level:
        above: list[tuple[SummaryId, SummaryId, str]] = []
        for one, below, path in level:
            edges = rows.edges("parent_summary_id", one.summary_id)
            yield ManifestNode(one, below, distance, len(edges), path)
            for edge in edges:
                step = f"{edge.ordinal:04d}"
                above.append((edge.consumer, one.summary_id, f"{path}.{step}" if path else step))
        ordered = sorted(above, key=lambda one: one[2])
        level = []
        known = {text.summary.summary_id: text.summary for text in rows.summaries(one[0] for one in ordered)}
        for consumer, below, path in ordered:
            if consumer in known and consumer not in seen:
                seen.add(consumer)
                level.append((known[consumer], below, path))
        distance += 1


def _summary_answer(
    rows: RecalledRows,
    text: SummaryText,
    parameters: Parameters,
    caller: Caller,
    settings: RecallSettings,
) -> ToolAnswer:
    cap, source = _budget(parameters, caller, settings)
    summary = text.summary
    links, manifest = rows.links(summary.summary_id), list(_manifest(rows, summary))
    lines = [
        f"LCM_SUMMARY {summary.summary_id}",
        f"meta conv={summary.conversation_id} kind={summary.kind} depth={summary.depth} "
        f"{_counts(summary)} desc={summary.descendant_count or 0} "
        f"range={_range(summary, settings)} budgetCap={cap}",
    ]
    for name, ids in (("parents", links.sources), ("children", links.consumers)):
        if ids:
            lines.append(f"{name} {' '.join(ids)}")
    lines.append("manifest")
    lines += [_manifest_line(node, cap, settings) for node in manifest]
    lines += ["content", text.content]
    details: dict[str, Json] = {
        "id": summary.summary_id,
        "type": "summary",
        "summary": {
            "conversationId": summary.conversation_id,
            "kind": summary.kind,
            **_sizes(summary),
            "fileIds": _file_ids(summary.file_ids),
            "parentIds": list(links.sources),
            "childIds": list(links.consumers),
            "messageIds": list(links.messages),
            **_times(summary),
            "createdAt": _iso(summary.created_at),
        },
        "manifest": {
            "tokenCap": cap,
            "budgetSource": source,
            "nodes": [_manifest_document(node, cap) for node in manifest],
        },
    }
    return ToolAnswer("\n".join(lines), details)


def _budget(parameters: Parameters, caller: Caller, settings: RecallSettings) -> tuple[int, str]:
    """The tokens that costs are compared with, and where the number is from."""
    rest: int | None = None
    if caller.is_delegated and caller.grants is not None and caller.grant is not None:
        rest = caller.grants.remaining(caller.grant.grant_id)
    asked = parameters.number("tokenCap")
    if asked is not None:
        asked = max(1, asked)
        return (asked if rest is None else min(asked, rest)), "request"
    if rest is not None:
        return rest, "delegated_grant_remaining"
    return settings.max_expand_tokens, "config_default"


def _counts(summary: Summary) -> str:
    return (
        f"tok={summary.tokens} descTok={summary.descendant_tokens or 0} "
        f"srcTok={summary.source_message_tokens or 0}"
    )


def _manifest_line(node: ManifestNode, cap: int, settings: RecallSettings) -> str:
    summary = node.summary
    fits = [("in" if cost <= cap else "over") for cost in (node.summaries_only, node.with_messages)]
    return (
        f"d{node.distance} {summary.summary_id} k={summary.kind} {_counts(summary)} "
        f"desc={summary.descendant_count or 0} child={node.consumers} range={_range(summary, settings)} "
        f"cost[s={node.summaries_only},m={node.with_messages}] budget[s={fits[0]},m={fits[1]}]"
    )


def _manifest_document(node: ManifestNode, cap: int) -> JsonObject:
    summary = node.summary
    return {
        "summaryId": summary.summary_id,
        "parentSummaryId": node.below,
        "depthFromRoot": node.distance,
        **_sizes(summary),
        "childCount": node.consumers,
        **_times(summary),
        "path": node.path,
        "costs": {"summariesOnly": node.summaries_only, "withMessages": node.with_messages},
        "budgetFit": {
            "summariesOnly": node.summaries_only <= cap,
            "withMessages": node.with_messages <= cap,
        },
    }


def _sizes(summary: Summary) -> JsonObject:
    return {
        "depth": summary.depth,
        "kind": summary.kind,
        "tokenCount": summary.tokens,
        "descendantCount": summary.descendant_count or 0,
        "descendantTokenCount": summary.descendant_tokens or 0,
        "sourceMessageTokenCount": summary.source_message_tokens or 0,
    }


def _times(summary: Summary) -> JsonObject:
    return {"earliestAt": _iso(summary.earliest_at), "latestAt": _iso(summary.latest_at)}


def _range(summary: Summary, settings: RecallSettings) -> str:
    return f"{_label(summary.earliest_at, settings)}..{_label(summary.latest_at, settings)}"


def _label(stamp: str | None, settings: RecallSettings) -> str:
    moment = engine_moment(stamp)
    return "-" if moment is None else engine_label(moment, settings.zone)


def _iso(stamp: str | None) -> str | None:
    moment = engine_moment(stamp)
    return None if moment is None else iso_z(moment)


def _file_ids(stored: str) -> list[Json]:
    try:
        value = read_json(stored)
    except ValueError:
        return []
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


# -- a file described ------------------------------------------------------------------------------------


#: The text of a file as far as it is wanted, whether that is cut, and the bytes of the whole.
_Content = tuple[str, bool, int | None]


def _file_answer(
    rows: RecalledRows, file: LargeFile, parameters: Parameters, settings: RecallSettings
) -> ToolAnswer:
    wanted = parameters.flag("expandFile")
    content = _content(rows, file, parameters, settings) if wanted else None
    lines = [
        f"## LCM File: {file.file_id}",
        "",
        f"**Conversation:** {file.conversation_id}",
        f"**Name:** {file.file_name or '(no name)'}",
        f"**Type:** {file.mime_type or 'unknown'}",
    ]
    if file.byte_size is not None:
        lines.append(f"**Size:** {file.byte_size:,} bytes")
    if file.line_count is not None:
        lines.append(f"**Lines:** {file.line_count:,}")
    lines.append(f"**Created:** {_label(file.created_at, settings)}")
    if file.exploration_summary:
        lines += ["", "## Exploration Summary", "", file.exploration_summary]
    else:
        lines += ["", "*No exploration summary available.*"]
    if wanted:
        lines += _content_lines(file, content)
    document: dict[str, Json] = {**to_json(file), "createdAt": _iso(file.created_at)}
    del document["fileId"], document["explorationSummary"]
    if content is not None:
        document |= {"content": content[0], "contentTruncated": content[1]}
    document["hasExplorationSummary"] = bool(file.exploration_summary)
    return ToolAnswer("\n".join(lines), {"id": file.file_id, "type": "file", "file": document})


def _content_lines(file: LargeFile, content: _Content | None) -> list[str]:
    if content is None:
        return ["", "*Content unavailable: file missing on disk or path failed validation.*"]
    text, truncated, whole = content
    lines = ["", "## Content", "", "```", text, "```"]
    if truncated:
        size = file.byte_size if file.byte_size is not None else whole
        shown = "unknown" if size is None else f"{size:,}"
        lines += [
            "",
            f"*Output truncated to {len(units(text)):,} of {shown} bytes. "
            f"Use lcm_grep(scope='files', fileIds=['{file.file_id}']) to search the bounded file prefix.*",
        ]
    return lines


def _content(
    rows: RecalledRows, file: LargeFile, parameters: Parameters, settings: RecallSettings
) -> _Content | None:
    """The text of a file as far as it is wanted; of a lost one that of its message, whole.

    Raises:
        ToolError: lines were asked for that end before they begin.
    """
    first, last = parameters.number("startLine"), parameters.number("endLine")
    if first is not None and last is not None and last < first:
        raise ToolError("`endLine` must be greater than or equal to `startLine`.")
    asked = parameters.number("expandFileMaxBytes")
    limit = DEFAULT_FILE_BYTES if asked is None else min(max(asked, _LEAST_FILE_BYTES), _MOST_FILE_BYTES)
    read = read_bounded(file, settings, limit)
    if read is None:
        text = rows.text_of_file(file.file_id)
        return None if text is None else (text, False, None)
    data, size = read
    cut = size > len(data)
    text = (_whole_characters(data) if cut else data).decode("utf-8", "replace")
    if first is None:
        return text, cut, size
    lines = re.split("\r?\n", text)
    chosen = "\n".join(lines[max(1, first) - 1 : last])
    return chosen, cut or (last is not None and last > len(lines)), size


def _whole_characters(data: bytes) -> bytes:
    """Without the beginning of a character at the end that was cut in two."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data if back >= length else data[:-back]
    return data


# -- lcm_expand ------------------------------------------------------------------------------------------
# From summaries down to what they were made from (docs/spec/recall.md, "lcm_expand").

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


class ExpandedMessage(Record, frozen=True):
    """A message that an expansion came to."""

    message: Message
    tokens: int  #: as stored, else as estimated


class Expansion(Struct):
    """What lies below one summary, as far as a walk down came; it ends for good where the cap is reached."""

    summary_id: SummaryId
    children: list[SummaryText] = field(default_factory=list)
    messages: list[ExpandedMessage] = field(default_factory=list)
    tokens: int = 0
    truncated: bool = False

    def take(self, tokens: int, cap: float) -> bool:
        """Whether so many more fit; where they do not, the walk is over."""
        fits = self.tokens + tokens <= cap and len(self.children) + len(self.messages) < MAX_STEPS
        self.truncated = not fits
        self.tokens += tokens if fits else 0
        return fits


class Expansions(Record, frozen=True):
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


def expand_summary(
    rows: RecalledRows,
    summary_id: SummaryId,
    *,
    depth: int = DEFAULT_DEPTH,
    include_messages: bool = False,
    cap: float = math.inf,
) -> Expansion:
    """What lies below a summary: each source, then what lies below it, before the next one.

    Nothing below one that is not there. A source that the way has come through is not entered again: a
    damaged file may hold a circle.
    """
    found = Expansion(summary_id)
    way: list[tuple[Summary, Iterator[SummaryText], int]] = []

    def enter(summary: Summary, left: int) -> None:
        if left <= 0 or any(one.summary_id == summary.summary_id for one, _, _ in way):
            return
        if summary.kind == "condensed":
            edges = rows.edges("summary_id", summary.summary_id)
            way.append((summary, iter(rows.summaries([edge.source for edge in edges])), left))
        elif include_messages:
            for message in rows.messages(rows.message_ids(summary.summary_id)):
                tokens = message.tokens or estimate(message.content, Estimator.WEIGHTED)
                if not found.take(tokens, cap):
                    return
                found.messages.append(ExpandedMessage(message, tokens))

    root = rows.summary(summary_id)
    if root is not None:
        enter(root.summary, depth)
    while way and not found.truncated:
        _, sources, left = way[-1]
        source = next(sources, None)
        if source is None:
            way.pop()
        elif found.take(source.summary.tokens, cap):
            found.children.append(source)
            enter(source.summary, left - 1)
    return found


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
    for summary_id in summary_ids:
        left = cap - sum(one.tokens for one in each)
        if left <= 0 or (each and each[-1].truncated):
            return Expansions(tuple(each), True)
        each.append(
            expand_summary(rows, summary_id, depth=depth, include_messages=include_messages, cap=left)
        )
    return Expansions(tuple(each), bool(each) and each[-1].truncated)


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


# -- the tool lcm_expand ---------------------------------------------------------------------------------


def expand(
    rows: RecalledRows, parameters: Parameters, caller: Caller, settings: RecallSettings, now: datetime
) -> ToolAnswer:
    """The answer of ``lcm_expand``.

    Raises:
        ToolError: the call makes no sense, or its grant does not cover it.
    """
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
            "policy": to_json(routed),
            "executionPath": "direct",
            "observability": {
                "decisionPath": {"policyAction": routed.action, "executionPath": "direct"},
                "policyReasons": list(routed.reasons),
            },
        },
    )


def candidates(
    rows: RecalledRows, query: str, scope: Scope, now: datetime, limit: int = QUERY_LIMIT
) -> list[FoundRow]:
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


# -- lcm_grep --------------------------------------------------------------------------------------------
# Where a pattern or words are found (docs/spec/recall.md, "lcm_grep").

DEFAULT_LIMIT: Final = 50
MAX_CHARACTERS: Final = 40_000
_MODES: Final = ("regex", "full_text")
_SCOPES: Final = ("both", "messages", "summaries", "files")


def grep(
    rows: RecalledRows, parameters: Parameters, caller: Caller, settings: RecallSettings, now: datetime
) -> ToolAnswer:
    """The answer of ``lcm_grep``.

    Raises:
        ToolError: the call makes no sense.
    """
    pattern = parameters.text("pattern")
    if not pattern:
        raise ToolError("pattern is required.")
    mode = _one_of(parameters, "mode", _MODES)
    scope_name = _one_of(parameters, "scope", _SCOPES)
    full_text = mode == "full_text"
    order = Order(_one_of(parameters, "sort", tuple(Order))) if full_text else Order.RECENCY
    since = parameters.moment("since", settings.local)
    before = parameters.moment("before", settings.local)
    if since is not None and before is not None and since >= before:
        raise ToolError("`since` must be earlier than `before`.")
    scope = resolve_scope(rows, parameters, caller)
    syntax = syntax_in(pattern) if full_text else None
    if syntax is not None:
        raise ToolError(
            f'full_text mode does not support regex syntax ({syntax}). Use mode: "regex" for `{pattern}`, '
            "or rewrite the full_text query as 1-3 literal terms or one quoted phrase."
        )
    limit = parameters.number("limit")
    search = Search(
        pattern,
        full_text,
        scope.conversations,
        since,
        before,
        DEFAULT_LIMIT if limit is None else limit,
        order,
        now,
    )
    clock = Clock()
    found = {
        kind: search_rows(rows, search, kind, clock) if scope_name in ("both", kind) else [] for kind in Kind
    }
    files: list[FileHit] = []
    if scope_name == "files":
        files = search_files(rows, search, parameters.texts("fileIds"), settings, clock)
    return _answer(search, mode, scope_name, scope, found, files, settings)


def _one_of(parameters: Parameters, name: str, known: Sequence[str]) -> str:
    """One of some words; the first stands for what was not given."""
    given = parameters.text(name)
    return given if given in known else known[0]


def _answer(
    search: Search,
    mode: str,
    scope_name: str,
    scope: Scope,
    found: dict[Kind, list[FoundRow]],
    files: list[FileHit],
    settings: RecallSettings,
) -> ToolAnswer:
    messages, summaries = found[Kind.MESSAGES], found[Kind.SUMMARIES]
    total = len(messages) + len(summaries) + len(files)
    lines = [
        "## LCM Grep Results",
        f"**Pattern:** `{search.pattern}`",
        f"**Mode:** {mode} | **Scope:** {scope_name} | **Sort:** {search.order}",
        f"**Conversation scope:** {scope.label}",
    ]
    if search.since is not None or search.before is not None:
        since = "-∞" if search.since is None else engine_label(search.since, settings.zone)
        before = "+∞" if search.before is None else engine_label(search.before, settings.zone)
        lines.append(f"**Time filter:** since {since} | before {before}")
    if scope_name == "files":
        lines.append(
            f"**File scan:** first {FILE_BYTES:,} bytes per file; "
            "matches beyond that prefix are not searched."
        )
    lines += [f"**Total matches:** {total}", ""]
    sections = (
        ("Messages", [_hit_line(hit, f"msg#{hit.message_id}", settings) for hit in messages]),
        ("Summaries", [_hit_line(hit, f"{hit.summary_id}", settings) for hit in summaries]),
        ("Files", [_file_line(hit) for hit in files]),
    )
    _add_sections(lines, sections)
    if total == 0:
        lines.append("No matches found.")
    details: dict[str, Json] = {
        "messageCount": len(messages),
        "summaryCount": len(summaries),
        "fileCount": len(files),
    }
    if scope_name == "files":
        details["fileScanByteLimit"] = FILE_BYTES
    return ToolAnswer("\n".join(lines), {**details, "totalMatches": total})


def _add_sections(lines: list[str], sections: Sequence[tuple[str, list[str]]]) -> None:
    """Add the sections that hold something, as far as there is room."""
    length = len(units("\n".join(lines)))
    for title, found in sections:
        if not found:
            continue
        lines += [f"### {title}", ""]
        for line in found:
            if length + len(units(line)) > MAX_CHARACTERS:
                lines.append("*(truncated — more results available)*")
                break
            lines.append(line)
            length += len(units(line))
        lines.append("")


def _hit_line(hit: FoundRow, name: str, settings: RecallSettings) -> str:
    where = f"[conv={hit.conversation_id} {name}]"
    return f"- {where} ({hit.label}, {_label(hit.at, settings)}): {_snippet(hit.snippet or '')}"


def _file_line(hit: FileHit) -> str:
    name = f" ({hit.name})" if hit.name else ""
    cut = " (file scan truncated)" if hit.cut else ""
    where = f"[conv={hit.conversation_id} {hit.file_id}{name}]"
    return f"- {where} line {hit.line}, offset {hit.offset}: `{hit.match}` {_snippet(hit.snippet)}{cut}"


def _snippet(text: str | None) -> str:
    """A snippet in one line, cut after 200 units."""
    line = trimmed((text or "").replace("\n", " "))
    return line if len(units(line)) <= _SNIPPET else first_units(line, _SNIPPET - 3) + "..."
