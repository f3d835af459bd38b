"""Where an id leads that a text or a row shows: a summary, message, operation, snapshot, file or brief.

What `:` finds by its id and what a click on an id opens are found here.
"""

from __future__ import annotations

import re
from typing import Final

from lcm_core.errors import NotFoundError
from lcm_core.records import Conversation, SummaryId
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

from lcm_tui import places

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


async def place_named(reader: Reader, name: str) -> places.Place | None:
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
                return places.Summaries(exact[0][0], select=exact[0][1]) if len(exact) == 1 else None
            case ("op", "_", _):
                return await _operation(reader, begins)
            case ("asm", "_", _):
                return await _snapshot(reader, begins)
            case ("file", "_", _):
                from lcm_core.store.files import get_file

                return places.FileText(await get_file(reader, begins))
            case ("focus", "_", _):
                from lcm_core.store.focus import briefs_beginning

                briefs = await briefs_beginning(reader, begins, 2)
                if len(briefs) != 1:
                    return None
                return places.Briefs(await get_conversation(reader, briefs[0][1]), briefs[0][0])
            case _:
                message = await message_named(reader, int(begins.lstrip("msg#")))
                return None if message is None else places.Messages(message[0], seq=message[1])
    except NotFoundError:
        return None


async def _operation(reader: Reader, begins: str) -> places.Place | None:
    from lcm_core.change.journal import beginning, find

    ids = await reader.run(lambda rows: beginning(rows, begins, 2))
    one = begins if begins in ids else ids[0] if len(ids) == 1 else None
    found = None if one is None else await reader.run(find, one)
    return None if found is None else places.OneOperation(found)


async def _snapshot(reader: Reader, name: str) -> places.Place | None:
    from lcm_core.store.assemblies import get_snapshot, owner_of_snapshot

    owner = await owner_of_snapshot(reader, name)
    if owner is None:
        return None
    conversation = await get_conversation(reader, owner)
    return places.OneSnapshot(conversation, await get_snapshot(reader, conversation.conversation_id, name))
