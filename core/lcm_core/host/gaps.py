"""What the host's transcripts still have of the gaps that the engine has noted.

Rules: docs/engine/cursors.md, "Gaps". A gap whose transcript is not at hand is listed all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lcm_core.errors import LcmError
from lcm_core.host.entries import SessionEntry
from lcm_core.host.ingestion import Said, kept_of, turns_of
from lcm_core.host.listing import HostSession, HotPlace
from lcm_core.host.transcripts import read_page
from lcm_core.records import ConversationId
from lcm_core.settings import EngineSettings
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import GapRow, gap_rows
from lcm_core.store.ownership import values_taken

_ENTRY: Final = "transcript_entry_id"
#: Entries of the host's table that are read at a time, and characters of a text that are kept.
_PAGE: Final = 2_000
_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap, and the entries of it that the host still has, no message holds and the engine would store."""

    gap: GapRow
    session: HostSession | None  #: whose transcript it is; None: not at hand
    entries: tuple[SessionEntry, ...] = ()  #: messages of the host, in their order
    problem: str | None = None  #: why its transcript could not be read

    @property
    def is_filled(self) -> bool:
        """Whether the host has its entries, and the engine lacks none of them that it would store."""
        return self.session is not None and self.problem is None and not self.entries


async def find_gaps(
    reader: Reader,
    sessions: Sequence[HostSession],
    settings: EngineSettings | None = None,
    conversation_id: ConversationId | None = None,
) -> list[FoundGap]:
    """The gaps of a conversation or of all, by conversation and place; none where none are noted."""
    gaps = await gap_rows(reader, conversation_id)
    if not gaps:
        return []
    by_id = {one.session_id: one for one in sessions}
    found: list[FoundGap] = []
    for owner in dict.fromkeys(gap.conversation_id for gap in gaps):
        several = [gap for gap in gaps if gap.conversation_id == owner]
        session = await _session_of(reader, owner, by_id)
        if session is None:
            found += (FoundGap(gap, None) for gap in several)
            continue
        try:
            said = await asyncio.to_thread(_path, session)
        except LcmError as error:
            found += (FoundGap(gap, session, problem=error.message) for gap in several)
            continue
        path, kept = [one.entry for one in said], frozenset(_kept(said, settings)) - {""}
        found += [await _found(reader, gap, session, path, kept) for gap in several]
    return found


def _path(session: HostSession) -> list[Said]:
    """The path of a session with the first words of each message; blocks."""
    if not isinstance(session.place, HotPlace):  # a page of a stream would be read through to find the next
        return list(map(_shortened, read_page(session).entries))
    found: list[Said] = []
    before: int | None = None
    while before != 0:
        page = read_page(session, limit=_PAGE, before=before)
        found[:0] = map(_shortened, page.entries)
        before = page.start
    return found


def _shortened(entry: SessionEntry) -> Said:
    text = entry.text or ""
    return Said.of(entry if entry.text is None else replace(entry, text=text[:_CHARACTERS]), text)


def _kept(path: Iterable[Said], settings: EngineSettings | None) -> list[str]:
    """The ids of the entries that the engine would store."""
    turns = turns_of(one for one in path if one.entry.is_storable)
    return [one.entry.entry_id or "" for turn in turns for one in kept_of(turn, settings)]


async def _session_of(
    reader: Reader, owner: ConversationId, by_id: Mapping[str, HostSession]
) -> HostSession | None:
    try:
        conversation = await get_conversation(reader, owner)
    except LcmError:  # a row of a conversation that is gone
        return None
    return by_id.get(conversation.session_id)


async def _found(
    reader: Reader, gap: GapRow, session: HostSession, path: Sequence[SessionEntry], kept: Collection[str]
) -> FoundGap:
    places = {one.entry_id: place for place, one in enumerate(path) if one.entry_id}
    first, last = places.get(gap.first_entry_id), places.get(gap.last_entry_id)
    if first is None or last is None or first > last:
        missing = gap.first_entry_id if first is None else gap.last_entry_id
        return FoundGap(gap, session, problem=f"the transcript no longer has entry {missing} at its place")
    within = [one for one in path[first : last + 1] if one.entry_id in kept]
    stored = await values_taken(reader, gap.conversation_id, _ENTRY, [one.entry_id or "" for one in within])
    return FoundGap(gap, session, tuple(one for one in within if one.entry_id not in stored))
