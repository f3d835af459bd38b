"""What the rules of the checks look at: a conversation's rows without their texts, and how findings are made.

A conversation may hold half a million messages, so they are columns, not records. Times are days as
``julianday`` counts them: both stored formats give the same number for the same moment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from lcm_core.findings import Confidence, Finding, FixId, KeyPart, RowRef
from lcm_core.records import ContextItem, Conversation, ConversationId, Edge, MessageId, SummaryId

#: Two stored times this close are the same (days); the formats keep milliseconds.
SAME_MOMENT: Final = 0.002 / 86_400
SECOND: Final = 1 / 86_400
ROLES: Final = ("system", "user", "assistant", "tool")
#: Ordinals from here on are left over from a renumbering that was cut short (docs/format.md, "Numbering").
ABNORMAL_ORDINAL: Final = 10_000_000


def days_of(moment: datetime) -> float:
    """A moment as ``julianday`` counts it."""
    return moment.astimezone(UTC).timestamp() / 86_400 + 2_440_587.5


@dataclass(frozen=True, slots=True)
class Limits:
    """What the rules measure against, and how much of an answer is kept."""

    now: datetime
    retain_depth: int = 2  #: summaries below it leave the context at ``/new`` (newSessionRetainDepth)
    leaf_target: int = 2_400  #: tokens (leafTargetTokens)
    condensed_target: int = 2_000  #: tokens (condensedTargetTokens)
    overage: float = 3.0  #: a summary is cut off beyond target times this (summaryMaxOverageFactor)
    fresh_tail: int = 64  #: messages that compaction may not touch
    large_payload: int = 25_000  #: tokens from which a payload becomes a file
    rows: int = 200  #: rows that one finding names
    findings: int = 1_000  #: findings that one check keeps
    seconds: float = 30.0  #: a check that gets no further for so long gives up; 0: none does

    @property
    def today(self) -> float:
        """``now`` in days."""
        return days_of(self.now)


@dataclass(frozen=True)
class MessageColumns:
    """The messages of a conversation in order of seq; ``ids[i]``, ``seqs[i]`` ... are one message."""

    ids: array[int]
    seqs: array[int]
    tokens: array[int]
    days: array[float]  #: 0.0 where the time cannot be read
    roles: bytes  #: index in `ROLES`; 255 for another one
    events: bytes  #: 1 for a record of a pass (docs/format.md, "Records of passes"): never in a context

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def position(self) -> Mapping[int, int]:
        """Place in the columns by message id."""
        return {message_id: place for place, message_id in enumerate(self.ids)}

    def role(self, place: int) -> str:
        """The role of a message; empty when it is none of the four."""
        code = self.roles[place]
        return ROLES[code] if code < len(ROLES) else ""


@dataclass(frozen=True, slots=True)
class Node:
    """A summary without its text. Times are days; NaN where what is stored cannot be read."""

    summary_id: SummaryId
    kind: str
    depth: int | None
    tokens: int
    earliest: float | None
    latest: float | None
    created: float
    descendant_count: int | None
    descendant_tokens: int | None
    source_tokens: int | None
    model: str | None

    @property
    def is_leaf(self) -> bool:
        """Whether it was made from messages."""
        return self.kind == "leaf"


@dataclass(frozen=True, slots=True)
class Links:
    """The messages that a summary is linked to, by ordinal and then as stored."""

    message_ids: array[int]
    ordinals: array[int]


NO_LINKS: Final = Links(array("q"), array("q"))


@dataclass(frozen=True)
class Structure:
    """A conversation's rows without their texts, as one transaction saw them."""

    conversation: Conversation
    messages: MessageColumns
    items: Sequence[ContextItem]  #: by ordinal
    nodes: Mapping[SummaryId, Node]  #: in the order in which they were made
    nameless: tuple[int, ...]  #: rowids of summaries whose id is NULL
    links: Mapping[SummaryId, Links]
    edges: Mapping[SummaryId, tuple[Edge, ...]]  #: by consumer, by ordinal and then as stored
    foreign_messages: Mapping[int, int | None]  #: owner of messages named here that are not ours; None: gone
    foreign_summaries: Mapping[str, int | None]
    #: By message id, the most that a message may weigh beside its count: for its sender, and uncounted text
    #: (docs/engine/compaction.md, "Weights").
    labels: Mapping[int, int] | None = None
    soft_reset: float | None = None  #: when ``/new`` last pruned the context, in days
    records_soft_reset: bool = False  #: whether this version would have recorded it
    token_budget: int | None = None  #: as the maintenance row has it
    debt_pending: bool = False
    copies: frozenset[int] = frozenset()  #: places of repeated messages whose originals the context reaches
    #: by summary that is gone and that the context names, or what lay above it: what links and edges still
    #: name as its sources, in order
    remains: Mapping[SummaryId, tuple[int | SummaryId, ...]] = field(default_factory=dict)
    at_home: frozenset[int | str] = (
        frozenset()
    )  #: rows named here that their own conversation's context reaches

    @property
    def id(self) -> ConversationId:
        """The conversation's id."""
        return self.conversation.conversation_id

    @property
    def archived(self) -> bool:
        """Whether the conversation is recorded as not active."""
        return self.conversation.active is False

    @cached_property
    def consumers(self) -> Mapping[SummaryId, tuple[SummaryId, ...]]:
        """Consumers by source, each once."""
        found: dict[SummaryId, dict[SummaryId, None]] = {}
        for consumer, edges in self.edges.items():
            for edge in edges:
                found.setdefault(edge.source, {})[consumer] = None
        return {source: tuple(all_of) for source, all_of in found.items()}

    @cached_property
    def summaries_in_context(self) -> tuple[SummaryId, ...]:
        """The summaries of this conversation that stand in its context, each once, in order."""
        return tuple(
            dict.fromkeys(
                item.summary_id
                for item in self.items
                if item.summary_id is not None and item.summary_id in self.nodes
            )
        )

    def below(self, start: Iterable[SummaryId]) -> Iterator[SummaryId]:
        """*start* and everything below it toward the messages, each once; survives cycles."""
        seen: set[SummaryId] = set()
        waiting = list(start)
        while waiting:
            node = waiting.pop()
            if node in seen or node not in self.nodes:
                continue
            seen.add(node)
            yield node
            waiting.extend(edge.source for edge in self.edges.get(node, ()))

    @cached_property
    def live(self) -> frozenset[SummaryId]:
        """The summaries that a walk from the context meets."""
        return frozenset(self.below(self.summaries_in_context))

    @cached_property
    def orphans(self) -> tuple[SummaryId, ...]:
        """The summaries that neither the context nor another summary uses."""
        held = set(self.summaries_in_context)
        return tuple(node for node in self.nodes if node not in held and not self.consumers.get(node))

    @cached_property
    def sources_first(self) -> Mapping[SummaryId, None]:
        """The summaries, each behind its sources; those on cycles and above them are left out."""
        waiting = {
            one: len({edge.source for edge in self.edges.get(one, ()) if edge.source in self.nodes} - {one})
            for one in self.nodes
        }
        free = [one for one, number in waiting.items() if not number]
        for one in free:  # grows while it is walked
            for consumer in self.consumers.get(one, ()):
                if consumer != one and consumer in waiting:
                    waiting[consumer] -= 1
                    if not waiting[consumer]:
                        free.append(consumer)
        return dict.fromkeys(free)

    def places(self, summary_id: SummaryId) -> Iterator[int]:
        """Where the messages that a summary is itself linked to stand; missing and foreign ones are none."""
        position = self.messages.position
        for message_id in self.links.get(summary_id, NO_LINKS).message_ids:
            place = position.get(message_id)
            if place is not None:
                yield place

    @cached_property
    def raw(self) -> bytes:
        """By place: 1 where the message stands in the context itself."""
        found = bytearray(len(self.messages))
        for item in self.items:
            place = None if item.message_id is None else self.messages.position.get(item.message_id)
            if place is not None:
                found[place] = 1
        return bytes(found)

    @cached_property
    def copied(self) -> int:
        """How many messages at the front are copies: a transplant numbers them below 0, nothing else does."""
        seqs = self.messages.seqs
        return bisect_left(seqs, 1) if seqs and seqs[0] < 0 else 0

    @cached_property
    def linked(self) -> bytes:
        """By place: 1 where a summary is linked to the message, 2 where one that the context reaches is."""
        found = bytearray(len(self.messages))
        for summary_id in self.nodes:
            mark = 2 if summary_id in self.live else 1
            for place in self.places(summary_id):
                found[place] = max(found[place], mark)
        return bytes(found)

    @cached_property
    def spans(self) -> Mapping[SummaryId, tuple[int, int]]:
        """First and last place that a summary covers, itself or through its sources; none when nothing."""
        found: dict[SummaryId, tuple[int, int]] = {}
        for start in self.nodes:
            if start not in found:
                self._measure(start, found)
        return {node: span for node, span in found.items() if span[0] <= span[1]}

    def _measure(self, start: SummaryId, found: dict[SummaryId, tuple[int, int]]) -> None:
        """Fill in the spans of *start* and what lies below it, sources first; on a cycle as far as known."""
        waiting: list[tuple[SummaryId, bool]] = [(start, False)]
        entered: set[SummaryId] = set()
        while waiting:
            node, ready = waiting.pop()
            sources = [edge.source for edge in self.edges.get(node, ()) if edge.source in self.nodes]
            if not ready:
                if node in found or node in entered:
                    continue
                entered.add(node)
                waiting.append((node, True))
                waiting.extend((source, False) for source in sources)
                continue
            first, last = len(self.messages), -1
            for place in self.places(node):
                first, last = min(first, place), max(last, place)
            for span in (found[source] for source in sources if source in found):
                first, last = min(first, span[0]), max(last, span[1])
            found[node] = (first, last)

    def span_text(self, first: int, last: int) -> str:
        """Places as people read them: ``seq 12`` or ``seq 12-40``."""
        low, high = self.messages.seqs[first], self.messages.seqs[last]
        return f"seq {low}" if low == high else f"seq {low}-{high}"


