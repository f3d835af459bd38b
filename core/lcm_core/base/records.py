"""The rows of an LCM database as frozen values, and the items of a context in order.

Every record names the table it comes from. A field is None when the row holds NULL or when this version
of the schema does not record it; `Schema.has` distinguishes the two. Token counts are the stored estimates
of the engine. Text is kept as stored (invalid UTF-8 as surrogate escapes): make it safe before showing it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NewType, TypeVar

from lcm_core.base.values import Record, field

ConversationId = NewType("ConversationId", int)
MessageId = NewType("MessageId", int)
SummaryId = NewType("SummaryId", str)
FileId = NewType("FileId", str)

#: A stored time in either of the engine's two formats (docs/spec/format.md, "Times"); `times.parse_utc` reads
#: it.
Timestamp = NewType("Timestamp", str)

#: Characters of a title that a name has: a title may be of any length.
LONGEST_TITLE: Final = 200


class Conversation(Record, frozen=True):
    """One session of an agent as the engine knows it. Source: table ``conversations``."""

    conversation_id: ConversationId
    session_id: str
    session_key: str | None  #: ``agent:<agent>:<lane>...``; recorded since 0.4.0
    active: bool | None  #: recorded since 0.6.0
    archived_at: Timestamp | None
    archive_cause: str | None  #: free text such as ``manual-reset``; recorded since 0.14.0
    title: str | None
    bootstrapped_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp

    @property
    def agent(self) -> str | None:
        """The agent's name, when the session key is of the form ``agent:<agent>:...``."""
        parts = (self.session_key or "").split(":")
        return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None

    @property
    def lane(self) -> str:
        """What distinguishes the session for a person: the rest of its key, else its id."""
        parts = (self.session_key or "").split(":", 2)
        if len(parts) == 3 and parts[0] == "agent":
            return parts[2]
        return self.session_key or self.session_id

    @property
    def channel(self) -> str:
        """Agent and lane as the session key has them; empty without a key."""
        if not self.session_key:
            return ""
        return self.lane if self.agent in (None, self.lane) else f"{self.agent} {self.lane}"

    @property
    def name(self) -> str:
        """What a person tells it by, on every screen and in every table: title, else agent and channel.

        Without either it is the session's id; a list that has read the first words of the user shows them.
        """
        return self.told_title or self.channel or self.session_id

    @property
    def told_title(self) -> str:
        """The title as a name: without blanks around it, and no more of it than a line has."""
        return (self.title or "").strip()[:LONGEST_TITLE]

    @property
    def called(self) -> str:
        """Number and name, as in titles: ``3  Why the nightly export fails``."""
        return f"{self.conversation_id}  {self.name}"


class Message(Record, frozen=True):
    """One stored message. Source: table ``messages``."""

    message_id: MessageId
    conversation_id: ConversationId
    seq: int  #: the engine starts at 1 (docs/spec/format.md, "Numbering"); gaps are legitimate
    role: str  #: system, user, assistant or tool
    content: str  #: extracted text; may be empty when the parts hold everything
    tokens: int = field(name="tokenCount")  #: stored estimate (docs/spec/tokens.md, "What is counted")
    created_at: Timestamp
    large_content: str | None  #: the id of the file that holds the payload; recorded since 0.10.0
    sender: str | None  #: JSON of the sender; recorded since 0.15.2


class MessagePart(Record, frozen=True):
    """One block of a message. Source: table ``message_parts``; only the columns the engine writes."""

    message_id: MessageId
    ordinal: int
    part_type: str
    text: str | None
    tool_call_id: str | None
    tool_name: str | None
    tool_status: str | None
    tool_input: str | None
    tool_output: str | None
    tool_error: str | None
    file_name: str | None
    file_mime: str | None
    file_url: str | None
    metadata: str | None  #: JSON; ``raw`` holds the block as the host sent it
    part_id: str = ""  #: of which the engine makes the id of a tool call that has none


class Summary(Record, frozen=True):
    """A node of the summary DAG without its text. Source: table ``summaries``."""

    summary_id: SummaryId
    conversation_id: ConversationId
    kind: str  #: leaf or condensed
    depth: int  #: 0 for a leaf, 1 + depth of the sources for a condensed summary
    tokens: int = field(name="tokenCount")  #: stored estimate of the content
    earliest_at: Timestamp | None  #: coverage; recorded since 0.1.2
    latest_at: Timestamp | None
    descendant_count: int | None  #: below it, with repeats (docs/spec/format.md, "Numbers beside a summary")
    descendant_tokens: int | None  #: recorded since 0.3.0
    source_message_tokens: int | None  #: recorded since 0.3.0
    created_at: Timestamp
    file_ids: str  #: JSON array of strings, as stored
    model: str | None  #: recorded since 0.5.0


class SummaryText(Record, frozen=True):
    """What a summary says. Source: ``summaries.content``."""

    summary: Summary
    content: str


class Edge(Record, frozen=True):
    """One line of the DAG. Source: table ``summary_parents``."""

    consumer: SummaryId  #: ``summary_parents.summary_id``: the node that was made
    source: SummaryId  #: ``summary_parents.parent_summary_id``: what it was made from
    ordinal: int  #: place among the consumer's sources, from 0


class ContextItem(Record, frozen=True):
    """One entry of what the model sees, in order. Source: table ``context_items``."""

    ordinal: int  #: from 0; gaps are legitimate after a host prune
    item_type: str  #: message or summary
    message_id: MessageId | None
    summary_id: SummaryId | None
    created_at: Timestamp


