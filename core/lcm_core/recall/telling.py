"""What a short text tells beyond the words of a question: whether it only repeats them.

Source: docs/recall.md, "Asking". There is no list of phrases: what a text adds is seen by signs that
languages share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from lcm_core.text import fold

#: How a passage that does so is marked, wherever it is shown.
REPEATS: Final = "repeats the question"
#: The longest text that may only repeat a question: in words, in characters of scripts without blanks, and in
#: characters at all, for a text without any blank is one word however long it is.
SHORT_WORDS: Final = 60
SHORT_GLUED: Final = 120
SHORT_CHARACTERS: Final = 1_000

#: Signs that end a question: Latin, full width, Arabic, Armenian, Ethiopic, Greek.
_ASKS: Final = "?？؟՞፧;"
_CLOSING: Final = " \t\r\n\"'`*_)]»”’」』"
_GLUED: Final = re.compile("[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_WORD: Final = re.compile(r"\w+(?:[./:@#_-]+\w+)*")
_QUOTED: Final = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」")
#: What may come before the first word of a sentence.
_SENTENCE: Final = re.compile(r"(?:^|[.!?:;…\n。！？-])[\s\"'`*_(„“«¿¡]*$")


class Adds(Enum):
    """What a text has that the question has not; the value is what its rank is worth."""

    FACT = 1.0  #: a number, an identifier, a path, or something quoted
    NAME = 0.75  #: a word with a capital within a sentence; in German any noun has one
    NOTHING = 0.5


def is_short(text: str) -> bool:
    """Whether a text is so short that it may say nothing."""
    return (
        len(text) <= SHORT_CHARACTERS
        and len(text.split(None, SHORT_WORDS)) <= SHORT_WORDS
        and sum(1 for _ in _GLUED.finditer(text)) <= SHORT_GLUED
    )


def asks(text: str) -> bool:
    """Whether a text ends with a question mark, of any script."""
    return text.rstrip(_CLOSING)[-1:] in tuple(_ASKS)


def added(text: str, known: Iterable[str]) -> Adds:
    """What a text adds to the texts that are *known*: the question, and what was asked before."""
    before = {word for one in known for word in _words(one)}
    if any(not set(_words(quoted)) <= before for groups in _QUOTED.findall(text) for quoted in groups):
        return Adds.FACT
    adds = Adds.NOTHING
    for found in _WORD.finditer(text):
        word = found[0]
        if fold(word) in before:
            continue
        if any(sign.isdigit() for sign in word) or _is_identifier(word):
            return Adds.FACT
        if word[0].isupper() and len(word) > 1 and not _SENTENCE.search(text[: found.start()]):
            adds = Adds.NAME
    return adds


def repeats(
    text: str, role: str, question: str, shared: Callable[[str], bool], asked_before: str | None
) -> Adds:
    """What a message is worth as evidence: `Adds.FACT` unless it is short and only repeats the question.

    *shared* says whether a text holds the words of the question that this one holds; *asked_before* is the
    message of the user before it, if there is one. Only a question, and a reply to one, can repeat.
    """
    if not is_short(text):
        return Adds.FACT
    replies = role == "assistant" and asked_before is not None and shared(asked_before)
    if not (asks(text) or replies):
        return Adds.FACT
    return added(text, (question, asked_before or "") if replies else (question,))


def _is_identifier(word: str) -> bool:
    """A path, an address, a name of code: signs within, or a capital behind a small letter."""
    return bool(re.search(r"\w[./:@#_]+\w", word)) or bool(re.search(r"[^\W\d_A-Z][A-Z]", word))


def _words(text: str) -> Sequence[str]:
    return [fold(word) for word in _WORD.findall(text)]
