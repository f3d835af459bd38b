"""What there is to be written again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lcm_core.operations.drafting.items import BatchItem, select_items
from lcm_core.operations.drafting.saved import SavedDrafts, unfinished
from lcm_core.operations.repair import CONTAMINATED, conversations_of, find_repair
from lcm_core.private_files import drafts_folder
from lcm_core.records import ConversationId, SummaryId
from lcm_core.store.database import Reader
from lcm_core.store.summaries import context_ordinals

from lcm_tui.drafts import Wanted, author_of, worth_keeping
from lcm_tui.session import Session
from lcm_tui.writing import Modelling


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to do."""

    items: tuple[BatchItem, ...]
    author: Modelling
    kept: tuple[SavedDrafts, ...]  #: earlier batches that were not brought to their end


async def find(session: Session, wanted: Wanted, reading: Callable[[ConversationId], None]) -> Found:
    """The summaries that are meant, who writes by the settings, and what an earlier batch has left.

    *reading* is called with each conversation that is looked through.

    Raises:
        ConfigurationError: provider, model, address and key do not go together.
    """
    author = await asyncio.to_thread(author_of, session.settings)
    kept = await asyncio.to_thread(unfinished, drafts_folder(), session.database.path, wanted.kind)
    items = await _items(session, wanted, reading)
    return Found(tuple(items), author, tuple(one for one in kept if _is_meant(one, wanted.conversation_id)))


def _is_meant(kept: SavedDrafts, where: ConversationId | None) -> bool:
    here = where is None or any(item.conversation_id == where for item in kept.items)
    return len(kept.items) > 1 and here and worth_keeping(kept.items)


async def _items(
    session: Session, wanted: Wanted, reading: Callable[[ConversationId], None]
) -> list[BatchItem]:
    """What is broken itself, before what is only contaminated."""
    read = session.read
    if wanted.summary_id is not None and wanted.conversation_id is not None:
        return await read(select_items, wanted.conversation_id, summary_ids=[wanted.summary_id], subtree=True)
    found: list[BatchItem] = []
    for one in await read(conversations_of, wanted.conversation_id):
        reading(one)
        found += (await read(find_repair, one)).all_items
    return sorted(found, key=lambda item: item.reason == CONTAMINATED)


async def summaries_in_contexts(reader: Reader, owners: Iterable[ConversationId]) -> frozenset[SummaryId]:
    """The summaries that are in the contexts of some conversations."""
    found: set[SummaryId] = set()
    for owner in owners:
        found.update(summary_id for summary_id, _ in await context_ordinals(reader, owner))
    return frozenset(found)
