"""Where a screen can lead: a record for each screen that another may open, and the places that ids name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId, FileId, LargeFile, SummaryId
from lcm_core.base.values import Record
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

if TYPE_CHECKING:
    from lcm_core.base.records import ItemId, MessageId
    from lcm_core.change.journal import Operation
    from lcm_core.engine.sent import SentContext
    from lcm_core.operations.past_point import Point
    from lcm_core.store.listing import Snapshot
    from lcm_host.sessions import HostSession

    from lcm_tui.flows.change import Change, Then
    from lcm_tui.flows.drafts import Wanted, Work
    from lcm_tui.flows.focus import BriefOnScreen
    from lcm_tui.kit.spans import Document


# -- places ----------------------------------------------------------------------------------------------
# A screen opens a place (`CommandScreen.open`) and knows nothing of the screen that shows it;
# `lcm_tui/app.py` is the one that does.


class Place(Record, frozen=True):
    """What another screen shows; the fields are what that screen is made with."""


class Messages(Place, frozen=True):
    """A conversation, message by message, standing on a seq or at its end; *find*: on these words in it."""

    conversation: Conversation
    seq: int | None = None
    find: str = ""


class Context(Place, frozen=True):
    """What the model sees of a conversation, standing on ``("summary", id)`` or ``("message", id)``."""

    conversation: Conversation
    select: tuple[str, ...] | None = None


class Item(Place, frozen=True):
    """One item of a context, whole; *wrapped*: as it is sent."""

    conversation: Conversation
    item: ItemId
    wrapped: bool = False
    fate: Document = ()  #: whether the model receives it, and if not, why; empty: not known


class Sent(Place, frozen=True):
    """A message as it was assembled, or the account of all of them; it stays as it is."""

    conversation: Conversation
    name: str
    document: Document
    item: ItemId
    seq: int | None
    note: str  #: under what it was sent


class Summaries(Place, frozen=True):
    """The summary DAG of a conversation, standing on a summary; *find*: on these words in its text."""

    conversation: Conversation
    select: SummaryId | None = None
    find: str = ""


class Expansion(Place, frozen=True):
    """A summary read down level by level."""

    conversation: Conversation
    summary_id: SummaryId


class Earlier(Place, frozen=True):
    """A place of one conversation as it was at a point of its past."""

    place: OfThen
    point: Point


class Previous(Place, frozen=True):
    """The previous context that a summary was made with."""

    conversation: Conversation
    summary_id: SummaryId


class Trace(Place, frozen=True):
    """The lines of a summary, each with the messages that it may come from; standing on a line."""

    conversation: Conversation
    summary_id: SummaryId
    line: str = ""  #: empty or none of them: the first that a message says
    message_id: MessageId | None = None  #: the one that led there, which stands first


class MessageTrace(Place, frozen=True):
    """The summaries made from a message, each with the line that tells of it."""

    conversation: Conversation
    message_id: MessageId


class Files(Place, frozen=True):
    """The large files of a conversation, standing on one."""

    conversation: Conversation
    select: FileId | None = None


class FileText(Place, frozen=True):
    """The stored text of a large file; *find*: on these words, in it or in what is known of the file."""

    file: LargeFile
    find: str = ""


class Briefs(Place, frozen=True):
    """The focus briefs of a conversation, standing on one; *find*: on these words in its text."""

    conversation: Conversation
    select: str | None = None
    find: str = ""


class Snapshots(Place, frozen=True):
    """The contexts that an engine kept when it sent them."""

    conversation: Conversation


class OneSnapshot(Place, frozen=True):
    """One of them, rebuilt."""

    conversation: Conversation
    snapshot: Snapshot


class Side(NamedTuple):
    """One of two contexts: read again when the file changes, assembled once, a snapshot, or at a point."""

    conversation_id: ConversationId
    budget: int
    when: str = ""
    assembled: SentContext | None = None
    prompt: str = ""
    clamps: bool = True
    snapshot_id: str | None = None
    at: str = ""  #: the point at which it is read, as it is typed; empty: now
    budget_of_snapshot: bool = False  #: the budget of the other side, which is a snapshot, holds


class Comparison(Place, frozen=True):
    """Two contexts, line by line."""

    left: Side
    right: Side


class PreviousComparison(Place, frozen=True):
    """The previous context of a summary as it was given, and what a rewrite would be given, line by line."""

    summary_id: SummaryId


class CodexComparison(Place, frozen=True):
    """A conversation and the Codex session that it was held in, line by line."""

    conversation: Conversation


class Health(Place, frozen=True):
    """What the checks find, in the database or, with *only*, in one conversation."""

    conversation: Conversation | None = None
    only: bool = False


class History(Place, frozen=True):
    """What lcm-tui changed; *only*: in that conversation alone."""

    conversation: Conversation | None = None
    only: bool = False


class Engine(Place, frozen=True):
    """What the engine keeps in the file for itself, standing on a conversation."""

    conversation: Conversation | None = None


class Disk(Place, frozen=True):
    """What the database takes on the disk."""


class OneOperation(Place, frozen=True):
    """One operation of the history, edit by edit."""

    operation: Operation


class Preview(Place, frozen=True):
    """What a change would do, to be applied there."""

    change: Change


class Import(Place, frozen=True):
    """The import of a session that only the host knows."""

    session: HostSession
    then: Then | None = None


class Deletion(Place, frozen=True):
    """Deleting some conversations."""

    conversations: Sequence[ConversationId]
    then: Callable[[int], object]  #: gets the bytes that the file can give back now


class TransplantTarget(Place, frozen=True):
    """The choice of a conversation to copy a DAG into."""

    source: Conversation
    done: Callable[[ConversationId], object]


class Compaction(Place, frozen=True):
    """What would be compacted, pass by pass."""

    conversation: Conversation
    batch: str = ""  #: that the passes become a part of; empty: one of their own


class BriefDraft(Place, frozen=True):
    """A focus brief on its way: swept for, written, previewed."""

    work: BriefOnScreen


class Drafting(Place, frozen=True):
    """A batch of summaries to be written again, standing on one."""

    wanted: Wanted
    title: str
    select: SummaryId | None = None


class Review(Place, frozen=True):
    """A draft beside the text it would replace; *own*: the work was begun for it alone."""

    work: Work
    summary_id: SummaryId
    own: bool = False


class Editor(Place, frozen=True):
    """A draft to be edited; *then* gets the text."""

    name: str
    text: str
    then: Callable[[str], object]


class Source(Place, frozen=True):
    """A text that a draft was made from, standing on a place: *start* and *end* in characters."""

    title: str
    text: str
    start: int
    end: int


class DiskSessionText(Place, frozen=True):
    """The transcript of a session of the host, wherever it lies."""

    session: HostSession


class Search(Place, frozen=True):
    """A search of every text of the database."""


#: What can be looked at as it was.
OfThen: TypeAlias = Context | Item | Summaries | Previous


# -- places by id ----------------------------------------------------------------------------------------
# Where an id leads that a text or a row shows: a summary, message, operation, snapshot, file or brief.
#
# What `:` finds by its id and what a click on an id opens are found here.

#: What is written around an id: messages are shown as ``m47`` or ``msg#47``, citations end in a hash.
_AROUND: Final = re.compile(r"^(?:msg#|m(?=[0-9]))|@.*|…$")


def is_id_of(name: str, own: str) -> bool:
    """Whether a *name*, as a row or a text writes it, maybe shortened, is the id *own*."""
    name, own = _AROUND.sub("", name), _AROUND.sub("", own)
    return own == name if name.isdecimal() else own.startswith(name)


async def message_named(reader: Reader, message_id: int) -> tuple[Conversation, int] | None:
    """The conversation of a message, and its seq there."""
    from lcm_core.store.messages import get_message

    try:
        entry = await get_message(reader, message_id)
        return await get_conversation(reader, entry.message.conversation_id), entry.message.seq
    except NotFoundError:
        return None


async def summaries_named(reader: Reader, begins: str, most: int) -> list[tuple[Conversation, SummaryId]]:
    """The summaries whose ids begin so, with their conversations; *most* at most."""
    from lcm_core.store.listing import summary_ids_beginning
    from lcm_core.store.summaries import summaries_in

    ids = await summary_ids_beginning(reader, begins, most)
    found = await summaries_in(reader, ids)
    return [(await get_conversation(reader, one.conversation_id), one.summary_id) for one in found]


async def place_named(reader: Reader, name: str) -> Place | None:
    """What an id names, which may be shortened (``sum_4c4b…``); None: nothing, or not one thing.

    Raises:
        DatabaseError: it cannot be read.
    """
    begins = name.rstrip("…")
    try:
        match begins.partition("_"):
            case ("sum", "_", _):
                found = await summaries_named(reader, begins, 2)
                exact = [one for one in found if one[1] == begins] or found
                return Summaries(exact[0][0], select=exact[0][1]) if len(exact) == 1 else None
            case ("op", "_", _):
                return await _operation(reader, begins)
            case ("asm", "_", _):
                return await _snapshot(reader, begins)
            case ("file", "_", _):
                from lcm_core.store.messages import get_file

                return FileText(await get_file(reader, begins))
            case ("focus", "_", _):
                from lcm_core.store.focus import briefs_beginning

                briefs = await briefs_beginning(reader, begins, 2)
                if len(briefs) != 1:
                    return None
                return Briefs(await get_conversation(reader, briefs[0][1]), briefs[0][0])
            case _:
                message = await message_named(reader, int(begins.lstrip("msg#")))
                return None if message is None else Messages(message[0], seq=message[1])
    except NotFoundError:
        return None


async def _operation(reader: Reader, begins: str) -> Place | None:
    from lcm_core.change.journal import beginning, find

    ids = await reader.run(lambda rows: beginning(rows, begins, 2))
    one = begins if begins in ids else ids[0] if len(ids) == 1 else None
    found = None if one is None else await reader.run(find, one)
    return None if found is None else OneOperation(found)


async def _snapshot(reader: Reader, name: str) -> Place | None:
    from lcm_core.store.listing import get_snapshot, owner_of_snapshot

    owner = await owner_of_snapshot(reader, name)
    if owner is None:
        return None
    conversation = await get_conversation(reader, owner)
    return OneSnapshot(conversation, await get_snapshot(reader, conversation.conversation_id, name))
