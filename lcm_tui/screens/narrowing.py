"""What a search is narrowed to: words for it, the hits of each, the line of choices above them."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId, SummaryId
from lcm_core.base.text import safe_line
from lcm_core.base.times import iso_or_none
from lcm_core.base.values import Record, field
from lcm_core.store.database import Reader
from lcm_core.store.opening import Rows
from lcm_core.store.search import DocumentKind, Filter, in_context
from lcm_core.store.summaries import broken_rows
from lcm_recall.search import Found
from lcm_recall.terms import moment_of

from lcm_tui.kit.spans import Line, Span, slice_of
from lcm_tui.tables.sent import fitted, flowed

# -- narrowing -------------------------------------------------------------------------------------------
# What a search is narrowed to, in the words that an operator types.

_KINDS: Final = {
    "messages": DocumentKind.MESSAGE,
    "summaries": DocumentKind.SUMMARY,
    "briefs": DocumentKind.BRIEF,
    "files": DocumentKind.FILE,
}
#: Who said it, whether the context has it, broken.
_ROLES: Final = ("tool", "user", "assistant", "system")
_CONTEXT: Final = ("in-context", "out-of-context")
_BROKEN: Final = ("broken",)
_WORDS: Final = (*_KINDS, *_ROLES, *_CONTEXT, *_BROKEN)
#: What stands on the line above the hits: a key each, the word, and how the line names it.
CHOICES: Final = (
    ("1", "tool", "tool"),
    ("2", "user", "user"),
    ("3", "assistant", "assistant"),
    ("4", "summaries", "summaries"),
    ("5", "in-context", "in context"),
    ("6", "out-of-context", "not in it"),
    ("7", "broken", "broken"),
    ("8", "briefs", "briefs"),
    ("9", "files", "files"),
)
#: The words that a word takes the place of, as nothing is both.
_AGAINST: Final = {
    **dict.fromkeys(_ROLES, ("summaries", "briefs", "files", *_BROKEN)),
    **dict.fromkeys(("summaries", *_BROKEN), (*_ROLES, "messages", "briefs", "files")),
    "in-context": ("out-of-context", "briefs", "files"),
    "out-of-context": ("in-context", "briefs", "files"),
    "messages": ("broken",),
    "briefs": (*_ROLES, *_CONTEXT, *_BROKEN),
    "files": (*_ROLES, *_CONTEXT, *_BROKEN),
}
#: Words of one kind: a hit is of one of those that are on.
_WORD_KINDS: Final = ((*_KINDS, *_ROLES), _CONTEXT, _BROKEN)
#: Between a date and the time of that day.
_CLOCK: Final = re.compile(r"(?<=[0-9]{4}-[0-9]{2}-[0-9]{2}) +(?=[0-9]{2}:)", re.ASCII)
_CONVERSATION: Final = re.compile(r"#?([0-9]{1,18})", re.ASCII)


class Narrowing(Record, frozen=True):
    """Kinds, roles, in the context or not, broken, one conversation and a time, each of them or none."""

    text: str = ""  #: as it was typed, with single blanks
    filter: Filter = field(default_factory=Filter)

    def turned(self, word: str) -> str:
        """The text with another word, or without it where it is in it; words that it excludes give way."""
        name, typed = _word_of(word), [(one, _word_of(one)) for one in self.text.split()]
        if name is not None:
            if any(other == name for _, other in typed):
                return " ".join(one for one, other in typed if other != name)
            kept = [one for one, other in typed if other not in _AGAINST[name]]
            return " ".join([*kept, word])
        # One conversation, and one time.
        of_sort = [
            (one, other is None and _is_conversation(one) is _is_conversation(word)) for one, other in typed
        ]
        kept = [one for one, same in of_sort if not same]
        return " ".join(kept if word in self.text.split() else [*kept, word])

    @property
    def rest(self) -> str:
        """The text without kinds, roles, in the context or not, and broken."""
        return " ".join(one for one in self.text.split() if _word_of(one) is None)

    @property
    def limits(self) -> str:
        """What it limits the search to, in the words of the line of choices."""
        names = {word: shown for _, word, shown in CHOICES}
        return safe_line(", ".join(names.get(_word_of(one) or "", one) for one in self.text.split()))

    def has(self, word: str) -> bool:
        """Whether it limits the search to what a word names."""
        return any(_word_of(one) == word for one in self.text.split())


def _is_conversation(word: str) -> bool:
    return _CONVERSATION.fullmatch(word) is not None


def _word_of(word: str) -> str | None:
    """The word that begins so."""
    return next((name for name in _WORDS if name.startswith(word.lower())), None)


def parse_narrowing(text: str, zone: tzinfo | None, now: datetime | None = None) -> Narrowing:
    """What words such as ``messages 3 7d`` narrow a search to; the last 7 days end *now*.

    A time that names no zone is one of *zone* (None: that of this machine).

    Raises:
        UsageError: one of them is no such word, no conversation and no time, there are two of one
            sort, they leave nothing, or *zone* has a time twice or skips it.
    """
    names: list[str] = []
    conversation: ConversationId | None = None
    since = before = None
    words = _CLOCK.sub("T", re.sub(r"\blast +(?=[0-9])", "last_", text)).split()
    for joined in words:
        word = joined.replace("last_", "last ", 1)
        name = _word_of(word)
        number = _CONVERSATION.fullmatch(word)
        if name is not None:
            names.append(name)
        elif number is not None and conversation is None:
            conversation = ConversationId(int(number[1]))
        elif number is None and since is None and before is None:
            since, before = _times(word, zone, now or datetime.now(UTC))
        else:
            raise UsageError(f"{word} is one too many: give at most one conversation and one time.")
    kinds = dict.fromkeys(kind for name, kind in _KINDS.items() if name in names)
    inside = [name == _CONTEXT[0] for name in _CONTEXT if name in names]
    wanted = Filter(
        conversations=None if conversation is None else (conversation,),
        kinds=tuple(kinds) or tuple(DocumentKind),
        roles=tuple(name for name in _ROLES if name in names),
        since=since,
        before=before,
        in_context=inside[0] if len(inside) == 1 else None,
        broken=_BROKEN[0] in names,
    )
    if not wanted.wanted:
        raise UsageError(
            f"Nothing is {' and '.join(names)} at once: only messages have a role, only summaries can be "
            "broken, and only these two are in a context or out of it."
        )
    return Narrowing(" ".join(text.split()), wanted)


def _times(word: str, zone: tzinfo | None, now: datetime) -> tuple[str | None, str | None]:
    """From when on, and before when."""
    first, dots, last = word.partition("..")
    start, end = (moment_of(one, zone, now) if one else None for one in (first, last))
    if (first and start is None) or (last and end is None) or (dots and not first and not last):
        raise UsageError(
            f"{word} is not one of {', '.join(_WORDS)}, a conversation such as 3, "
            "a time such as 7d, last 3h, 2026-03-02 or 2026-03-02..2026-03-09."
        )
    if start is not None and end is not None and start >= end:
        raise UsageError(f"{word} ends before it begins: give the earlier time first.")
    return iso_or_none(start), iso_or_none(end)


NARROWING: Final = """
Limits the search; separate several words by blanks: kinds (messages, summaries, briefs, files, or how they
begin), roles (tool, user, assistant, system), in-context or out-of-context, broken (summaries that a repair
lists), one conversation by its number (3), and one time: the last days, hours or weeks (7d, 12h, 2w), a day
(2026-03-02), or from one to another (2026-03-02..2026-03-09; either side may be empty).
"summaries 3 7d" are the summaries of conversation 3 of the last seven days. The title says what the search is
limited to; an empty line searches everything again. What is picked from the list is added; what is typed
replaces what was there.
"""


# -- the choices -----------------------------------------------------------------------------------------
# Above the hits, with the hits that are of each.

#: Between two of the choices above the hits.
BETWEEN: Final = "  "


#: What a hit is: its kind, its label, whether it is in a context, and whether it is broken.
_Sort: TypeAlias = tuple[DocumentKind, str, bool, bool]


class Sorted(Record, frozen=True):
    """What was found, and how many of its hits are of which sort."""

    found: Found
    sorts: Counter[_Sort]

    def of(self, wanted: Filter) -> tuple[int, bool]:
        """How many hits fulfil a filter of kinds, roles, context and broken; whether there may be more."""
        count = sum(
            number
            for (kind, label, inside, broken), number in self.sorts.items()
            if kind in wanted.wanted
            and (not wanted.roles or label in wanted.roles)
            and wanted.in_context in (None, inside)
            and broken >= wanted.broken
        )
        return count, not self.found.partial.isdisjoint(wanted.wanted)


async def load_sorted(reader: Reader, found: Found) -> Sorted:
    """Sort all that was found, also what is on other pages."""

    def load(rows: Rows) -> Sorted:
        ids = {kind: [one.id for one in found.candidates if one.kind is kind] for kind in DocumentKind}
        messages = [int(one) for one in ids[DocumentKind.MESSAGE]]
        summaries = [SummaryId(one) for one in ids[DocumentKind.SUMMARY]]
        inside = {str(one) for one in in_context(rows, reader.schema, DocumentKind.MESSAGE, messages)}
        inside |= {str(one) for one in in_context(rows, reader.schema, DocumentKind.SUMMARY, summaries)}
        broken = broken_rows(rows, reader.schema, summaries)
        sorts = Counter((one.kind, one.label, one.id in inside, one.id in broken) for one in found.candidates)
        return Sorted(found, sorts)

    return await reader.run(load)


class Counts(Record, frozen=True):
    """What was found for a query."""

    query: str
    rest: str  #: what limited the search besides kinds, roles, context and broken
    whole: Sorted  #: without these
    now: Sorted | None = None  #: with them

    def of(self, narrowing: Narrowing, word: str) -> tuple[int, bool]:
        """How many hits of a choice are listed where it is on, and whether there may be more."""
        words = [one for one in map(_word_of, narrowing.text.split()) if one is not None]
        alike = next(kind for kind in _WORD_KINDS if word in kind)
        others = [one for one in words if one not in alike and one not in _AGAINST[word]]
        is_within = word in words or len(others) == len(words)
        counted = self.now if is_within and self.now is not None else self.whole
        return counted.of(parse_narrowing(" ".join([*others, word]), None).filter)


def choices_lines(
    narrowing: Narrowing, counts: Counts | None, width: int, *, typing: bool, low: bool
) -> list[Line]:
    """What narrows the search, each with its key and its hits; in a *low* terminal in a line.

    *typing*: the keys are text until ``tab``.
    """
    parts: list[Line] = []
    for key, word, title in CHOICES:
        on = narrowing.has(word)
        count, more = (None, False) if counts is None else counts.of(narrowing, word)
        if count == 0 and not more and not on:
            continue
        hits = "" if count is None else f" {count:,}{'+' if more else ''}"
        name = Span(f" {'●' if on else ''}{title}", "title" if on else "text")
        parts.append((Span(key, "key"), name, Span(hits, "dim")))
    if narrowing.text:
        parts.append((Span("0", "key"), Span(" all")))
    if not parts:
        return []
    if low:  # what is set first
        parts.sort(key=lambda part: part[1].style != "title" and part[0].text != "0")
    if typing:
        parts[0] = (Span("tab", "key"), Span(" then ", "dim"), *parts[0])
    return [fitted(parts, width, BETWEEN)] if low else list(flowed(parts, width, BETWEEN))


def key_at(line: Line, cell: int) -> str | None:
    """The key of the choice at a cell."""
    keys = [span.text for span in slice_of(line, 0, cell + 1) if span.style == "key" and span.text != "tab "]
    return keys[-1] if keys else None
