"""What may not be stored as it comes: what is there already, and what looks like a replay.

Source: docs/engine/ingest.md, "Repeated messages".
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lcm_core.errors import RefusedError
from lcm_core.ingest.identity import identity_of
from lcm_core.ingest.jsonl import Json, JsonObject, json_value
from lcm_core.ingest.parts import CALL_IDS
from lcm_core.ingest.payloads import Payload, same_bytes
from lcm_core.ingest.stored import StoredMessage
from lcm_core.javascript import js_json
from lcm_core.operations.appending import Session
from lcm_core.records import ConversationId
from lcm_core.store.database import Reader
from lcm_core.store.ingested import (
    StoredParts,
    answers_to,
    earlier_texts,
    find_holding,
    messages_with_parts,
    newest_rows,
    rows_in_second,
    stored_paths,
)

#: Names of the members of a block by which it is known again.
_IDS: Final = ("id", "call_id", *CALL_IDS)
#: What the metadata says of the model that answered.
_IDENTITY: Final = frozenset({"modelProvider", "modelApi", "modelId", "responseModelId"})
_FILE_ID: Final = re.compile(r"file_[0-9a-f]{16}")


async def _owner(reader: Reader, session: Session) -> ConversationId | None:
    holding = await find_holding(reader, session.session_id, session.session_key)
    return None if holding is None else ConversationId(int(str(holding.row["conversation_id"])))


async def overlap_of(reader: Reader, session: Session, stored: Sequence[StoredMessage]) -> int:
    """How many of the messages that a turn begins with are the newest stored ones.

    They are the same by role, text and time; one that its host gave no time by role and text.
    """
    owner = await _owner(reader, session)
    if owner is None or not stored:
        return 0
    rows = await newest_rows(reader, owner, len(stored))
    for length in range(min(len(stored), len(rows)), 0, -1):
        pairs = zip(stored[:length], rows[-length:], strict=True)
        if all(
            (one.role, one.content) == (row.role, row.content) and one.created_at in (None, row.created_at)
            for one, row in pairs
        ):
            return length
    return 0


# -- the very same message -------------------------------------------------------------------------------


async def without_repeated(
    reader: Reader, session: Session, stored: Sequence[StoredMessage]
) -> list[StoredMessage]:
    """Those of some messages that are not stored already with the same blocks, recognised by their ids."""
    owner = await _owner(reader, session)
    named = [one for one in stored if _is_named(one)]
    if owner is None or not named:
        return list(stored)
    hashes = [one.identity for one in named]
    held = await messages_with_parts(reader, owner, hashes)
    fresh = []
    for one in stored:
        if one in named:
            rows = [row for row in held if row.identity == one.identity]
            if any(_is_same(one, row) for row in rows) or await _is_same_answer(reader, owner, one):
                continue
        fresh.append(one)
    return fresh


def _is_named(message: StoredMessage) -> bool:
    return any(_ids(part.noted.get("raw")) or part.noted.get("toolCallId") for part in message.parts)


def _ids(raw: Json) -> set[str]:
    if not isinstance(raw, dict):
        return set()
    return {value for name in _IDS if isinstance(value := raw.get(name), str) and value}


def _is_same(message: StoredMessage, row: StoredParts) -> bool:
    if row.role != message.role or len(row.metadata) != len(message.parts):
        return False
    ours, theirs = [part.noted for part in message.parts], [_object(text) for text in row.metadata]
    if all(_ids(noted.get("raw")) for noted in ours):
        return [_raw(one) for one in ours] == [_raw(one) for one in theirs]
    return [_without_identity(one) for one in ours] == [_without_identity(one) for one in theirs]


def _raw(noted: JsonObject) -> str:
    return js_json(noted.get("raw"))


def _without_identity(noted: JsonObject) -> str:
    return js_json({name: value for name, value in noted.items() if name not in _IDENTITY})


def _object(text: str | None) -> JsonObject:
    try:
        value = json_value(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


async def _is_same_answer(reader: Reader, owner: ConversationId, message: StoredMessage) -> bool:
    """Whether a large answer of a tool is stored with the same text in its file, under another file's id."""
    if message.role != "tool" or not message.payloads:
        return False
    calls = {part.tool_call_id for part in message.parts if part.tool_call_id}
    for row in await answers_to(reader, owner, sorted(calls)):
        if len(row.metadata) != len(message.parts):
            continue
        theirs = "\n".join(text or "" for text in row.metadata)
        ours = "\n".join(part.metadata for part in message.parts)
        if _FILE_ID.sub("", ours) != _FILE_ID.sub("", theirs):
            continue
        paths = await stored_paths(reader, list(dict.fromkeys(_FILE_ID.findall(theirs))))
        if await asyncio.to_thread(_are_same, message.payloads, list(paths)):
            return True
    return False


def _are_same(payloads: Sequence[Payload], paths: Sequence[str]) -> bool:
    return len(payloads) == len(paths) and all(
        same_bytes(Path(path), payload.data) for payload, path in zip(payloads, paths, strict=True)
    )


# -- a flood ---------------------------------------------------------------------------------------------


async def refuse_flood(
    reader: Reader, session: Session, fresh: Sequence[StoredMessage], *, now: str, users: int, others: int
) -> None:
    """Refuse a batch that brings back too much of what is stored with an earlier time.

    Messages of users are counted by their second, all others by text and second; *users* and *others* are how
    many of them are one too many. *now* is the time of messages without one.

    Raises:
        RefusedError: it looks like a replay.
    """
    owner = await _owner(reader, session)
    told = [one for one in fresh if one.entry_id is None and one.content]
    if owner is None or not told:
        return
    earlier = await earlier_texts(reader, owner, [one.identity for one in told])
    counts: Counter[tuple[str, ...]] = Counter()
    for one in told:
        said_at = one.created_at or now
        if (first := earlier.get((one.role, one.content))) is not None and first < said_at:
            counts[_group(one.role, one.content, said_at)] += 1
    if not counts:
        return
    seconds = {group[-1] for group in counts}
    for row in await rows_in_second(reader, owner, sorted(seconds)):
        group = _group(row.role, row.content, row.created_at)
        first = earlier.get((row.role, row.content)) or await _first(reader, owner, row.role, row.content)
        if group in counts and row.content and first is not None and first < row.created_at:
            counts[group] += 1
    for group, count in counts.items():
        if count >= (users if group[0] == "user" else others):
            raise RefusedError(
                f"Refused a batch that looks like a replay: {count:,} messages of the time {group[-1]} are "
                f"stored already in conversation {owner} with an earlier one. Nothing was stored.",
                code="REPLAY_REFUSED",
            )


def _group(role: str, content: str, second: str) -> tuple[str, ...]:
    return (role, second) if role == "user" else (role, content, second)


async def _first(reader: Reader, owner: ConversationId, role: str, content: str) -> str | None:
    found = await earlier_texts(reader, owner, [identity_of(role, content)])
    return found.get((role, content))
