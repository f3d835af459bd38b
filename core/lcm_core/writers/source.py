"""What a summary is made from, as text: byte for byte what the engine of the database's version sends.

One renderer for every use (compaction, rewrite, repair, review), pure but for the functions at the end, which
read the rows. The rules are those of docs/spec/texts.md, "Leaf source text" and "Condensed source text".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_json, paired, parsed_object, read_json, trimmed
from lcm_core.base.records import Message, MessageId, MessagePart, SummaryId, SummaryText, Timestamp
from lcm_core.base.text import BLANKS
from lcm_core.base.times import engine_label, engine_moment
from lcm_core.base.tokens import as_engine_read
from lcm_core.base.values import Record
from lcm_core.engine.blocks import rebuilt_content, recorded_sender
from lcm_core.engine.items import part_as_engine_read
from lcm_core.engine.messages import Role, content_document
from lcm_core.engine.previous import PreviousContext, PreviousRules
from lcm_core.engine.rules import RULES_PRESENT, EngineRules, SourceRules, engine_rules
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Reader
from lcm_core.store.messages import whole_messages
from lcm_core.store.previous import previous_context

# -- what a text says to whom it is summarised for -------------------------------------------------------
# Whatever goes to a summariser passes through here, and so does what counts as meaningful
# (docs/spec/texts.md, "What a text says"). There are two readings: of messages, which keep their reasoning,
# and of summaries, which do not. All of it takes time in proportion to the text, also where the text is
# hostile.

#: What replaces a payload that was embedded in a text.
_MEDIA_OMITTED: Final = "[embedded media omitted]"
#: What is nested so deep is not read.
_DEEPEST: Final = 8
#: Types of blocks that say nothing at all, and of those whose texts alone are read.
_REASONING: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
MEDIA: Final = frozenset({"file", "image", "snapshot"})
_TEXTS: Final = ("text", "caption", "alt", "title", "summary")
_NESTED: Final = (
    "value", "content", "parts", "items", "message", "messages", "input", "arguments", "output", "result",
    "results", "data", "query", "command",
)  # fmt: skip

_IGNORE_CASE: Final = re.IGNORECASE | re.ASCII


def message_says(text: str) -> str:
    """What a text of a message says; maybe nothing."""
    return _says(text, plain)


def summary_says(text: str) -> str:
    """What the text of a summary says, without reasoning that a model left in it; maybe nothing."""
    return _says(text, _plain_without_reasoning)


def value_says(value: Json) -> str:
    """What a value says that need not be a text: a number or a word of JSON gives itself."""
    if isinstance(value, str):
        return message_says(value)
    found = _joined(value, plain)
    return found if found or isinstance(value, list | dict) else message_says(js_json(value))


def normalised_type(block: JsonObject, key: str) -> str:
    """The type that an object names under *key*, as types are compared; empty when that is no text."""
    value = block.get(key)
    return trimmed(value).lower() if isinstance(value, str) else ""


# -- texts that are JSON ---------------------------------------------------------------------------------

Reading = Callable[[str], str]


def _says(text: str, reading: Reading) -> str:
    bare = trimmed(text)
    if bare[:1] + bare[-1:] in ("{}", "[]"):
        try:
            value = read_json(bare)
        except ValueError:
            pass
        else:
            return _joined(value, reading)
    return reading(text)


def _joined(value: Json, reading: Reading) -> str:
    fragments = (trimmed(one) for one in _fragments(value, 0, reading))
    return trimmed("\n".join(filter(None, fragments)))


def _fragments(value: Json, depth: int, reading: Reading) -> Iterator[str]:
    if depth >= _DEEPEST:
        return
    if isinstance(value, str):
        yield reading(value)
    elif isinstance(value, list):
        for each in value:
            yield from _fragments(each, depth + 1, reading)
    elif isinstance(value, Mapping):
        types = {normalised_type(value, "type"), normalised_type(value, "rawType")}
        if types & _REASONING:
            return
        for key in _TEXTS:
            if isinstance(text := value.get(key), str):
                yield reading(text)
        if types & MEDIA:
            return
        for key in _NESTED:
            if key in value:
                yield from _fragments(value[key], depth + 1, reading)


# -- plain texts -----------------------------------------------------------------------------------------

_MEDIA_TYPE: Final = rf"[^;{BLANKS}\"'`]"
_BASE64: Final = re.compile(rf";base64,(?=[A-Z0-9+/={BLANKS}])", _IGNORE_CASE)
_PAYLOAD: Final = re.compile(rf"[A-Za-z0-9+/={BLANKS}]+")
_DATA: Final = re.compile(r"data:", _IGNORE_CASE)
_NO_TYPE: Final = re.compile(rf"[;{BLANKS}\"'`]")
#: A line that begins so is nothing but a payload.
_EMBEDDED: Final = re.compile(rf"data:{_MEDIA_TYPE}+;base64,", _IGNORE_CASE)
_MEDIA_LINE: Final = "MEDIA:/"
_BARE_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_NO_BASE64: Final = re.compile(r"[ .,:;!?()\[\]{}]")
_LEAST_BASE64: Final = 256
_BLANK: Final = re.compile(f"[{BLANKS}]+")


def plain(text: str) -> str:
    """A plain text without payloads, lines that name media, blank lines and blanks at the ends of lines."""
    lines = (line.rstrip(BLANKS) for line in _without_embedded(text).split("\n"))
    return trimmed("\n".join([line for line in lines if line and not _is_embedded(line.lstrip(BLANKS))]))


def _without_embedded(text: str) -> str:
    """A text with a note for every ``data:<type>;base64,<payload>`` in it.

    Looked for from the middle: from the beginning, each ``data:`` without an end would be followed far. No
    payload holds a semicolon, so the next middle is never within one.
    """
    kept: list[str] = []
    done = 0  #: up to here all is dealt with
    for middle in _BASE64.finditer(text):
        start = _start_of_embedded(text, done, middle.start())
        if start is None:
            continue
        kept += (text[done:start], _MEDIA_OMITTED)
        payload = _PAYLOAD.match(text, middle.end())
        done = payload.end() if payload else middle.end()
    return "".join([*kept, text[done:]]) if done else text


def _start_of_embedded(text: str, first: int, end: int) -> int | None:
    """Where a ``data:`` begins whose type, of at least one character, reaches up to *end*."""
    first = max(first, text.rfind(";", first, end) + 1)
    types = _NO_TYPE.split(text[first:end])[-1]
    found = _DATA.search(types, 0, max(len(types) - 1, 0))
    return None if found is None else end - len(types) + found.start()


def _is_embedded(line: str) -> bool:
    """Whether a trimmed line is the name of a medium, or a payload."""
    if line.startswith(_MEDIA_LINE) and len(line) > len(_MEDIA_LINE):
        return True
    if _EMBEDDED.match(line):
        return True
    if len(line) < _LEAST_BASE64 or _NO_BASE64.search(line):
        return False
    bare = _BLANK.sub("", line)
    return len(bare) >= _LEAST_BASE64 and len(bare) % 4 == 0 and _BARE_BASE64.fullmatch(bare) is not None


# -- reasoning in a summary ------------------------------------------------------------------------------

_TAGS: Final = "think|thinking|reasoning"
#: An opening tag up to its name; it goes on to the next ``>``.
_OPENING: Final = re.compile(rf"<[{BLANKS}]*(?P<tag>{_TAGS})(?=[{BLANKS}>])", _IGNORE_CASE)
_BARRED: Final = re.compile(
    rf"<\|[{BLANKS}]*(?:start_of_)?(?:{_TAGS})[{BLANKS}]*\|>|\[[{BLANKS}]*(?:{_TAGS})[{BLANKS}]*\]",
    _IGNORE_CASE,
)
_LINE_BEGINS: Final = re.compile(r"^[ \t]*(?=[<\[])", re.MULTILINE)
_LINE_ENDS: Final = re.compile(r"[ \t]*(?=\n|\Z)")
_CLOSING: Final = {
    tag: re.compile(rf"<[{BLANKS}]*/[{BLANKS}]*{tag}[{BLANKS}]*>", _IGNORE_CASE) for tag in _TAGS.split("|")
}


def _plain_without_reasoning(text: str) -> str:
    text = plain(text)
    if "<" not in text and "[" not in text:
        return text
    text = _without_elements(_without_leading_elements(text))
    return _without_open_end(text)


def _opening(text: str, at: int) -> tuple[str, int] | None:
    """The tag that opens at a place, in lower case, and where it ends."""
    match = _OPENING.match(text, at)
    end = text.find(">", match.end()) if match else -1
    return (match["tag"].lower(), end + 1) if match and end >= 0 else None


def _without_leading_elements(text: str) -> str:
    at = 0
    while found := _opening(text, at):
        tag, end = found
        closing = _CLOSING[tag].search(text, end)
        if closing is None:
            break
        blank = _BLANK.match(text, closing.end())
        at = blank.end() if blank else closing.end()
    return text[at:]


def _without_elements(text: str) -> str:
    """A text without the elements that begin a line and end one."""
    kept: list[str] = []
    done = 0
    closings: dict[str, tuple[list[int], list[int]]] = {}
    bracket = -1  #: the last end of a tag that was looked for; the next one is no earlier
    for line in _LINE_BEGINS.finditer(text):
        match = _OPENING.match(text, line.end()) if line.start() >= done else None
        if match is None:
            continue
        if bracket < match.end():
            bracket = text.find(">", match.end())
            if bracket < 0:
                break
        tag = match["tag"].lower()
        if tag not in closings:
            closings[tag] = _closings(text, tag)
        starts, ends = closings[tag]
        place = bisect_left(starts, bracket + 1)
        if place < len(starts):
            kept.append(text[done : line.start()])
            done = ends[place]
    return "".join([*kept, text[done:]]) if done else text


def _closings(text: str, tag: str) -> tuple[list[int], list[int]]:
    """Where closing tags begin behind which their line has nothing more, and where that line ends."""
    starts, ends = [], []
    for closing in _CLOSING[tag].finditer(text):
        if line := _LINE_ENDS.match(text, closing.end()):
            starts.append(closing.start())
            ends.append(line.end())
    return starts, ends


def _without_open_end(text: str) -> str:
    """A text up to the line that begins with an opening; nothing when all of it does."""
    last = text.rfind(">")

    def opens(at: int) -> bool:
        match = _OPENING.match(text, at)
        return (match is not None and match.end() <= last) or _BARRED.match(text, at) is not None

    cut = next((line.start() for line in _LINE_BEGINS.finditer(text) if opens(line.end())), len(text))
    rest = trimmed(text[:cut])
    return "" if _opening(rest, 0) or _BARRED.match(rest) else rest


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