#: A rule: what it finds in one conversation.
StructureRule = Callable[[Structure, Limits], Iterable[Finding]]


class Tally:
    """Rows of one kind, as many as a finding shows, and how many there are."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.rows
        self.rows: list[RowRef] = []
        self.count = 0
        self.things = 0  #: what the sentence counts, when that is not the rows

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, table: str, *key: KeyPart) -> None:
        """Note one row."""
        self.count += 1
        if self.count <= self._limit:
            self.rows.append(RowRef(table, key))

    def finding(
        self,
        check: str,
        confidence: Confidence,
        conversation_id: ConversationId | None,
        sentence: str,
        fix: FixId | None = None,
    ) -> Finding:
        """A finding about the noted rows."""
        return Finding(check, confidence, conversation_id, tuple(self.rows), self.count, sentence, fix)

    def told(
        self,
        check: str,
        confidence: Confidence,
        structure: Structure,
        noun: str,
        words: str,
        fix: FixId | None = None,
    ) -> Iterator[Finding]:
        """The finding that counts the noted rows as `told` does; none when there are none."""
        if self:
            sentence = told(self.count, noun, structure.id, words)
            yield self.finding(check, confidence, structure.id, sentence, fix)


def found(
    check: str,
    confidence: Confidence,
    conversation_id: ConversationId | None,
    rows: Sequence[RowRef],
    sentence: str,
    fix: FixId | None = None,
) -> Finding:
    """A finding about a few rows, all of which it names."""
    return Finding(check, confidence, conversation_id, tuple(rows), len(rows), sentence, fix)


def summary_row(summary_id: SummaryId) -> RowRef:
    """A row of ``summaries``."""
    return RowRef("summaries", (summary_id,))


def message_row(message_id: int) -> RowRef:
    """A row of ``messages``."""
    return RowRef("messages", (MessageId(message_id),))


_PLURALS: Final = {
    "summary": "summaries",
    "leaf": "leaves",
    "link or edge": "links or edges",
    "source of a focus brief": "sources of focus briefs",
    "source of a gone summary": "sources of a gone summary",
}
_SINGULARS: Final = {
    "are": "is",
    "have": "has",
    "were": "was",
    "had": "had",
    "do": "does",
    "lie": "lies",
    "go": "goes",
}


def counted(number: int, noun: str) -> str:
    """``1 message``, ``12,000 messages``."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def agree(number: int, words: str) -> str:
    """*words*, which begin with a verb in the plural, as they follow on *number*."""
    verb, blank, rest = words.partition(" ")
    if number == 1:
        verb = _SINGULARS.get(verb, verb if verb in _PAST else verb + "s")
    return verb + blank + rest


_PAST: Final = frozenset({"went", "could", "cannot", "must"})


def told(number: int, noun: str, owner: ConversationId | None, words: str) -> str:
    """``2 messages of conversation 7 have no parts``; *words* begin with a verb in the plural."""
    where = "" if owner is None else f" of conversation {owner}"
    return f"{counted(number, noun)}{where} {agree(number, words)}"


def some(ids: Iterable[object], limit: int = 3) -> str:
    """The first few of some ids, for a sentence."""
    shown = [str(one) for one in ids]
    rest = len(shown) - limit
    return ", ".join(shown[:limit]) + (f" and {rest:,} more" if rest > 0 else "")
