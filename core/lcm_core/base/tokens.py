"""The engine's token estimates, and whether a stored count is one of them.

A file mixes two estimators, because counts are written once and never again (docs/spec/tokens.md); a stored
count is right when either gives it. Summaries are counted by their content. A message is counted by its
content when the host sent a string, else by the JSON of the array of blocks that it sent, which
``message_parts.metadata`` keeps block by block under ``raw``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from lcm_core.base.values import Record


class Estimator(StrEnum):
    """Who counted: the rule of 0.1 to 0.7, or that of 0.8 and later."""

    UTF16 = "utf16"
    WEIGHTED = "weighted"


# Compiled by `re` when a text calls for it.
_WIDE_BMP: Final = r"[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]+"
_WIDE_ASTRAL: Final = r"[\U00020000-\U0002a6df\U0002a700-\U0002ebef]+"
_ESCAPED: Final = r"[\udc80-\udcff]+"
#: What is not counted as a quarter, or not as it is written: wide and astral characters, and escaped bytes.
_UNEVEN: Final = "[^\0-\u2fff]+"
#: Bytes of UTF-8 in characters that count evenly: without them nothing is left of most texts.
_EVEN: Final = bytes(range(0xE3))
#: Tokens that a character has by either rule, at most.
MOST_PER_CHARACTER: Final = 2


def estimate_utf16(text: str) -> int:
    """Tokens by the rule of 0.1 to 0.7: a quarter of the UTF-16 length, rounded up."""
    return -(-quarters(text, Estimator.UTF16) // 4)


def estimate_weighted(text: str) -> int:
    """Tokens by the rule of 0.8 and later: CJK 1.5, others above U+FFFF 2, the rest 0.25; rounded up."""
    return -(-quarters(text, Estimator.WEIGHTED) // 4)


def estimate(text: str, estimator: Estimator) -> int:
    """Tokens of a text by one of the two rules."""
    return -(-quarters(text, estimator) // 4)


def quarters(text: str, estimator: Estimator) -> int:
    """What a text weighs in quarters of a token, before it is rounded up.

    The weight of texts put together is the sum of theirs, where none begins or ends with half a character.
    """
    weight = len(text)
    if text.isascii():
        return weight
    if estimator is Estimator.UTF16:
        return utf16_length(as_engine_read(text))
    if not text.encode("utf-8", "surrogatepass").translate(None, _EVEN):
        return weight
    runs = re.findall(_UNEVEN, text)
    stored = "\n".join(runs)  # what stood apart stays apart
    uneven = as_engine_read(stored)
    astral = len(uneven.encode("utf-16-le", "surrogatepass")) // 2 - len(uneven)
    weight += len(uneven) - len(stored) + astral * 7 + _characters(_WIDE_BMP, uneven) * 5
    return weight - _characters(_WIDE_ASTRAL, uneven) * 2 if astral else weight


def utf16_length(text: str) -> int:
    """Length as the engine's language counts it: characters above U+FFFF twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def as_engine_read(text: str) -> str:
    """Bytes that are not UTF-8, which we keep as surrogate escapes, reach the engine as U+FFFD."""
    if not has_surrogates(text):
        return text
    return re.sub(
        _ESCAPED, lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), text
    )


def has_surrogates(text: str) -> bool:
    """Whether a text holds halves of pairs, or bytes that are no UTF-8: it cannot be encoded then.

    To try that takes a tenth of what a search takes.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _characters(runs: str, text: str) -> int:
    return sum(map(len, re.findall(runs, text)))


def estimator_of(text: str, stored: int) -> Estimator | None:
    """The estimator that gives *stored* for *text*; the newer one when both do, None when neither does."""
    if estimate_weighted(text) == stored:
        return Estimator.WEIGHTED
    return Estimator.UTF16 if estimate_utf16(text) == stored else None


class Verdict(StrEnum):
    """What recomputing a message's stored count showed."""

    FITS = "fits"
    DIFFERS = "differs"
    NOT_RECOMPUTABLE = "not recomputable"


