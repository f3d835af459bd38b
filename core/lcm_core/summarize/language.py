"""Sentences, words and telling phrases of a text in any language: what needs no model to be seen.

Words of scripts that are written with spaces count by their beginning (``deploys`` and ``deployed`` agree);
scripts without them, and those that glue prefixes on (Hebrew, Arabic), count by runs of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from typing import Final, TypeVar

from lcm_core.summarize.modality_words import pattern_of, phrases_of

T = TypeVar("T")
Span = tuple[int, int]  #: characters of a text, from the first to before the second

#: The line above a message or summary in a source text (docs/engine/texts.md, "The block of a message"). What
#: a sender is called may hold brackets and be long; as JSON it is one line.
HEADER: Final = re.compile(
    r"^\[(?P<first>(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|NaN-NaN-NaN)[^\]\n]{0,100}?)"
    r"(?: - (?P<last>(?:[0-9]{4}|NaN)-[^\]\n]{0,100})"
    r"| \| speaker \(untrusted metadata\): \{[^\n]*\})?\][ \t]*$",
    re.MULTILINE,
)
_BOUNDARY: Final = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡؟۔]+[」』”’）]*|\n+")
_DENSE: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_GLUED: Final = "\u0590-\u05ff\u0600-\u06ff\u0750-\u077f"
_RUN: Final = re.compile(
    rf"(?P<dense>[{_DENSE}]+)|(?P<glued>[{_GLUED}]+)|(?P<number>[0-9][0-9.,:]*[0-9]|[0-9])"
    rf"|(?P<word>[^\W\d_{_DENSE}{_GLUED}]+)"
)
_STEM: Final = 6
_SHORTEST: Final = 3
_ENDING: Final = re.compile(r"(?:ing|ed|es|s|e)$")
_COMMON_WORDS: Final = """
about after again also and any are because been before being but can could did does doing done each for from
get had has have how into its just let more most not now off once one only other our out over same she should
some such than that the their them then there these they this those through too under until use very was way
were what when where which while who why will with would you your
der die das und ist nicht mit für auf ein eine
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())


_QUESTION: Final = re.compile(r"[?？؟]\s*$")


class Cue(StrEnum):
    """What a sentence announces, besides rules (`modality`)."""

    DECISION = "decision"
    OPEN = "open"


@cache
def _cue(cue: Cue) -> re.Pattern[str]:
    """Phrases that are whole words, in lower case, and patterns, which may be anywhere.

    That a word begins where it is found is checked afterwards: that is four times as fast.
    """
    spaced = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in phrases_of(cue))
    return re.compile(rf"(?P<word>{spaced})(?![^\W\d_])|{pattern_of(cue)}")


def sentences(text: str) -> Iterator[Span]:
    """Where the sentences of *text* are; a line break ends one, header lines and blanks are left out."""
    start = 0
    for match in (*_BOUNDARY.finditer(text), None):
        end = len(text) if match is None else match.end()
        piece = text[start:end]
        stripped = piece.strip()
        if stripped and not (stripped[0] == "[" and HEADER.fullmatch(stripped)):
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(stripped)
        start = end


def has_cue(sentence: str, cue: Cue) -> bool:
    """Whether a sentence announces *cue*, in a language of ``rule_words.toml``; a question is open in any."""
    lowered = sentence.lower()
    if cue is Cue.OPEN and _QUESTION.search(lowered):
        return True
    return any(
        found["word"] is None or not lowered[found.start() - 1 : found.start()].isalpha()
        for found in _cue(cue).finditer(lowered)
    )


def terms(text: str) -> list[str]:
    """What the meaning of *text* hangs on: stems of words, numbers, runs of characters; with repeats."""
    found: list[str] = []
    for match in _RUN.finditer(text.casefold()):
        piece = match[0]
        kind = match.lastgroup
        if kind == "word":
            if len(piece) >= _SHORTEST and piece not in _COMMON:
                found.append(_stem(piece))
        elif kind == "number":
            found.append(piece.strip(".,:"))
        else:
            size = 2 if kind == "dense" else 3
            found += [piece[at : at + size] for at in range(max(len(piece) - size + 1, 1))]
    return found


def _stem(word: str) -> str:
    """The beginning of a word, without an English ending."""
    if word.isascii() and len(word) > _SHORTEST + 1:
        bare = _ENDING.sub("", word)
        if len(bare) >= _SHORTEST:
            word = bare[:-1] if len(bare) > _SHORTEST and bare[-1] == bare[-2] else bare
    return word[:_STEM]


def word_table(rows: Iterable[tuple[T, str]]) -> tuple[dict[str, T], dict[str, T]]:
    """What each word of some rows means; the second table has the beginnings of words, written with ``*``.

    The first row that has a word decides.
    """
    whole: dict[str, T] = {}
    begun: dict[str, T] = {}
    for meaning, words in rows:
        for word in words.split():
            table = begun if word.endswith("*") else whole
            table.setdefault(word.removesuffix("*"), meaning)
    return whole, begun


def is_dense(text: str) -> bool:
    """Whether most of *text* is in a script that is written without spaces."""
    letters = sum(map(str.isalpha, text))
    return letters > 0 and 2 * len("".join(re.findall(rf"[{_DENSE}]", text))) > letters
