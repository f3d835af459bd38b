"""``lcm_describe``: a summary or a file by its id (docs/engine/recall.md, "lcm_describe")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.javascript import Json, JsonObject, read_json
from lcm_core.recall.answer import ToolAnswer, ToolError
from lcm_core.recall.ids import id_in
from lcm_core.recall.parameters import Parameters, grouped
from lcm_core.recall.patterns import units
from lcm_core.recall.scope import Caller, Scope, resolve_scope
from lcm_core.recall.searching import read_bounded
from lcm_core.recall.settings import RecallSettings
from lcm_core.records import ConversationId, LargeFile, Summary, SummaryId, SummaryText
from lcm_core.store.recalled import Links, RecalledRows
from lcm_core.times import engine_label, engine_moment, iso_z

_ID_HINT: Final = (
    "Use a bare ID such as sum_xxx or file_xxx, or a single reference string such as "
    "[LCM Tool Output: file_xxx | ...]."
)
_UNKNOWN_HINT: Final = "Check the ID format (sum_xxx for summaries, file_xxx for files)."
_SCOPE_HINT: Final = "Use allConversations=true for cross-conversation lookup."
DEFAULT_FILE_BYTES: Final = 32_768
_LEAST_FILE_BYTES, _MOST_FILE_BYTES = 1_024, 512_000


@dataclass(frozen=True, slots=True)
class ManifestNode:
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


@dataclass(frozen=True, slots=True)
class DescribedSummary:
    """A summary with what is around it."""

    text: SummaryText
    links: Links
    manifest: tuple[ManifestNode, ...]

    @property
    def document(self) -> dict[str, Json]:
        """Its values, without its text and its manifest."""
        summary = self.text.summary
        return {
            "conversationId": summary.conversation_id,
            "kind": summary.kind,
            "depth": summary.depth,
            "tokenCount": summary.tokens,
            "descendantCount": summary.descendant_count or 0,
            "descendantTokenCount": summary.descendant_tokens or 0,
            "sourceMessageTokenCount": summary.source_message_tokens or 0,
            "fileIds": _file_ids(summary.file_ids),
            "parentIds": list(self.links.sources),
            "childIds": list(self.links.consumers),
            "messageIds": list(self.links.messages),
            "earliestAt": _iso(summary.earliest_at),
            "latestAt": _iso(summary.latest_at),
            "createdAt": _iso(summary.created_at),
        }


def describe(rows: RecalledRows, given: JsonObject, caller: Caller, settings: RecallSettings) -> ToolAnswer:
    """The answer of ``lcm_describe``; a call that makes no sense is answered with its error."""
    try:
        return _describe(rows, Parameters(given), caller, settings)
    except ToolError as error:
        return error.answer


def _describe(
    rows: RecalledRows, parameters: Parameters, caller: Caller, settings: RecallSettings
) -> ToolAnswer:
    try:
        wanted = id_in(parameters.text("id"))
    except ToolError as error:
        raise ToolError(error.error, error.hint or _ID_HINT) from None
    scope = resolve_scope(rows, parameters, caller)
    if wanted.startswith("sum_"):
        found = describe_summary(rows, SummaryId(wanted))
        if found is None:
            raise ToolError(f"Not found: {wanted}", _UNKNOWN_HINT)
        _check_scope(scope, found.text.summary.conversation_id, wanted, caller)
        return _summary_answer(found, parameters, caller, settings)
    file = rows.file(wanted)
    if file is None:
        raise ToolError(f"Not found: {wanted}", _UNKNOWN_HINT)
    _check_scope(scope, file.conversation_id, wanted, caller)
    return _file_answer(rows, file, parameters, settings)


def _check_scope(scope: Scope, conversation_id: ConversationId, wanted: str, caller: Caller) -> None:
    if scope.covers(conversation_id):
        return
    if caller.is_delegated:
        raise ToolError(f"Not found in delegated conversation scope: {wanted}", _SCOPE_HINT)
    raise ToolError(f"Not found in this session scope: {wanted}", _SCOPE_HINT)


# -- summaries ---------------------------------------------------------------------------------------------


def describe_summary(rows: RecalledRows, summary_id: SummaryId) -> DescribedSummary | None:
    """A summary with what is around it; None when it is not there."""
    text = rows.summary(summary_id)
    if text is None:
        return None
    return DescribedSummary(text, rows.links(summary_id), tuple(_manifest(rows, text.summary)))


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
    found: DescribedSummary, parameters: Parameters, caller: Caller, settings: RecallSettings
) -> ToolAnswer:
    cap, source = _budget(parameters, caller, settings)
    summary, text = found.text.summary, found.text
    lines = [
        f"LCM_SUMMARY {summary.summary_id}",
        f"meta conv={summary.conversation_id} kind={summary.kind} depth={summary.depth} "
        f"{_counts(summary)} desc={summary.descendant_count or 0} "
        f"range={_range(summary, settings)} budgetCap={cap}",
    ]
    for name, ids in (("parents", found.links.sources), ("children", found.links.consumers)):
        if ids:
            lines.append(f"{name} {' '.join(ids)}")
    lines.append("manifest")
    lines += [_manifest_line(node, cap, settings) for node in found.manifest]
    lines += ["content", text.content]
    details: dict[str, Json] = {
        "id": summary.summary_id,
        "type": "summary",
        "summary": found.document,
        "manifest": {
            "tokenCap": cap,
            "budgetSource": source,
            "nodes": [_manifest_document(node, cap) for node in found.manifest],
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
        "depth": summary.depth,
        "kind": summary.kind,
        "tokenCount": summary.tokens,
        "descendantCount": summary.descendant_count or 0,
        "descendantTokenCount": summary.descendant_tokens or 0,
        "sourceMessageTokenCount": summary.source_message_tokens or 0,
        "childCount": node.consumers,
        "earliestAt": _iso(summary.earliest_at),
        "latestAt": _iso(summary.latest_at),
        "path": node.path,
        "costs": {"summariesOnly": node.summaries_only, "withMessages": node.with_messages},
        "budgetFit": {
            "summariesOnly": node.summaries_only <= cap,
            "withMessages": node.with_messages <= cap,
        },
    }


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


# -- files -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Content:
    text: str
    truncated: bool
    size: int | None  #: bytes of the whole


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
        lines.append(f"**Size:** {grouped(file.byte_size)} bytes")
    if file.line_count is not None:
        lines.append(f"**Lines:** {grouped(file.line_count)}")
    lines.append(f"**Created:** {_label(file.created_at, settings)}")
    if file.exploration_summary:
        lines += ["", "## Exploration Summary", "", file.exploration_summary]
    else:
        lines += ["", "*No exploration summary available.*"]
    if wanted:
        lines += _content_lines(file, content)
    document: dict[str, Json] = {
        "conversationId": file.conversation_id,
        "fileName": file.file_name,
        "mimeType": file.mime_type,
        "byteSize": file.byte_size,
        "lineCount": file.line_count,
        "storageUri": file.storage_uri,
        "createdAt": _iso(file.created_at),
    }
    if content is not None:
        document |= {"content": content.text, "contentTruncated": content.truncated}
    document["hasExplorationSummary"] = bool(file.exploration_summary)
    return ToolAnswer("\n".join(lines), {"id": file.file_id, "type": "file", "file": document})


def _content_lines(file: LargeFile, content: _Content | None) -> list[str]:
    if content is None:
        return ["", "*Content unavailable: file missing on disk or path failed validation.*"]
    lines = ["", "## Content", "", "```", content.text, "```"]
    if content.truncated:
        size = file.byte_size if file.byte_size is not None else content.size
        shown = "unknown" if size is None else grouped(size)
        lines += [
            "",
            f"*Output truncated to {grouped(len(units(content.text)))} of {shown} bytes. "
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
        return None if text is None else _Content(text, False, None)
    data = _whole_characters(read.data) if read.cut else read.data
    text = data.decode("utf-8", "replace")
    if first is None:
        return _Content(text, read.cut, read.size)
    return _lines(text, max(1, first), last, read.cut, read.size)


def _lines(text: str, first: int, last: int | None, cut: bool, size: int) -> _Content:
    lines = re.split("\r?\n", text)
    chosen: Sequence[str] = lines[first - 1 : last]
    return _Content("\n".join(chosen), cut or (last is not None and last > len(lines)), size)


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
