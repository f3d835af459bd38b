"""What was found and read, as values that are JSON: the same for the command line and the server for agents.

All texts are as they are stored. Code that shows them must make them safe first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from lcm_core.base.records import ConversationId, SummaryId, Timestamp
from lcm_core.base.times import with_z
from lcm_core.base.values import Record, replace
from lcm_core.store.search import Document, DocumentKind, Filter
from msgspec import UNSET, Meta, UnsetType

from lcm_recall.read import Level, Passage, Verdict, cite
from lcm_recall.search import Coverage, Found, Hit, Near, Span

Label = Annotated[
    str, Meta(description="Role of a message, kind of a summary, status of a brief, type of a file.")
]


class FoundHit(Record, frozen=True):
    """A hit."""

    id: str
    kind: DocumentKind
    conversation_id: ConversationId
    label: Label
    at: Timestamp
    place: str
    snippet: str
    spans: tuple[Span, ...]
    found_by: dict[str, int]
    other_spelling: bool
    covered_by: Annotated[SummaryId | None, Meta(description="The summary that was made from it.")]
    way: tuple[SummaryId, ...]
    in_context: bool

    @classmethod
    def of(cls, hit: Hit) -> FoundHit:
        """The same hit."""
        return cls(
            hit.citation,
            hit.kind,
            hit.conversation_id,
            hit.label,
            Timestamp(with_z(hit.at)),
            hit.place,
            hit.snippet,
            hit.spans,
            dict(hit.found_by),
            not hit.spelled,
            hit.way[-1] if hit.way else None,
            hit.way,
            hit.in_context,
        )


class OutsideTime(Record, frozen=True):
    """Hits of the same query before and after the time asked, where there are none in it."""

    before: int
    after: int
    at_least: bool

    @property
    def text(self) -> str:
        """How many there are, in words."""
        sides = (("before", self.before), ("after", self.after))
        some = "at least " * self.at_least
        return " and ".join(f"{some}{count:,} {side} it" for side, count in sides if count)


async def outside_time(wanted: Filter, search: Callable[[Filter], Awaitable[Found]]) -> OutsideTime | None:
    """What *search* finds before and after the time of *wanted*; None: nothing, or *wanted* has no time."""
    before = after = None
    if wanted.since:
        before = await search(replace(wanted, since=None, before=wanted.since))
    if wanted.before:
        after = await search(replace(wanted, since=wanted.before, before=None))
    sides = [one for one in (before, after) if one is not None and one.total]
    if not sides:
        return None
    at_least = any(one.at_least for one in sides)
    return OutsideTime(before.total if before else 0, after.total if after else 0, at_least)


class FoundPage(Record, frozen=True):
    """A page of hits, the best first."""

    query: str
    scope: str
    total: int
    at_least: Annotated[bool, Meta(description="There may be more than the total.")]
    hits: tuple[FoundHit, ...]
    coverage: Coverage
    near: tuple[Near, ...]
    next_cursor: str | None
    outside_time: OutsideTime | UnsetType | None = UNSET

    @classmethod
    def of(cls, query: str, scope: str, found: Found) -> FoundPage:
        """A page of a search."""
        hits = tuple(map(FoundHit.of, found.hits))
        following = None if found.next is None else str(found.next)
        return cls(query, scope, found.total, found.at_least, hits, found.coverage, found.near, following)


class Part(Record, frozen=True):
    """A text, and where it stands."""

    place: str
    text: str


class Described(Record, frozen=True):
    """One message, summary, brief or file; of one that is gone only its id."""

    id: str
    citation: str | None
    verdict: Annotated[
        Verdict, Meta(description="Of a citation: holds, changed or gone; of a mere id: unproven.")
    ]
    kind: DocumentKind | UnsetType = UNSET
    conversation_id: ConversationId | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    at: Timestamp | UnsetType = UNSET
    texts: tuple[Part, ...] | UnsetType = UNSET
    characters: int | UnsetType = UNSET
    cut: bool | UnsetType = UNSET

    @classmethod
    def of(cls, name: str, verdict: Verdict, document: Document | None) -> Described:
        """One thing with its texts; *name* is its id or a citation."""
        if document is None:
            return cls(name, None, verdict)
        return cls(
            name.partition("@")[0],
            cite(document),
            verdict,
            document.kind,
            document.conversation_id,
            document.label,
            Timestamp(with_z(document.at)),
            tuple(Part(place, text) for place, text in document.texts),
        )


class LevelSize(Record, frozen=True):
    """How much is so many steps below a summary; tokens as stored."""

    level: int
    summaries: int
    messages: int
    missing: int
    tokens: int
    tokens_to_here: int


class ReadPage(Record, frozen=True):
    """A page of texts, or the levels below a summary."""

    id: str
    tokens: int
    passages: tuple[Passage, ...]
    next_cursor: str | None
    levels: list[LevelSize] | UnsetType = UNSET


def level_sizes(levels: Sequence[Level]) -> list[LevelSize]:
    """The levels below a summary, without the ids of what is on them."""
    return [
        LevelSize(
            *(one.number, len(one.summaries), len(one.messages), one.missing, one.tokens), one.tokens_to_here
        )
        for one in levels
    ]
