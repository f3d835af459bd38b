"""What a host said, as ``messages.content`` and the rows of ``message_parts`` keep it.

docs/spec/ingest.md, "What a block is", "What a message says", "Parts" and "Hashes".
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_json, read_json, well_formed
from lcm_core.base.text import BLANKS
from lcm_core.base.values import Record, field

REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
RESULTS: Final = frozenset({"function_call_output", "tool_result", "toolResult", "tool_use_result"})
_CALLS: Final = frozenset(
    {"tool_use", "toolUse", "tool-use", "toolCall", "tool_call", "functionCall", "function_call"}
)
#: Blocks that say nothing in ``messages.content``.
TOOLS: Final = _CALLS | RESULTS
#: The members that hold the id of a tool call, the first one counts.
CALL_IDS: Final = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
#: The members that hold nested blocks, beside lists.
LISTS: Final = ("segments", "utterances", "paragraphs", "alternatives", "words", "items", "results")
HOLDERS: Final = ("content", "output", "result", "payload", "data", "value")


def first_text(holder: JsonObject, names: Iterable[str]) -> str | None:
    """The first of some members that is a text, be it empty."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, str):
            return value
    return None


def first_flag(holder: JsonObject, names: Iterable[str]) -> bool | None:
    """The first of some members that is true or false."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, bool):
            return value
    return None


def type_of(block: Json) -> str | None:
    """The ``type`` of a block when it is a text."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


# -- what a message says -----------------------------------------------------------------------------------


#: What is nested deeper says nothing.
_DEEPEST: Final = 6
_TEXTS: Final = ("text", "transcript", "transcription", "message", "summary")
_OUTPUTS: Final = ("output", "content", "result")


def message_text(message: JsonObject) -> str:
    """The text of a whole message."""
    if "content" in message:
        return content_as_text(message["content"])
    if "output" in message:
        command, output = (_as_text(message.get(name)) for name in ("command", "output"))
        return f"$ {command}\n{output}"
    return ""


def content_as_text(content: Json) -> str:
    """What a content says; what says nothing is kept as its JSON, unless it is empty or of tools alone."""
    if (found := text_in(content)) is not None:
        return found
    if content is None or content == []:
        return ""
    if isinstance(content, list) and all(type_of(block) in TOOLS | REASONING for block in content):
        return ""
    return js_json(content)


def text_in(value: Json, depth: int = 0) -> str | None:
    """What a value says; None for nothing, which an empty text is not."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, str):
        return _said_in_text(value, depth)
    if isinstance(value, list):
        texts = [text for each in value if (text := text_in(each, depth + 1)) and not says_nothing(text)]
        return "\n".join(texts) if texts else None
    return _said_by_object(value, depth) if isinstance(value, dict) else None


def says_nothing(text: str | None) -> bool:
    """Whether a text says nothing when it is trimmed."""
    return text is None or not text.strip(BLANKS)


def _said_in_text(text: str, depth: int) -> str:
    trimmed = text.strip(BLANKS)
    if trimmed[:1] + trimmed[-1:] in ("{}", "[]") and len(trimmed) > 1:
        try:
            value = read_json(trimmed)
        except ValueError:
            return text
        return text_in(value, depth + 1) or text
    return text


def _said_by_object(block: JsonObject, depth: int) -> str | None:
    kind = type_of(block)
    if kind in REASONING:
        return None
    if kind in TOOLS:
        if block.get("toolOutputExternalized") is not True:
            return None
        texts = (text_in(block.get(name), depth + 1) for name in _OUTPUTS)
        found = next((text for text in texts if text is not None), None)
        return None if says_nothing(found) else found
    for name in _TEXTS:
        value = block.get(name)
        if isinstance(value, str) and not says_nothing(value):
            return value
    for name in LISTS:
        value = block.get(name)
        if isinstance(value, list) and (found := text_in(value, depth + 1)) is not None:
            return found
    texts = (text_in(block.get(name), depth + 1) for name in HOLDERS)
    return next((text for text in texts if not says_nothing(text)), None)


def _as_text(value: Json) -> str:
    """A value as the engine's language puts it into a text."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list) and one:
            waiting += reversed(one)
        elif isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict):
            texts.append("[object Object]")
        else:
            texts.append("" if one is None or one == [] else js_json(one))
    return ",".join(texts)


# -- its parts ---------------------------------------------------------------------------------------------


class StoredPart(Record, frozen=True):
    """One row of ``message_parts``, but for its ids."""

    part_type: str
    text: str | None
    tool_call_id: str | None
    tool_name: str | None
    tool_input: str | None
    tool_output: str | None
    metadata: str  #: JSON
    noted: JsonObject = field(default_factory=dict)  #: the same, as it is counted


