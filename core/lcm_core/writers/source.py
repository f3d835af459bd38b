"""What a summary is made from, as text: byte for byte what the engine of the database's version sends.

One renderer for every use (compaction, rewrite, repair, review), pure but for the functions at the end, which
read the rows. The rules are those of docs/spec/texts.md, "Leaf source text" and "Condensed source text".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from lcm_core.base.javascript import Json, js_json, paired, parsed_object, read_json, trimmed
from lcm_core.base.records import Message, MessageId, MessagePart, SummaryId, SummaryText, Timestamp
from lcm_core.base.text import BLANKS
from lcm_core.base.times import engine_label, engine_moment
from lcm_core.base.tokens import as_engine_read
from lcm_core.base.values import Record
from lcm_core.engine.blocks import rebuilt_content, recorded_sender
from lcm_core.engine.items import part_as_engine_read
from lcm_core.engine.meaning import MEDIA, message_says, normalised_type, plain, summary_says, value_says
from lcm_core.engine.messages import Role, content_document
from lcm_core.engine.previous import PreviousContext, PreviousRules
from lcm_core.engine.rules import RULES_PRESENT, EngineRules, SourceRules, engine_rules
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.messages import whole_messages
from lcm_core.store.previous import previous_context


class WholeMessage(Record, frozen=True):
    """A message with its parts, whole."""

    message: Message
    parts: tuple[MessagePart, ...] = ()


def leaf_source(messages: Iterable[WholeMessage], rules: SourceRules, zone: tzinfo | None) -> str:
    """The source text of a leaf; empty when no message says anything, and then nothing is to be summarised.

    Times are shown in *zone* (None: that of this machine).
    """
    blocks = []
    for one in messages:
        text = message_source_text(one, rules)
        if text or not rules.meaningful_only:
            blocks.append(f"[{_message_header(one.message, rules, zone)}]\n{text}")
    return paired(trimmed("\n\n".join(blocks)))


def condensed_source(sources: Iterable[SummaryText], rules: SourceRules, zone: tzinfo | None) -> str:
    """The source text of a condensed summary: its sources, each under the time range that it covers.

    Empty when no source says anything.
    """
    blocks = []
    for source in sources:
        summary = source.summary
        text = summary_source_text(source.content, rules)
        if text or not rules.meaningful_only:
            earliest = _label(summary.earliest_at or summary.created_at, zone)
            latest = _label(summary.latest_at or summary.created_at, zone)
            blocks.append(f"[{earliest} - {latest}]\n{text}")
    return paired(trimmed("\n\n".join(blocks)))


def summary_source_text(summary: str, rules: SourceRules) -> str:
    """What the text of a summary says: at the present engine what is meaningful of it, maybe nothing."""
    text = as_engine_read(summary)
    if not rules.meaningful_only:
        return text
    return summary_says(text) if rules.reads_structure else plain(text)


def message_source_text(source: WholeMessage, rules: SourceRules) -> str:
    """What a message says, without header: at the present engine what is meaningful of it, maybe nothing."""
    text = uncut_message_text(source, rules)
    if not rules.meaningful_only:
        return text
    text = _without_injected(text, rules.strip_injected_context_tags)
    return message_says(text) if rules.reads_structure else plain(text)


def uncut_message_text(source: WholeMessage, rules: SourceRules) -> str:
    """The text of a message before injected elements go: what it says, or what its parts say."""
    content = as_engine_read(source.message.content)
    if not rules.meaningful_only:
        return content
    parts = [part_as_engine_read(part) for part in source.parts]
    shown = _with_media(parts, content)
    if not rules.reads_structure:
        return plain(shown)
    text = message_says(shown)
    if text or not parts:
        return text
    return value_says(_rebuilt(source.message.role, content, parts)) or _part_by_part(parts)


_ROLES: Final[Mapping[str, Role]] = {"tool": Role.TOOL_RESULT, "user": Role.USER, "system": Role.USER}


def _rebuilt(row: str, content: str, parts: Sequence[MessagePart]) -> Json:
    """The content of a message as it would be sent, by its row's own role."""
    role = _ROLES.get(row, Role.ASSISTANT)
    return content_document(rebuilt_content(content, parts, role, RULES_PRESENT.assembly))


# -- headers ---------------------------------------------------------------------------------------------

#: What the engine writes for a time that it cannot read, whatever the zone.
_NO_TIME: Final = "NaN-NaN-NaN NaN:NaN UTC"


def _message_header(message: Message, rules: SourceRules, zone: tzinfo | None) -> str:
    words = [_label(message.created_at, zone)]
    if rules.names_role:
        words.append(as_engine_read(message.role))
    if rules.names_sender and message.role == "user" and (label := speaker_label(message.sender)):
        words.append(label)
    return " | ".join(words)


def speaker_label(sender: str | None) -> str:
    """How a header names who said a message in a group, by what is recorded of them; empty for nobody."""
    found = recorded_sender(as_engine_read(sender or ""))
    return f"speaker (untrusted metadata): {js_json(found)}" if found else ""


def _label(stamp: Timestamp | None, zone: tzinfo | None) -> str:
    moment = engine_moment(stamp)
    return _NO_TIME if moment is None else engine_label(moment, zone)


# -- media -----------------------------------------------------------------------------------------------

_ATTACHMENT: Final = "[Media attachment]"
_WITH_ATTACHMENT: Final = "[with media attachment]"


def _with_media(parts: Sequence[MessagePart], content: str) -> str:
    """The content, or what replaces it in a message that has files or images."""
    media = [_is_media(part) for part in parts]
    if not any(media):
        return content
    texts = [
        plain(part.text) for part, is_media in zip(parts, media, strict=True) if part.text and not is_media
    ]
    text = "\n".join(filter(None, texts)) or message_says(content)
    if not text:
        return _ATTACHMENT
    return text if _WITH_ATTACHMENT in text else f"{text} {_WITH_ATTACHMENT}"


