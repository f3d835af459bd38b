"""How many tokens a prompt is for a provider: an estimate that errs to the dear side.

The engine's estimate (a quarter of the characters) serves the engine; real tokenizers make up to twice as
many of logs, ids and tables. Here runs of characters are counted by their kind, as those tokenizers split
them. Measured against four of them in docs/models.md, "Input tokens".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from lcm_core.summarize.models.providers import PROVIDERS, Choice, host_of

_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERS: Final = re.compile(r" ?[0-9]+")
_MARKS: Final = re.compile(r"[!-/:-@\[-`{-~]+")
_BLANKS: Final = re.compile(r"[ \t]{2,}|[\r\n]+|\t")
_LONG: Final = re.compile(r"[A-Za-z0-9+/=]{32,}")
_CAPITALS_AND_DIGITS: Final = re.compile(r"[A-Z0-9]")
_DIGITS: Final = re.compile(r"[0-9]")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
_WIDE: Final = re.compile(r"[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]+")  # each is three bytes of UTF-8
_LETTERS_A_TOKEN: Final = 5
_DIGITS_A_TOKEN: Final = 3
_BLANKS_A_TOKEN: Final = 16
_ENCODED_A_CHARACTER: Final = 0.75
_MARKS_AFTER_THE_FIRST: Final = 0.5
_FOREIGN_A_BYTE: Final = 0.55
_WIDE_A_CHARACTER: Final = 1.2
#: Tokens around a system prompt and a message.
_FRAME: Final = 16
#: OpenAI's vocabularies are public: the estimate is measured against them, and this is its margin.
_KNOWN: Final = 1.15
#: Others are not. Anthropic says of its present one that it makes up to 1.35 times as many tokens as the
#: one before.
_UNKNOWN: Final = 1.35
_UNDERCOUNT: Final = 1.4


def most_tokens(texts: Iterable[str], choice: Choice) -> int:
    """Tokens that a prompt made of *texts* is at most for whom *choice* asks, as far as can be told."""
    margin = _KNOWN if choice.host == host_of(PROVIDERS["openai"].base_url) else _UNKNOWN
    return math.ceil(sum(map(likely_tokens, texts)) * margin) + _FRAME


def likely_of_count(engine_tokens: int) -> int:
    """Tokens of texts of which only the engine's count is known: on logs it counts 0.71 of what is there."""
    return math.ceil(engine_tokens * _UNDERCOUNT)


def likely_tokens(text: str) -> float:
    """Tokens of a text for the vocabularies that are public: hardly ever fewer than they make of it."""
    whole = len(text)
    text = _LONG.sub(lambda run: "" if _is_encoded(run[0]) else run[0], text)
    tokens: float = (whole - len(text)) * _ENCODED_A_CHARACTER
    tokens += sum(-(-len(run) // _LETTERS_A_TOKEN) for run in _WORDS.findall(text))
    for run in _NUMBERS.findall(text):  # a blank before digits is a token of its own
        tokens += -(-len(run.lstrip()) // _DIGITS_A_TOKEN) + (run[0] == " ")
    tokens += sum(1 + (len(run) - 1) * _MARKS_AFTER_THE_FIRST for run in _MARKS.findall(text))
    tokens += sum(1 + len(run) // _BLANKS_A_TOKEN for run in _BLANKS.findall(text))
    if not text.isascii():
        foreign = "".join(_FOREIGN.findall(text))
        wide = sum(map(len, _WIDE.findall(foreign)))
        tokens += wide * _WIDE_A_CHARACTER
        tokens += (len(foreign.encode("utf-8", "replace")) - 3 * wide) * _FOREIGN_A_BYTE
    return tokens


def _is_encoded(run: str) -> bool:
    """Whether a long run is base64 rather than a path: a third of it are capitals and digits."""
    return len(_CAPITALS_AND_DIGITS.findall(run)) * 3 > len(run) and len(_DIGITS.findall(run)) * 20 > len(run)
