"""Texts that are no summaries without saying so, and messages that differ only in form. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

#: Characters of a cut copy from which it is no coincidence.
_MIN_COPY: Final = 200
#: A refusal or an error is short; a long text that begins like one is a summary of one.
_MAX_REFUSAL: Final = 1_500
#: Characters below which the beginning of a source is too common to suspect a copy.
_MIN_OPENING: Final = 12

_HEADER: Final = re.compile(r"^\[[0-9]{4}-[0-9]{2}-[0-9]{2}[^\]\n]{0,120}\][ \t]*$", re.MULTILINE)
#: Tags, as alternatives of a pattern, between which models leave their reasoning.
THOUGHT_TAGS: Final = "think|thinking|thought|analysis|reasoning|scratchpad|antthinking"
_REASONING: Final = re.compile(
    rf"\s*(?:<\s*(?:{THOUGHT_TAGS})\s*>"
    r"|(?:(?:sure|certainly|okay|ok|of course|absolutely)[,.!]?\s+)?here(?:'s|’s|\sis)\s+"
    r"(?:the|a|an|your|my)\s+(?:[\w-]+\s+){0,3}summar(?:y|ization)\b"
    r"|(?:okay|alright)[,.]?\s+(?:let me|i need to|i'll|the user wants)\b)",
    re.IGNORECASE,
)
_REASONING_END: Final = re.compile(rf"</\s*(?:{THOUGHT_TAGS})\s*>", re.IGNORECASE)
_INJECTED: Final = re.compile(
    r"</?\s*(?:active_memory_plugin|relevant-memories|relevant_memories|hindsight_memories)\b", re.IGNORECASE
)
_MEDIA: Final = re.compile(r"^MEDIA:\s*\S|data:[a-z0-9.+/-]{1,80};base64,", re.MULTILINE)
_LONG_WORD: Final = 400
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{400}")
_REFUSAL: Final = re.compile(
    r"\s*(?:(?:i['’]m|i am)\s+(?:sorry|unable|not able)\b"
    r"|(?:sorry|apologies|unfortunately)[,.]?\s+(?:but\s+)?i\b"
    r"|i\s+(?:can['’]?t|cannot|won['’]?t)\s+(?:help|assist|summari[sz]e|process|comply|do|provide|continue)\b"
    r"|as an ai\b)",
    re.IGNORECASE,
)
_ERROR: Final = re.compile(
    r"\s*(?:error\s*:?\s*[0-9]{3}\b|[0-9]{3}\s+\{|(?:api|http|provider|llm)\s*error\b"
    r"|request (?:timed out|failed)\b)",
    re.IGNORECASE,
)
_ORDERS: Final = re.compile(
    r"\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+|the\s+|your\s+)*"
    r"(?:previous|prior|above|earlier|preceding)\s+(?:instructions?|messages?|prompts?|rules?|context)\b"
    r"|\byou are now (?:a|an|in)\b"
    r"|\b(?:new|override) system (?:prompt|instructions?)\b"
    r"|</?(?:conversation_segment|conversation_to_condense|previous_context|summary_ref)\b"
    r"|<summary\s+id=",
    re.IGNORECASE,
)
_ORDER_WORDS: Final = (
    "ignore",
    "disregard",
    "forget",
    "you are now",
    " system ",
    "</",
    "<summary",
    "<conv",
    "<prev",
)
_EXPANSION: Final = re.compile(r"^[^\w\n]{0,20}expand for details\b", re.MULTILINE | re.IGNORECASE)
_FILE_ID: Final = re.compile(r"\bfile_[a-f0-9]{16}\b", re.IGNORECASE | re.ASCII)


class Copy(StrEnum):
    """How a text repeats its source."""

    WHOLE = "whole"  #: nothing is lost, and nothing was gained
    CUT = "cut"  #: the beginning of the source, and no mark of the cut


def file_ids(text: str) -> list[str]:
    """The ids of files that a text names, as the engine finds them (docs/format.md, "Identifiers")."""
    return list(dict.fromkeys(match.lower() for match in _FILE_ID.findall(text)))


def squeezed(text: str) -> str:
    """A text without the headers of a source text and with single blanks: what a copy is compared by."""
    return " ".join(_HEADER.sub("", text).split())


def may_be_copy(content: str, opening: str) -> bool:
    """Whether a text begins as its source does: only then is the source worth reading."""
    start = squeezed(opening)[:60]
    return len(start) >= _MIN_OPENING and start in squeezed(content[:1_000])[: len(start) + 200]


def copied(content: str, sources: Iterable[str]) -> Copy | None:
    """Whether a text is its source or the beginning of it (docs/engine/texts.md, "Fallback")."""
    text, source = squeezed(content), " ".join(filter(None, map(squeezed, sources)))
    if not text or not source.startswith(text):
        return None
    if text == source:
        return Copy.WHOLE
    return Copy.CUT if len(text) >= _MIN_COPY else None


def has_reasoning(content: str) -> bool:
    """Whether a text begins with what a model thinks or says before the summary."""
    return _REASONING.match(content) is not None or _REASONING_END.search(content, 0, 4_000) is not None


def has_injected_context(content: str) -> bool:
    """Whether a text has tags of injected memory."""
    return _INJECTED.search(content) is not None


def has_binary(content: str) -> bool:
    """Whether a text has base64, a data URL or a media line."""
    if ("MEDIA:" in content or ";base64," in content) and _MEDIA.search(content):
        return True
    return any(len(word) >= _LONG_WORD and _BASE64.search(word) for word in content.split())


def is_error(content: str) -> bool:
    """Whether a text is the JSON of an error as a whole: certainly no summary."""
    text = content.strip()
    if not text.startswith("{") or len(text) > 20_000:
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("error" in value or value.get("type") == "error")


def is_refusal(content: str) -> bool:
    """Whether a text reads like a refusal or a provider's complaint."""
    if len(content) > _MAX_REFUSAL:
        return False
    return _REFUSAL.match(content) is not None or _ERROR.match(content) is not None