class TopLevel(Record, frozen=True):
    """What a message says of itself beside its content."""

    role: str  #: as the host gave it
    call_id: str | None
    tool_name: str | None
    is_error: bool | None
    identity: JsonObject  #: the model that answered; empty when it is not named in full
    reasoning: str | None  #: ``reasoning_content`` of an answer


_PART_TYPES: Final[Mapping[str, str]] = {
    "text": "text",
    **dict.fromkeys(("thinking", "redacted_thinking", "reasoning"), "reasoning"),
    **dict.fromkeys(("tool_use", "toolUse", "tool-use", "toolCall", "functionCall", "function_call"), "tool"),
    **dict.fromkeys(("function_call_output", "tool_result", "toolResult", "tool"), "tool"),
    **dict.fromkeys(("file", "image"), "file"),
    **{name: name for name in ("patch", "subtask", "compaction", "snapshot", "retry")},
    **dict.fromkeys(("step_start", "step-start"), "step_start"),
    **dict.fromkeys(("step_finish", "step-finish"), "step_finish"),
}
_IDENTITY: Final = (("modelProvider", "provider"), ("modelApi", "api"), ("modelId", "model"))
_NAMES: Final = ("toolName", "tool_name")
#: What a message says of the call that it answers.
_CALL_KEYS: Final = frozenset({*CALL_IDS, "id", *_NAMES, "isError", "is_error"})
_TEXT_KEYS: Final = frozenset({"type", "text"})
#: Marks of a payload that was taken out: of a block, and of a message that is one text.
_BLOCK_MARKS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "externalizedFileId": str,
    "originalByteSize": (int, float),
    "imageExternalized": bool,
    "toolOutputExternalized": bool,
    "externalizationReason": str,
}


def top_level(message: JsonObject) -> TopLevel:
    """What a message says of itself."""
    role = message.get("role")
    is_answer = role == "assistant"
    if not is_answer and _CALL_KEYS.isdisjoint(message):
        return TopLevel(role if isinstance(role, str) else "", None, None, None, {}, None)
    thought = message.get("reasoning_content")
    return TopLevel(
        role if isinstance(role, str) else "",
        first_text(message, (*CALL_IDS, "id")),
        first_text(message, _NAMES),
        first_flag(message, ("isError", "is_error")),
        _identity(message) if is_answer else {},
        thought if is_answer and isinstance(thought, str) and thought.strip(BLANKS) else None,
    )


def _identity(message: JsonObject) -> JsonObject:
    found: JsonObject = {name: message.get(key) for name, key in _IDENTITY}
    if not all(isinstance(value, str) for value in found.values()):
        return {}
    answered = message.get("responseModel")
    return {**found, "responseModelId": answered} if isinstance(answered, str) else found


def parts_of(message: JsonObject, top: TopLevel) -> list[StoredPart]:
    """The parts of a message as it is stored: payloads have been taken out."""
    if "content" not in message:
        return [_without_content(message, top)]
    content = message["content"]
    if isinstance(content, str):
        return [_of_text(content, message, top)]
    if isinstance(content, list):
        return list(_of_list(content, top))
    metadata: JsonObject = {
        "originalRole": top.role,
        "source": "non-array-content",
        "raw": content,
        **_reasoning(top),
    }
    return [_part("agent", message_text(message) or None, metadata)]


def _without_content(message: JsonObject, top: TopLevel) -> StoredPart:
    if "command" in message and "output" in message:
        metadata: dict[str, Json] = {"originalRole": top.role, "source": "bash-exec"}
        if isinstance(message["command"], str):
            metadata["command"] = message["command"]
        return _part("text", message_text(message), metadata)
    return _part("agent", None, {"originalRole": top.role, "source": "unknown-message-shape", "raw": message})


def _of_text(content: str, message: JsonObject, top: TopLevel) -> StoredPart:
    metadata: JsonObject = {"originalRole": top.role, **top.identity, **_call_fields(top), **_reasoning(top)}
    return _part("text", content, {**metadata, **_text_marks(message)})


