"""By what a stored message is known again (docs/spec/ingest.md, "Hashes")."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_json, read_json, well_formed
from lcm_core.base.text import BLANKS
from lcm_core.engine.stored_parts import CALL_IDS, RESULTS, first_text, type_of

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
