"""A tool's call and its answer: parameters and ids in, a text for the model and the same as a value out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_number, trimmed
from lcm_core.base.text import fold
from lcm_core.base.times import engine_moment
from lcm_core.base.values import Record

# -- answers ---------------------------------------------------------------------------------------------
# Source: docs/spec/recall.md, "Answers".


class ToolAnswer(Record, frozen=True):
    """The answer of one of the four tools."""

    text: str
    details: JsonObject


class ToolError(Exception):
    """What a tool refuses: it becomes its answer."""

    def __init__(self, error: str, hint: str | None = None) -> None:
        super().__init__(error)
        self.error = error
        self.hint = hint

    @property
    def answer(self) -> ToolAnswer:
        """The refusal as the answer of the tool."""
        hint: dict[str, Json] = {} if self.hint is None else {"hint": self.hint}
        return as_json({"error": self.error, **hint})


def as_json(details: JsonObject) -> ToolAnswer:
    """An answer whose text is its value, indented by two blanks."""
    return ToolAnswer(json.dumps(details, ensure_ascii=False, indent=2), details)


# -- parameters ------------------------------------------------------------------------------------------
# As the engine reads them (docs/spec/recall.md, "Parameters").

#: The largest whole number that the engine's language holds exactly; a cap that nobody named.
MAX_SAFE_INTEGER: Final = 2**53 - 1

_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?")
_MONTH_ALONE: Final = re.compile(r"(\d{4})(?:-(0[1-9]|1[0-2]))?")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WRITTEN: Final = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?"
    r"(?:(?P<y1>\d{4})[-/](?P<m1>\d{1,2})[-/](?P<d1>\d{1,2})"
    r"|(?P<m2>\d{1,2})/(?P<d2>\d{1,2})/(?P<y2>\d{4})"
    r"|(?P<n1>[A-Za-z]{3,9})\.?\s+(?P<d3>\d{1,2}),?\s+(?P<y3>\d{4})"
    r"|(?P<d4>\d{1,2})\s+(?P<n2>[A-Za-z]{3,9})\.?,?\s+(?P<y4>\d{4}))"
    r"(?:(?:,?\s+|T)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?"
    r"(?:\s*(?P<half>[AaPp][Mm]))?)?"
    r"(?:\s*(?P<zone>[Zz]|(?:GMT|UTC?|gmt|utc?)?(?P<sign>[+-])(?P<oh>\d{2}):?(?P<om>\d{2})|GMT|UTC?|gmt|utc?))?"
)


class Parameters:
    """What a call was given; a value of a type that does not fit counts as not given."""

    def __init__(self, given: JsonObject) -> None:
        self.given = given

    def text(self, name: str) -> str:
        """A text without the blanks at its ends; empty when none was given."""
        value = self.given.get(name)
        return trimmed(value) if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """A number without its fraction; None when none was given."""
        value = self.given.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:  # all numbers of that language are doubles
            return math.trunc(value) if math.isfinite(float(value)) else None
        except OverflowError:
            return None

    def flag(self, name: str) -> bool:
        """Whether exactly *true* was given."""
        return self.given.get(name) is True

    def texts(self, name: str) -> list[str]:
        """The texts of a list, trimmed, each once, without empty ones."""
        value = self.given.get(name)
        if isinstance(value, str) or not isinstance(value, list | tuple):
            return []
        found = (trimmed(one) for one in value if isinstance(one, str))
        return list(dict.fromkeys(one for one in found if one))

    def moment(self, name: str, zone: tzinfo | None) -> datetime | None:
        """A moment; a day alone begins in UTC, a time without a zone is one of *zone*.

        Raises:
            ToolError: a text that names no moment was given.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            found = _iso_moment(text, zone) or _written_moment(text, zone)
        except (OverflowError, ValueError):
            found = None
        if found is None:
            raise ToolError(f"{name} must be a valid ISO timestamp.")
        return found