def gives_orders(content: str) -> bool:
    """Whether a text holds what could work as an instruction when the model reads it."""
    lowered = content.lower()  # the pattern is slow, and hardly a text holds any of its words
    return any(word in lowered for word in _ORDER_WORDS) and _ORDERS.search(content) is not None


def has_expansion_hint(content: str) -> bool:
    """Whether a text says what can be expanded (docs/engine/settings.md, "Asking a summariser")."""
    return _EXPANSION.search(content) is not None


def says_something(content: str) -> bool:
    """Whether a text holds a letter or a digit."""
    return any(character.isalnum() for character in content)


#: What a host or a log filter puts in place of a secret.
_REDACTED: Final = re.compile(r"\[REDACTED[^\]]{0,40}\]|\*{3,}|<redacted>", re.IGNORECASE)
#: How the metadata begins that a host puts in front of what a user wrote.
_DECORATION: Final = re.compile(
    r"(?:Conversation info|Sender|Thread starter|Replied message|Forwarded message) ?"
    r"\((?:untrusted|metadata)"
    r"|\[[A-Z][\w .-]{1,30} [^\]\n]{1,200}\]",
)
_MAX_DECORATION: Final = 4_000
_MAX_LENGTH: Final = 20_000
_MIN_LENGTH: Final = 24


def are_twins(one: str, other: str) -> bool:
    """Whether two different texts say the same, but for form or what a host put in front."""
    if one == other or max(len(one), len(other)) > _MAX_LENGTH or min(len(one), len(other)) < _MIN_LENGTH:
        return False
    short, long = sorted((" ".join(one.split()), " ".join(other.split())), key=len)
    return short == long or _is_decorated(short, long) or _is_redacted(one, other) or _is_redacted(other, one)


def _is_decorated(bare: str, decorated: str) -> bool:
    if len(bare) < _MIN_LENGTH or not decorated.endswith(bare):
        return False
    front = decorated[: -len(bare)]
    return 0 < len(front) <= _MAX_DECORATION and _DECORATION.match(front) is not None


def _is_redacted(redacted: str, whole: str) -> bool:
    """Whether *redacted* is *whole* with some runs of characters replaced by a mark."""
    kept = _REDACTED.split(redacted)
    if (
        len(kept) < 2
        or len("".join(kept)) < _MIN_LENGTH
        or not (whole.startswith(kept[0]) and whole.endswith(kept[-1]))
    ):
        return False
    at = 0
    for piece in kept:
        at = whole.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