def _text_marks(message: JsonObject) -> JsonObject:
    """What the metadata of a text says of the payloads that were taken out of it."""
    found: dict[str, Json] = {}
    if message.get("rawPayloadExternalized") is True:
        found["rawPayloadExternalized"] = True
    if isinstance(file_id := message.get("externalizedFileId"), str):
        found["externalizedFileId"] = file_id
    if isinstance(ids := message.get("externalizedFileIds"), list):
        kept: list[Json] = [one for one in ids if isinstance(one, str)]
        if kept:
            found["externalizedFileIds"] = kept
    if message.get("fileBlocksExternalized") is True:
        found["fileBlocksExternalized"] = True
    size = message.get("originalByteSize")
    if isinstance(size, int | float) and not isinstance(size, bool):
        found["originalByteSize"] = size
    if isinstance(reason := message.get("externalizationReason"), str):
        found["externalizationReason"] = reason
    return found


def _of_list(content: list[Json], top: TopLevel) -> Iterator[StoredPart]:
    if not content and top.reasoning is not None:
        metadata: JsonObject = {
            "originalRole": top.role,
            **top.identity,
            "rawType": "reasoning_content",
            **_reasoning(top),
            "topLevelReasoningOnly": True,
        }
        yield _part("reasoning", None, metadata)
    call_fields = _call_fields(top)
    for ordinal, entry in enumerate(content):
        base: dict[str, Json] = {"originalRole": top.role}
        if ordinal == 0:
            base.update(top.identity)
        base.update(call_fields)
        if ordinal == 0:
            base.update(_reasoning(top))
        yield _of_entry(entry, base, top)


def _of_entry(entry: Json, base: JsonObject, top: TopLevel) -> StoredPart:
    block: JsonObject = entry if isinstance(entry, dict) else {}
    if block.keys() == _TEXT_KEYS and block["type"] == "text" and isinstance(text := block["text"], str):
        noted: JsonObject = {**base, "rawType": "text", "raw": entry}
        return StoredPart("text", text, top.call_id, top.tool_name, None, None, js_json(noted), noted)
    kind = first_text(block, ("rawType", "type"))
    kind = "agent" if kind is None else kind
    metadata: JsonObject = {
        **base,
        **_block_marks(block),
        "rawType": kind,
        "raw": entry
        if not block or block.get("type") == kind or "rawType" not in block
        else {**block, "type": kind},
    }
    part_type = _PART_TYPES.get(kind, "agent")
    ids = (*CALL_IDS, "id") if part_type == "tool" else CALL_IDS
    call_id, name = first_text(block, ids), first_text(block, ("name", *_NAMES))
    return StoredPart(
        part_type,
        _entry_text(block),
        top.call_id if call_id is None else call_id,
        top.tool_name if name is None else name,
        _tool_column(block, ("input", "arguments", "toolInput"), "tool_input"),
        _tool_column(block, ("output", "toolOutput"), "tool_output"),
        js_json(metadata),
        metadata,
    )


def _entry_text(block: JsonObject) -> str | None:
    text = first_text(block, ("text", "thinking"))
    if text is None and block.get("type") in ("reasoning", "thinking"):
        texts = [trimmed for one in _summaries(block.get("summary")) if (trimmed := one.strip(BLANKS))]
        text = "\n".join(dict.fromkeys(texts)) or None
    return text