def _iso_moment(text: str, zone: tzinfo | None) -> datetime | None:
    """A moment in ISO: a year, a month or a day alone begins in UTC."""
    found = engine_moment(text.upper())
    if found is not None and _WITHOUT_ZONE.fullmatch(text):
        return _local(found, zone)
    month = _MONTH_ALONE.fullmatch(text)
    return found if month is None else datetime(int(month[1]), int(month[2] or 1), 1, tzinfo=UTC)


def _written_moment(text: str, zone: tzinfo | None) -> datetime | None:
    """A moment as people write it: the day in one of four orders, a time, a zone; local without one."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        return None
    month = written["m1"] or written["m2"]
    if month is None:
        name = (written["n1"] or written["n2"])[:3].lower()
        month = str(_MONTHS.index(name) + 1)  # ValueError: no month
    day = written["d1"] or written["d2"] or written["d3"] or written["d4"]
    year = written["y1"] or written["y2"] or written["y3"] or written["y4"]
    hour = int(written["hour"] or 0)
    if written["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if written["half"].lower() == "pm" else 0)
    clock = (hour, int(written["minute"] or 0), int(written["second"] or 0))
    at = datetime(int(year), int(month), int(day), *clock, tzinfo=UTC)
    if written["zone"] is None:
        return _local(at, zone)
    sign = -1 if written["sign"] == "-" else 1
    offset = timedelta(hours=int(written["oh"] or 0), minutes=int(written["om"] or 0))
    return at - sign * offset


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment at which clocks of a zone show what a moment shows in UTC."""
    return moment.replace(tzinfo=zone).astimezone(UTC)


def fixed(number: float) -> str:
    """A number with two decimals, as the engine rounds: what lies in the middle goes up."""
    if abs(number) >= 1e21:
        return js_number(number)
    return str(Decimal(number).quantize(Decimal("0.01"), ROUND_HALF_UP))


# -- ids -------------------------------------------------------------------------------------------------
# The ids that a call may name (docs/spec/recall.md, "Ids").

_BARE: Final = re.compile(r"(?:sum|file)_[a-z0-9_-]+")
_ANY_CASE: Final = re.compile(r"(?:sum|file)_\S*", re.IGNORECASE)
_INSIDE: Final = re.compile(r"(?<![A-Za-z0-9_])(?:sum|file)_[a-z0-9_-]+")
_EMPTY: Final = re.compile(r"(?:sum|file)_0*")
_REFERENCE: Final = re.compile(r"\[LCM (?:Tool Output|File|Raw Payload):\s*((?:sum|file)_[a-z0-9_-]+)")
_HINT: Final = (
    "Provide a bare ID or a single copied reference string such as [LCM Tool Output: file_xxx | ...]."
)


def id_in(text: str) -> str:
    """The id that a text is, or that the reference names with which it begins.

    Raises:
        ToolError: it is none, holds several, or something else beside it.
    """
    given = trimmed(text)
    if _EMPTY.fullmatch(given):
        raise ToolError(f"LCM ID cannot be a zero/empty ID: {given}")
    if _BARE.fullmatch(given):
        return given
    reference = _REFERENCE.match(given)
    if reference is not None:
        if _EMPTY.fullmatch(reference[1]):
            raise ToolError(f"LCM ID cannot be a zero/empty ID: {reference[1]}")
        return reference[1]
    if _ANY_CASE.fullmatch(given):
        raise ToolError(
            f"Malformed LCM ID: {given}. IDs must be lowercase and contain only letters, digits, "
            "underscores, and hyphens after the prefix."
        )
    found = list(dict.fromkeys(_INSIDE.findall(given)))
    if len(found) > 1:
        raise ToolError(
            f"Input contains multiple LCM IDs ({', '.join(found)}). "
            "Provide a bare ID or a single reference string."
        )
    if found:
        raise ToolError(f"Not a recognized LCM ID format: {given}", _HINT)
    raise ToolError(f"Not a recognized LCM ID: {given}")


# -- what a passage adds ---------------------------------------------------------------------------------
# Whether a short text adds anything to the words of a question, or only repeats them (docs/spec/searching.md,
# "Asking"). There is no list of phrases: what a text adds is recognised by signs that languages share.

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