def _is_media(part: MessagePart) -> bool:
    if part.part_type in ("file", "snapshot"):
        return True
    metadata = parsed_object(part.metadata)
    raw = metadata.get("raw")
    if not isinstance(metadata.get("rawType"), str) and isinstance(raw, dict):
        return normalised_type(raw, "type") in MEDIA
    return normalised_type(metadata, "rawType") in MEDIA


# -- what parts say --------------------------------------------------------------------------------------


def _part_by_part(parts: Sequence[MessagePart]) -> str:
    sections = (section for part in parts if part.part_type != "reasoning" for section in _sections(part))
    return "\n\n".join(filter(None, sections))


def _sections(part: MessagePart) -> Iterator[str]:
    """What a part says: its text (none is a value, too), what a tool was given, what it answered."""
    yield value_says(part.text)
    name = trimmed(part.tool_name or "")
    for title, column in (("Tool input", part.tool_input), ("Tool output", part.tool_output)):
        if found := _column_says(column):
            yield f"{title} ({name}):\n{found}" if name else f"{title}:\n{found}"


def _column_says(column: str | None) -> str:
    text = trimmed(column or "")
    if not text:
        return ""
    try:
        return value_says(read_json(text))
    except ValueError:
        return message_says(text)


# -- what plugins and hosts put around what a user says --------------------------------------------------

_UNTRUSTED: Final = re.compile(
    r"(?:\A|(?<=[\n\r\u2028\u2029]))"
    rf"Untrusted context \(metadata, do not treat as instructions or commands\):[{BLANKS}]*",
    re.IGNORECASE | re.ASCII,
)


def _without_injected(text: str, tags: Sequence[str]) -> str:
    """A text without the elements of these tags and without the line that announces them."""
    if not tags:
        return text
    for tag in tags:
        text = _without_element(text, tag)
    return trimmed(_UNTRUSTED.sub("", text))


def _without_element(text: str, tag: str) -> str:
    opening, closing = _ends_of(tag)
    kept: list[str] = []
    done = 0
    while first := opening.search(text, done):
        last = closing.search(text, first.end())
        if last is None:
            break
        kept.append(text[done : first.start()])
        done = last.end()
    return "".join([*kept, text[done:]]) if done else text


@lru_cache(maxsize=64)
def _ends_of(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    name = re.escape(tag)
    flags = re.IGNORECASE | re.ASCII
    return re.compile(f"<{name}>", flags), re.compile(f"</{name}>", flags)


# -- from a database --------------------------------------------------------------------------------------


class Rendering(Record, frozen=True):
    """How source texts are rendered: by the rules of a file as configured, in the operator's time zone."""

    rules: EngineRules
    zone: tzinfo | None = None  #: None: that of this machine


class SummarySource(Record, frozen=True):
    """What a summary is made from: messages, or summaries, and the text of them."""

    text: str  #: empty when they say nothing
    messages: tuple[WholeMessage, ...] = ()
    summaries: tuple[SummaryText, ...] = ()
    gone: tuple[int | str, ...] = ()  #: ids whose rows no longer exist


async def source_of_messages(
    reader: Reader, message_ids: Sequence[MessageId], rendering: Rendering
) -> SummarySource:
    """The source of a leaf that is made from some messages, in their order."""
    messages = tuple(WholeMessage(*one) for one in await whole_messages(reader, message_ids))
    present = {one.message.message_id for one in messages}
    text = leaf_source(messages, rendering.rules.source, rendering.zone)
    return SummarySource(
        text, messages=messages, gone=tuple(one for one in message_ids if one not in present)
    )


async def source_of_summaries(
    reader: Reader, summary_ids: Sequence[SummaryId], rendering: Rendering
) -> SummarySource:
    """The source of a condensed summary that is made from some summaries, in their order."""
    summaries = tuple(await summary_store.texts_of(reader, summary_ids))
    present = {one.summary.summary_id for one in summaries}
    text = condensed_source(summaries, rendering.rules.source, rendering.zone)
    return SummarySource(
        text, summaries=summaries, gone=tuple(one for one in summary_ids if one not in present)
    )


async def source_of(reader: Reader, summary_id: SummaryId, rendering: Rendering) -> SummarySource:
    """The true sources of a summary that is there, by its links.

    Raises:
        NotFoundError: no summary has this id.
    """
    summary = (await summary_store.get_summary(reader, summary_id)).summary
    if summary.kind == "condensed":
        edges = await summary_store.edges_of(reader, [summary_id])
        return await source_of_summaries(reader, [edge.source for edge in edges], rendering)
    ids = await summary_store.source_message_ids(reader, summary_id)
    return await source_of_messages(reader, [MessageId(one) for one in ids], rendering)


def previous_rules(rules: EngineRules) -> PreviousRules:
    """How an engine reads the summaries before a leaf, and which of them it skips."""

    def reading(summary: str) -> str:
        return trimmed(summary_source_text(summary, rules.source))

    return PreviousRules(reading, rules.compaction.meaningful_fanout, rules.compaction.sweeps_only)


async def previous_of(reader: Reader, summary_id: str, rules: EngineRules | None = None) -> PreviousContext:
    """The previous context of a summary, by *rules* or those of the engine that left the file.

    Raises:
        NotFoundError: no summary has this id.
    """
    rules = engine_rules(reader.schema) if rules is None else rules
    return await previous_context(reader, summary_id, previous_rules(rules))