class LargeFile(Record, frozen=True):
    """A payload that the engine took out of a message. Source: table ``large_files``."""

    file_id: FileId
    conversation_id: ConversationId
    file_name: str | None
    mime_type: str | None
    byte_size: int | None
    line_count: int | None  #: recorded since 0.14.0
    storage_uri: str  #: absolute path on the host that wrote it
    exploration_summary: str | None
    created_at: Timestamp


class FocusBrief(Record, frozen=True):
    """A text that replaces the summaries it covers. Source: table ``focus_briefs`` (since 0.11.0)."""

    brief_id: str
    conversation_id: ConversationId
    prompt: str
    content: str
    status: str  #: draft, active, superseded, failed or inactive
    tokens: int = field(name="tokenCount")
    target_tokens: int
    covered_latest_at: Timestamp | None
    covered_message_seq: int | None
    generator_run_id: str | None
    generator_session_key: str | None
    created_at: Timestamp
    updated_at: Timestamp
    source_context_hash: str = ""  #: of the summaries that it was made from (`lcm_core.engine.graph`)
    error: str | None = None  #: why a failed one has no text
    superseded_at: Timestamp | None = None


# -- a context in order ----------------------------------------------------------------------------------
# What the items show by themselves: gaps, repeats, types that do not fit.
#
# Source: docs/spec/format.md, "Numbering"; docs/spec/doctor.md, "Family A: the context".

#: What an item names: a summary's id where it names one, else a message's; None when it names neither.
ItemId = SummaryId | MessageId | None
#: From here on an ordinal is no place in a list but what a renumbering left that was cut short.
ABNORMAL_ORDINAL: Final = 10_000_000

_Value = TypeVar("_Value", bound=Hashable)


class Gap(Record, frozen=True):
    """Ordinals without an item; legitimate after a prune by the host."""

    place: int  #: of the item that follows, counted from 0
    first: int
    last: int


class ContextItems(Record, frozen=True, dict=True):
    """The items of one context by ordinal, column by column: ``ordinals[i]``, ``types[i]`` ... are one item.

    A context may hold tens of thousands, and most of them are never looked at. A *place* is an index into the
    columns, counted from 0 whatever the ordinals are.
    """

    ordinals: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    message_ids: tuple[MessageId | None, ...] = ()
    summary_ids: tuple[SummaryId | None, ...] = ()
    created: tuple[Timestamp, ...] = ()

    @classmethod
    def naming(cls, refs: Iterable[int | str | None], ordinals: Sequence[int] | None = None) -> ContextItems:
        """Items that name some messages and summaries; without *ordinals* they count from 0."""
        named = tuple(refs)
        return cls(
            tuple(range(len(named)) if ordinals is None else ordinals),
            tuple(["summary" if isinstance(ref, str) else "message" for ref in named]),
            tuple([MessageId(ref) if isinstance(ref, int) else None for ref in named]),
            tuple([SummaryId(ref) if isinstance(ref, str) else None for ref in named]),
            (Timestamp(""),) * len(named),
        )

    def __len__(self) -> int:
        return len(self.ordinals)

    def __iter__(self) -> Iterator[ContextItem]:
        columns = (self.ordinals, self.types, self.message_ids, self.summary_ids, self.created)
        return map(ContextItem, *columns)

    def item(self, place: int) -> ContextItem:
        """The item at a place; negative ones count from the end."""
        return ContextItem(
            ordinal=self.ordinals[place],
            item_type=self.types[place],
            message_id=self.message_ids[place],
            summary_id=self.summary_ids[place],
            created_at=self.created[place],
        )

    def named(self) -> Iterator[tuple[MessageId | None, SummaryId | None]]:
        """What each item names, as it is stored: only one of the two, unless it is damaged."""
        return zip(self.message_ids, self.summary_ids, strict=True)

    @cached_property
    def refs(self) -> tuple[ItemId, ...]:
        """What each item names."""
        return tuple([message if summary is None else summary for message, summary in self.named()])

    # -- walks -----------------------------------------------------------------------------------------------

    @cached_property
    def repeated(self) -> Mapping[ItemId, tuple[int, ...]]:
        """The places of what occurs more than once, by what it is."""
        return repeated(self.refs)

    @cached_property
    def abnormal(self) -> frozenset[int]:
        """The places of items whose ordinal is negative or huge."""
        if not self.ordinals or (min(self.ordinals) >= 0 and max(self.ordinals) < ABNORMAL_ORDINAL):
            return frozenset()
        normal = range(ABNORMAL_ORDINAL)
        return frozenset(place for place, ordinal in enumerate(self.ordinals) if ordinal not in normal)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The ordinals that are missing from 0 on; abnormal ones are no places, and open no gap."""
        if self.ordinals == tuple(range(len(self))):
            return ()
        found, expected = [], 0
        for place, ordinal in enumerate(self.ordinals):
            if place not in self.abnormal:
                if ordinal > expected:
                    found.append(Gap(place, expected, ordinal - 1))
                expected = ordinal + 1
        return tuple(found)

    @cached_property
    def mismatched(self) -> frozenset[int]:
        """The places of items whose type does not say what they name: one message, or one summary."""
        fitting = (("message", False, True), ("summary", True, False))
        found = zip(self.types, self.message_ids, self.summary_ids, strict=True)
        return frozenset(
            place
            for place, (kind, message, summary) in enumerate(found)
            if (kind, message is None, summary is None) not in fitting
        )


def repeated(values: Sequence[_Value]) -> dict[_Value, tuple[int, ...]]:
    """The places of what occurs in a column more than once, in order; None is nothing."""
    counts = Counter(values)
    if len(counts) == len(values):
        return {}
    found: dict[_Value, list[int]] = {
        value: [] for value, count in counts.items() if count > 1 and value is not None
    }
    for place, value in enumerate(values) if found else ():
        if value in found:
            found[value].append(place)
    return {value: tuple(places) for value, places in found.items()}
