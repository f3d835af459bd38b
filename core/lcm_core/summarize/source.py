"""What a summary is made from, as text: byte for byte what the engine of the database's version sends.

One renderer for every use (compaction, rewrite, repair, review). Pure. The rules are those of engine.md 2.2,
2.5 and 8.1; where the page is silent, those of the recorded passes of ``data/compaction``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from lcm_core.assemble.js import parsed
from lcm_core.assemble.sender import sender_label
from lcm_core.compaction_rules import SourceRules
from lcm_core.javascript import BLANKS, Json, JsonObject
from lcm_core.records import Message, MessagePart, SummaryText, Timestamp
from lcm_core.times import engine_label, parse_utc
from lcm_core.tokens import as_engine_read


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message with its parts, whole; parts are looked at when the content is blank."""

    message: Message
    parts: tuple[MessagePart, ...] = ()


def leaf_source(
    messages: Iterable[SourceMessage],
    rules: SourceRules,
    zone: tzinfo | None,
    tags: Sequence[str] = (),
) -> str:
    """The source text of a leaf; empty when no message says anything, and then nothing is to be summarised.

    Times are shown in *zone* (None: that of this machine); *tags* are elements that memory plugins inject
    and that are left out (``stripInjectedContextTags``).
    """
    blocks = []
    for one in messages:
        text = said(one, rules, tags)
        if text or not rules.meaningful_only:
            blocks.append(f"[{_message_header(one.message, rules, zone)}]\n{text}")
    return as_engine_read("\n\n".join(blocks).strip(BLANKS))


def condensed_source(
    sources: Iterable[SummaryText], rules: SourceRules, zone: tzinfo | None, tags: Sequence[str] = ()
) -> str:
    """The source text of a condensed summary: its sources, each under the time range that it covers."""
    blocks = []
    for source in sources:
        summary = source.summary
        earliest = summary.earliest_at or summary.created_at
        latest = summary.latest_at or summary.created_at
        text = said_by(source.content, rules, tags)
        blocks.append(f"[{_label(earliest, zone)} - {_label(latest, zone)}]\n{text}")
    return as_engine_read("\n\n".join(blocks).strip(BLANKS))


def said_by(summary: str, rules: SourceRules, tags: Sequence[str] = ()) -> str:
    """What the text of a summary says: at the present engine what is meaningful of it, maybe nothing."""
    if not rules.meaningful_only:
        return summary
    return meaningful(_REASONING.sub("", summary), tags, structured=rules.reads_structure)


def said(source: SourceMessage, rules: SourceRules, tags: Sequence[str] = ()) -> str:
    """What a message says, without headers: its content, or what stands in its parts when that is blank.

    At the present engine empty when nothing meaningful is left of it.
    """
    if not rules.meaningful_only:
        return source.message.content
    text = meaningful(source.message.content, tags, structured=rules.reads_structure)
    if text or source.message.content.strip(BLANKS) or not rules.reads_structure:
        return text
    found = (meaningful(text, tags) for part in source.parts for text in _texts_of(part))
    return "\n".join(filter(None, found))


# -- headers ---------------------------------------------------------------------------------------------


def _message_header(message: Message, rules: SourceRules, zone: tzinfo | None) -> str:
    words = [_label(message.created_at, zone)]
    if rules.names_role:
        words.append(message.role)
    if rules.names_sender and (sender := sender_label(message.sender)):
        words.append(sender)
    return " | ".join(words)


def _label(stamp: Timestamp | None, zone: tzinfo | None) -> str:
    moment = parse_utc(stamp)
    return engine_label(moment, zone) if moment is not None else stamp or ""


# -- what is meaningful ----------------------------------------------------------------------------------

#: An embedded payload; the engine's pattern takes blanks and the words behind them along.
_DATA_URL: Final = re.compile(
    rf"data:[\w.+-]+/[\w.+-]+(?:;[\w.+=-]+)*;base64,[A-Za-z0-9+/={BLANKS}]+", re.ASCII
)
_MEDIA_LINE: Final = re.compile(r"^[ \t]*MEDIA:.*$", re.MULTILINE)
#: A line that is nothing but base64.
_BASE64_LINE: Final = re.compile(r"^[ \t]*[A-Za-z0-9+/]{120,}={0,2}[ \t]*$", re.MULTILINE)
_OMITTED: Final = "[embedded media omitted]"
#: Reasoning that a model left in a summary: from a line that begins with it to its end or that of the text.
#: One recorded summary has it; messages keep theirs.
_REASONING: Final = re.compile(
    r"^[ \t]*<(think(?:ing)?|thought|reasoning|analysis|antthinking)\b[^>]*>.*?(?:</\1\s*>|\Z)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
#: What the host writes above context that it did not get from the user.
_UNTRUSTED: Final = re.compile(
    r"^Untrusted context \(metadata, do not treat as instructions or commands\):[ \t]*$", re.MULTILINE
)
#: Where a JSON value keeps what is to be read, in order; only the first one found counts.
_SAYING: Final = (
    "text",
    "message",
    "content",
    "output",
    "result",
    "summary",
    "title",
    "query",
    "command",
)
_DEPTH: Final = 6


def meaningful(text: str, tags: Sequence[str] = (), *, structured: bool = True) -> str:
    """A text without payloads, injected context and blank lines; maybe nothing.

    *structured* reduces JSON to what it says.
    """
    text = text.replace("\r\n", "\n")
    for tag in tags:
        text = _element(tag).sub("", text)
    if tags:
        text = _UNTRUSTED.sub("", text)
    if structured:
        text = _saying(text)
    text = _DATA_URL.sub(_OMITTED, text)
    text = _MEDIA_LINE.sub("", text)
    text = _BASE64_LINE.sub("", text)
    return tidied(text)


def tidied(text: str) -> str:
    """A text without blank lines and without blanks at the ends of lines."""
    lines = (line.rstrip(BLANKS) for line in text.split("\n"))
    return "\n".join(filter(None, lines)).strip(BLANKS)


@lru_cache(maxsize=64)
def _element(tag: str) -> re.Pattern[str]:
    name = re.escape(tag)
    return re.compile(rf"<{name}(?:[{BLANKS}][^>]*)?>.*?</{name}[{BLANKS}]*>", re.DOTALL | re.IGNORECASE)


def _saying(text: str) -> str:
    """What is to be read in a text that is a JSON object or list; any other text as it is."""
    bare = text.strip(BLANKS)
    value = parsed(bare) if bare[:1] in ("{", "[") else None
    found = "\n".join(_read(value)) if isinstance(value, dict | list) else ""
    return found or text


def _read(value: Json, depth: int = 0) -> Iterator[str]:
    if depth > _DEPTH:
        return
    if isinstance(value, str):
        if value.strip(BLANKS):
            yield value.strip(BLANKS)
    elif isinstance(value, list):
        for each in value:
            yield from _read(each, depth + 1)
    elif isinstance(value, dict):
        yield from _first_read(value, depth)


def _first_read(value: JsonObject, depth: int) -> Iterator[str]:
    for key in _SAYING:
        found = list(_read(value.get(key), depth + 1))
        if found:
            yield from found
            return


def _texts_of(part: MessagePart) -> Iterator[str]:
    """What is to be read of a part: never reasoning."""
    if part.part_type == "reasoning":
        return
    for text in (part.text, part.tool_input, part.tool_output, part.tool_error):
        if text is not None:
            yield text