class Lacking(StrEnum):
    """Why the text that a message was counted by is not in the database."""

    PARTS = "no parts are stored"  #: bulk imports up to 0.9.3
    RAW = "a part lacks the block that the host sent"
    SIGNATURE = "signed reasoning was counted in another form"


class TokenCheck(Record, frozen=True):
    """A message's stored token count against the estimators."""

    verdict: Verdict
    estimator: Estimator | None = None  #: which one gave the stored count; None unless the verdict is FITS
    lacking: Lacking | None = None  #: None unless the verdict is NOT_RECOMPUTABLE
    weighted: int | None = None  #: what 0.8 and later would store; None when it cannot be known


_SIGNED: Final = re.compile(r'"(?:thinking|thought|text)?_?[sS]ignature"\s*:|"encrypted_content"\s*:')


def check_message_tokens(stored: int, content: str, metadata: Sequence[str | None]) -> TokenCheck:
    """Compare a message's stored count with what the engine would count.

    *content* is ``messages.content``, *metadata* that of all its ``message_parts`` by ordinal.
    """
    raw = [raw_block(text) for text in metadata]
    blocks = [block for block in raw if block is not None]
    whole = bool(raw) and len(blocks) == len(raw)
    # User messages of one text block were counted by their text: 99 rows of each recorded database.
    candidates = [blocks_json(blocks), content] if whole else [content]
    for text in candidates:
        if (estimator := estimator_of(text, stored)) is not None:
            return TokenCheck(Verdict.FITS, estimator, weighted=estimate_weighted(text))
    lacking = _lacking(raw, blocks)
    if lacking is not None:
        return TokenCheck(Verdict.NOT_RECOMPUTABLE, lacking=lacking)
    return TokenCheck(Verdict.DIFFERS, weighted=estimate_weighted(candidates[0]))


def counted_text(role: str, content: str, metadata: Sequence[str | None]) -> str | None:
    """The text that the engine counted a message by; None when it is not in the database.

    Measured on the recorded databases: user messages of one block were counted by their text, all others that
    the host sent as blocks by the JSON of these.
    """
    raw = [raw_block(text) for text in metadata]
    blocks = [block for block in raw if block is not None]
    if _lacking(raw, blocks) is not None:
        return None
    return content if not blocks or (role == "user" and len(blocks) == 1) else blocks_json(blocks)


def _lacking(raw: Sequence[str | None], blocks: Sequence[str]) -> Lacking | None:
    if not raw:
        return Lacking.PARTS
    if blocks and len(blocks) < len(raw):
        return Lacking.RAW
    return Lacking.SIGNATURE if any(map(_SIGNED.search, blocks)) else None


def blocks_json(blocks: Iterable[str]) -> str:
    """The JSON of the content array whose blocks have the JSON *blocks*, as ``JSON.stringify`` writes it."""
    return f"[{','.join(blocks)}]"


_DECODER: Final = json.JSONDecoder(strict=False)
_GAP: Final = re.compile(r"[ \t\n\r]*[{,:]?[ \t\n\r]*")


def raw_block(metadata: str | None) -> str | None:
    """The JSON text of ``raw`` in a part's metadata as it is there; None without one or when unreadable.

    Cut out and not parsed and written again: numbers and escapes keep the length that was counted.
    """
    if not metadata or not metadata.lstrip().startswith("{"):
        return None
    at = _skip(metadata, 0)
    try:
        while metadata[at] != "}":
            key, at = _DECODER.raw_decode(metadata, at)
            start = _skip(metadata, at)
            _, end = _DECODER.raw_decode(metadata, start)
            if key == "raw":
                return metadata[start:end]
            at = _skip(metadata, end)
    except (ValueError, IndexError, RecursionError):
        pass
    return None


def _skip(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at