def _summaries(value: Json) -> Iterator[str]:
    """The texts in the summary of a reasoning block."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            waiting += [one.get("value"), one.get("text")]


def _tool_column(block: JsonObject, names: tuple[str, ...], as_it_is: str) -> str | None:
    """What goes to a tool column: a member written as JSON, else one that is written already."""
    name = next((name for name in names if name in block), None)
    if name is not None:
        return js_json(block[name])
    value = block.get(as_it_is)
    return value if isinstance(value, str) else None


def _block_marks(block: JsonObject) -> JsonObject:
    return {
        name: block[name]
        for name, kind in _BLOCK_MARKS.items()
        if isinstance(block.get(name), kind) and (kind is bool or not isinstance(block[name], bool))
    }


def _call_fields(top: TopLevel) -> JsonObject:
    """What every part of a message repeats of the call that it answers."""
    found: dict[str, Json] = {}
    if top.call_id is not None:
        found["toolCallId"] = top.call_id
    if top.tool_name is not None:
        found["toolName"] = top.tool_name
    if top.is_error is not None:
        found["isError"] = top.is_error
    return found


def _reasoning(top: TopLevel) -> JsonObject:
    if top.reasoning is None:
        return {}
    return {"topLevelReasoningField": "reasoning_content", "topLevelReasoningContent": top.reasoning}


def _part(part_type: str, text: str | None, metadata: JsonObject) -> StoredPart:
    return StoredPart(part_type, text, None, None, None, None, js_json(metadata), metadata)


# -- by what a stored message is known again -------------------------------------------------------------


#: Only what a provider minted names an event for ever; a model may repeat an id that it made up.
_MINTED: Final = re.compile(r"(?:toolu_|call_)[A-Za-z0-9]{12,}")


def _plain_hash(role: str, content: str) -> str:
    """SHA-256 of role, NUL and content, in hexadecimal digits."""
    text = f"{role}\0{well_formed(content)}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def identity_of(role: str, content: str) -> str:
    """``messages.identity_hash``: the same of the content without what changes whenever a host sends it."""
    return _plain_hash(role, canonical(role, content))


def entry_hash(role: str, content: str) -> str:
    """``conversation_bootstrap_state.last_processed_entry_hash`` of a message."""
    text = js_json({"role": role, "content": canonical(role, content)})
    return hashlib.sha256(text.encode()).hexdigest()


def event_key(message: JsonObject, role: str) -> str | None:
    """``messages.stable_event_key``: the provider's own name for an answer or for a tool's result."""
    if role == "assistant":
        response = first_text(message, ("responseId", "response_id"))
        return f"assistant-response:{response}" if response else None
    if role != "tool":
        return None
    ids = {one for one in _result_ids(message) if one}
    content = message.get("content")
    blocks = [one for one in content if type_of(one) in RESULTS] if isinstance(content, list) else []
    if len(blocks) > 1 or len(ids) != 1:
        return None
    call = ids.pop()
    return f"tool-result:{call}" if _MINTED.fullmatch(call) else None


def _result_ids(message: JsonObject) -> Iterator[str | None]:
    names = (*CALL_IDS, "id")
    yield first_text(message, names)
    content: Json = message.get("content")
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and type_of(block) in RESULTS:
            yield first_text(block, names)


_KNOWN: Final = frozenset(
    {
        *("chat_id", "message_id", "reply_to_id", "sender_id", "conversation_label", "sender", "timestamp"),
        *("group_subject", "group_channel", "group_space", "group_members", "thread_label"),
        *("inbound_event_kind", "topic_id", "topic_name", "is_forum"),
        *("mention_reason", "mention_target", "mentioned_user_ids", "mentioned_usernames"),
        *("has_reply_context", "has_forwarded_context", "has_thread_starter"),
        *("history_count", "history_media_count", "history_truncated"),
    }
)
_KNOWN_SENDER: Final = frozenset({"label", "id", "name", "username", "tag", "e164"})
_FLEETING: Final = ("message_id", "reply_to_id", "timestamp")
_HISTORY: Final = ("history_count", "history_media_count", "history_truncated")

_INFO: Final = "Conversation info (untrusted metadata):"
_SENDER: Final = "Sender (untrusted metadata):"
_CONTEXTS: Final = (
    "Thread starter (untrusted, for context):",
    "Reply target of current user message (untrusted, for context):",
    "Reply chain of current user message (untrusted, nearest first):",
    "Forwarded message context (untrusted metadata):",
    "Location (untrusted metadata):",
)
_RECAP: Final = "Chat history since last reply (untrusted, for context):"
_SELECTED: Final = "Conversation context (untrusted, chronological, selected for current message):"
_RECAP_KEYS: Final = frozenset({"sender", "timestamp_ms", "message_id", "body", "media"})

_BLOCK: Final = re.compile(r"\r?\n```json\r?\n(.*?)\r?\n```", re.DOTALL)
_DELIVERY: Final = re.compile(rf"Delivery:.*?\r?\n\r?\n(?={re.escape(_INFO)})", re.DOTALL)
_LINE_END: Final = re.compile(r"[ \t]*\r?\n")
_SEPARATOR: Final = re.compile(r"(?:[ \t]*\r?\n){0,2}")
_BLANK_LINES: Final = re.compile(rf"[{BLANKS}]*")
_STAMP: Final = r"[A-Za-z]{3} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} \S+"
_RECAP_LINE: Final = re.compile(rf"(?:#\S+ (?:{_STAMP} )?|{_STAMP} )[^\n:]+: (?!\r?\n)[^\n]+?(?=\r?\n|\Z)")


def canonical(role: str, content: str) -> str:
    """The content of a message in the form in which it is hashed; unchanged unless a host decorated it."""
    if role != "user" or _INFO not in content:
        return content
    try:
        return _canonical(content)
    except RecursionError:  # nested deeper than this machine goes
        return content


def _canonical(content: str) -> str:
    start = len(content) - len(content.lstrip(BLANKS))
    prelude = ""
    if (delivery := _DELIVERY.match(content, start)) is not None:
        prelude, start = content[start : delivery.end()], delivery.end()
    info = _framed(content, start, _INFO)
    if info is None or not isinstance(info[0], dict) or _KNOWN.isdisjoint(info[0]):
        return content
    value, at = info
    assert isinstance(value, dict)
    kept = {name: one for name, one in value.items() if name not in _FLEETING}
    count = kept.get("history_count")
    has_history = (
        isinstance(count, int | float) and not isinstance(count, bool) and count > 0 and count == int(count)
    )
    if has_history:
        kept = {name: one for name, one in kept.items() if name not in _HISTORY}
    if not kept:
        return content
    blocks = [_frame(_INFO, kept)]
    following = _skip_blank(content, at)
    sender = _framed(content, following, _SENDER)
    if sender is not None and isinstance(sender[0], dict) and not _KNOWN_SENDER.isdisjoint(sender[0]):
        blocks.append(_frame(_SENDER, sender[0]))
        at = sender[1]
    contexts, at = _without_recap(content, at) if has_history else ("", at)
    rest = _without_separator(content[at:])
    bodies = [one for one in (contexts, rest) if one.strip(BLANKS)]
    return prelude + "\n\n".join([*blocks, *bodies]) if bodies else content


def _framed(content: str, start: int, heading: str) -> tuple[Json, int] | None:
    """The JSON in the block under a heading at *start*, and where the block ends."""
    if not content.startswith(heading, start):
        return None
    block = _BLOCK.match(content, start + len(heading))
    if block is None:
        return None
    try:
        return read_json(block[1]), block.end()
    except ValueError:
        return None


def _skip_blank(content: str, at: int) -> int:
    found = _BLANK_LINES.match(content, at)
    return found.end() if found else at


def _frame(heading: str, value: Json) -> str:
    return f"{heading}\n```json\n{js_json(_sorted(value))}\n```"


def _without_separator(text: str) -> str:
    """What is behind a block, without the end of its line and one blank line."""
    separator = _SEPARATOR.match(text)
    return text[separator.end() :] if separator else text


def _without_recap(content: str, at: int) -> tuple[str, int]:
    """The blocks of context before a recap, as they are written, and where the recap ends.

    No recap: no blocks, and *at*.
    """
    following = _skip_blank(content, at)
    while (
        heading := next((one for one in _CONTEXTS if content.startswith(one, following)), None)
    ) is not None:
        found = _framed(content, following, heading)
        if found is None or not isinstance(found[0], dict | list):
            break
        following = _skip_blank(content, found[1])
    for heading in (_RECAP, _SELECTED):
        if content.startswith(heading, following):
            end = _recap_end(content, following, heading)
            if end is not None:
                return _without_separator(content[at:following]).rstrip(BLANKS), end
    return "", at


def _recap_end(content: str, start: int, heading: str) -> int | None:
    found = _framed(content, start, heading)
    if found is not None:
        value, end = found
        is_list = isinstance(value, list) and all(
            isinstance(one, dict) and not _RECAP_KEYS.isdisjoint(one) for one in value
        )
        return end if is_list and value else None
    line_end = _LINE_END.match(content, start + len(heading))
    if line_end is None:
        return None
    at, lines = line_end.end(), 0
    while (line := _RECAP_LINE.match(content, at)) is not None:
        lines, at = lines + 1, line.end()
        following = _LINE_END.match(content, at)
        if following is None:
            break
        at = following.end()
        if content[at : at + 1] in ("\n", "\r"):
            break
    ended = at >= len(content) or content[at] in "\r\n"
    return at if lines and ended else None


def _sorted(value: Json) -> Json:
    """The same with the members of every object in the order of their names."""
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    if not isinstance(value, dict):
        return value
    found: JsonObject = {name: _sorted(value[name]) for name in sorted(value, key=collation)}
    return found


#: How the root locale orders what is neither letter nor digit; all of it sorts before both.
_PUNCTUATION: Final = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_ORDER: Final = {character: at for at, character in enumerate(_PUNCTUATION)}


def collation(name: str) -> tuple[list[tuple[int, str]], list[str], list[bool]]:
    """How a name is sorted by the host's locale: letters, then their accents, then their case."""
    letters: list[tuple[int, str]] = []
    accents: list[str] = []
    upper: list[bool] = []
    for character in unicodedata.normalize("NFD", name):
        if unicodedata.combining(character):
            accents.append(character)
            continue
        letters.append(_primary(character))
        upper.append(character != character.lower())
    return letters, accents, upper


def _primary(character: str) -> tuple[int, str]:
    if character.isspace():
        return 0, character
    if character in _ORDER:
        return 1, chr(_ORDER[character])
    if not character.isalnum():
        return 2, character
    return (3, character) if character.isdigit() else (4, character.lower())
