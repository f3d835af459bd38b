"""Where a screen can lead: one record for each screen that another may open.

A screen opens a place (`CommandScreen.open`) and knows nothing of the screen that shows it;
`lcm_tui/registry.py` is the one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lcm_core.records import Conversation, ConversationId, LargeFile, SummaryId

if TYPE_CHECKING:  # no start pays for what belongs to one screen
    from lcm_core.assemble.compare import SentContext
    from lcm_core.change.journal import Operation
    from lcm_core.context_items import ItemId
    from lcm_core.host.listing import HostSession
    from lcm_core.store.assemblies import Snapshot

    from lcm_tui.changes.change import Change, Then
    from lcm_tui.drafts import Wanted, Work
    from lcm_tui.widgets.text import Document


@dataclass(frozen=True, slots=True)
class Messages:
    """A conversation, message by message, standing on a seq or at its end."""

    conversation: Conversation
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What the model sees of a conversation, standing on ``("summary", id)`` or ``("message", id)``."""

    conversation: Conversation
    select: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a context, whole; *wrapped*: as it is sent."""

    conversation: Conversation
    item: ItemId
    wrapped: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """A message as it was assembled, or the account of all of them; it stays as it is."""

    conversation: Conversation
    name: str
    document: Document
    item: ItemId
    seq: int | None
    note: str = ""  #: under what it was sent, by default the budget that is set


@dataclass(frozen=True, slots=True)
class Summaries:
    """The summary DAG of a conversation, standing on a summary."""

    conversation: Conversation
    select: SummaryId | None = None


@dataclass(frozen=True, slots=True)
class Previous:
    """The previous context that a summary was made with."""

    conversation: Conversation
    summary_id: SummaryId


@dataclass(frozen=True, slots=True)
class Files:
    """The large files of a conversation."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class FileText:
    """The stored text of a large file."""

    file: LargeFile


@dataclass(frozen=True, slots=True)
class Briefs:
    """The focus briefs of a conversation."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The contexts that an engine kept when it sent them."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class OneSnapshot:
    """One of them, rebuilt."""

    conversation: Conversation
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Side:
    """One of two contexts: read again when the file changes, as it was assembled once, or a snapshot."""

    conversation_id: ConversationId
    budget: int
    when: str = ""
    assembled: SentContext | None = None
    prompt: str = ""
    clamps: bool = True
    snapshot_id: str | None = None
    budget_of_snapshot: bool = False  #: the budget of the other side, which is a snapshot, holds


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two contexts, line by line."""

    left: Side
    right: Side


@dataclass(frozen=True, slots=True)
class Health:
    """What the checks find, standing on a conversation; *only*: in that one alone."""

    conversation: Conversation | None = None
    only: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """What lcm-tui changed; *only*: in that conversation alone."""

    conversation: Conversation | None = None
    only: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """What the engine keeps in the file for itself, standing on a conversation."""

    conversation: Conversation | None = None


@dataclass(frozen=True, slots=True)
class OneOperation:
    """One operation of the history, edit by edit."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do, to be applied there."""

    change: Change


@dataclass(frozen=True, slots=True)
class Import:
    """The import of a session that only the host knows."""

    session: HostSession


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deleting some conversations."""

    conversations: Sequence[ConversationId]
    then: Then


@dataclass(frozen=True, slots=True)
class TransplantTarget:
    """The choice of a conversation to copy a DAG into."""

    source: Conversation
    done: Callable[[ConversationId], object]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What would be compacted, pass by pass."""

    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Drafting:
    """A batch of summaries to be written again."""

    wanted: Wanted
    title: str


@dataclass(frozen=True, slots=True)
class Review:
    """A draft beside the text it would replace; *own*: the work was begun for it alone."""

    work: Work
    summary_id: SummaryId
    own: bool = False


@dataclass(frozen=True, slots=True)
class Editor:
    """A draft to be edited; *then* gets the text."""

    name: str
    text: str
    then: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Source:
    """A text that a draft was made from, standing on a place: *start* and *end* in characters."""

    title: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DiskSessionText:
    """The transcript of a session of the host, wherever it lies."""

    session: HostSession


@dataclass(frozen=True, slots=True)
class Search:
    """A search of every text of the database."""


Place: TypeAlias = (
    Messages
    | Search
    | Context
    | Item
    | Sent
    | Summaries
    | Previous
    | Files
    | FileText
    | Briefs
    | Snapshots
    | OneSnapshot
    | Comparison
    | Health
    | History
    | Engine
    | OneOperation
    | Preview
    | Import
    | Deletion
    | TransplantTarget
    | Compaction
    | Drafting
    | Review
    | Editor
    | Source
    | DiskSessionText
)
