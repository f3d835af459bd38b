"""What a transcript or a turn has and a conversation lacks (docs/spec/ingest.md, "Later reads").

Everything here reads; what follows from it is committed by `lcm_host.appending`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.javascript import Json, JsonObject, js_json, parsed_object, well_formed
from lcm_core.base.records import ConversationId
from lcm_core.base.values import Record
from lcm_core.engine.rules import IngestRules
from lcm_core.engine.sessions import stored_role
from lcm_core.engine.stored_parts import CALL_IDS, entry_hash, identity_of, message_text, says_nothing
from lcm_core.store.database import Reader
from lcm_core.store.ingested import (
    Holding,
    RowText,
    StoredParts,
    answers_to,
    earlier_texts,
    find_holding,
    known_entry_ids,
    messages_with_parts,
    newest_row,
    newest_rows,
    recent_without_entry,
    rows_in_second,
    rows_of_hash,
    stored_paths,
    tail_messages,
    text_counts,
)
from lcm_core.store.ownership import values_taken

from lcm_host.appending import Adoption, Session
from lcm_host.messages import (
    HostEntry,
    HostFile,
    StoredMessage,
    entry_id_of,
    holds_message,
    read_messages,
    sender_metadata,
    store_message,
)
from lcm_host.payloads import Payload, same_bytes

# -- what is new in a transcript -------------------------------------------------------------------------
# Entry ids prove it where they are recorded. Elsewhere the newest stored messages are looked for in the
# transcript by role and text, with as many of their predecessors as agree.

#: Stored messages that are compared at most.
MOST_COMPARED: Final = 64
#: Messages in a row that must agree, when there are so many.
_RUN: Final = 3
_FILE_ID: Final = re.compile(r"file_[0-9a-f]{16}")


class AnchorProof(StrEnum):
    """By what the place was found."""

    EMPTY = "nothing is stored yet"
    ENTRY_ID = "entry ids"
    CONTENT = "role and text"
    NONE = "none"


class Anchor(Record, frozen=True):
    """Where the new part of a transcript begins."""

    start: int  #: index of the first new message
    proof: AnchorProof
    left_out: int = 0  #: messages before it that are not stored: they would come behind newer ones


def comparable(role: str, content: str) -> str:
    """What is compared: the ids of files are minted anew whenever a message is stored."""
    return identity_of(role, _FILE_ID.sub("file_", content))


def anchor_by_entry(
    ids: Sequence[str | None], known: Collection[str], checkpoint: object = None
) -> Anchor | None:
    """Behind the last message whose entry is stored, or the one of a *checkpoint*; None when none is."""
    last = max((at for at, entry_id in enumerate(ids) if entry_id in known), default=None)
    if last is None:
        return None
    last = max(
        (at for at, entry_id in enumerate(ids) if checkpoint is not None and entry_id == checkpoint),
        default=last,
    )
    left_out = sum(1 for entry_id in ids[: last + 1] if entry_id not in known)
    return Anchor(last + 1, AnchorProof.ENTRY_ID, left_out)


def anchor_by_content(transcript: Sequence[str], stored: Sequence[str]) -> Anchor | None:
    """Behind the place at which the newest *stored* messages are in the transcript.

    Both are sequences of `comparable`, oldest first. None when no place has as many agreeing predecessors as
    are asked for, or several have equally many.
    """
    if not stored:
        return None
    runs = {
        at: _run(transcript, stored, at) for at, identity in enumerate(transcript) if identity == stored[-1]
    }
    longest = max(runs.values(), default=0)
    best = [at for at, run in runs.items() if run == longest]
    if longest < min(_RUN, len(stored)) or len(best) != 1:
        return None
    return Anchor(best[0] + 1, AnchorProof.CONTENT)


def anchor_by_counts(
    transcript: Sequence[tuple[str, str]], stored: Mapping[tuple[str, str], int]
) -> int | None:
    """Behind the newest message of which the transcript has as many up to there as are stored.

    *transcript* holds role and text of every message, *stored* how many rows have a role and text.
    """
    seen: Counter[tuple[str, str]] = Counter()
    anchor = None
    for at, key in enumerate(transcript):
        seen[key] += 1
        if seen[key] == stored.get(key):
            anchor = at + 1
    return anchor


def _run(transcript: Sequence[str], stored: Sequence[str], at: int) -> int:
    """How many messages agree, going back from the newest stored one at *at*."""
    length = 0
    while length < min(at + 1, len(stored)) and transcript[at - length] == stored[-1 - length]:
        length += 1
    return length


def import_cap(stored: int) -> int:
    """How many messages the engine imports at most where no entry id proves that they are new.

    Source: docs/spec/ingest.md, "Later reads".
    """
    return max(stored // 5, 50)


#: Rows without an entry id that are compared with what was appended to a transcript.
_RECENT: Final = 64


class Reconciled(Record, frozen=True):
    """What a transcript adds to a conversation."""

    proof: AnchorProof
    new: tuple[HostEntry, ...] = ()
    adopted: tuple[Adoption, ...] = ()
    left_out: int = 0  #: entries before the anchor that are not stored
    reason: str | None = None  #: why something that looks new is not imported
    moves_on: bool = True  #: the checkpoint follows; else the next call looks from the same place


def is_up_to_date(holding: Holding | None, path: Path, size: int, modified_ms: int) -> bool:
    """Whether the checkpoint was made of the very file."""
    state = None if holding is None else holding.checkpoint
    return state is not None and (
        state.get("session_file_path") == str(path.absolute())
        and state.get("last_seen_size") == size
        and state.get("last_seen_mtime_ms") == modified_ms
    )


async def reconcile(reader: Reader, file: HostFile, holding: Holding) -> Reconciled:
    """What *file* adds to a conversation that holds messages."""
    owner = holding.conversation_id
    state = dict(holding.checkpoint or {})
    same_path = state.get("session_file_path") == str(file.path.absolute())
    if same_path and (found := await _appended(reader, owner, file, state)) is not None:
        return found
    shrank = same_path and file.stamp.size < int(state.get("last_processed_offset") or 0)
    known = await known_entry_ids(reader, owner)
    ids = [entry_id_of(one) for one in file.messages]
    read_to = state.get("last_processed_entry_id") if same_path else None
    if all(ids) and (anchor := anchor_by_entry(ids, known, read_to)) is not None:
        return await _by_entries(reader, owner, file, anchor, known, holding.messages)
    texts = await asyncio.to_thread(_texts, file, file.messages)
    counts = await text_counts(reader, owner)
    start = anchor_by_counts([text.key for text in texts], counts)
    if start is None and same_path and not shrank:
        hashes = [text.entry_hash for text in texts]
        wanted = str(state.get("last_processed_entry_hash"))
        start = hashes.index(wanted) + 1 if hashes.count(wanted) == 1 else None
    if start is not None:
        return await _by_texts(reader, owner, file, start, holding.messages)
    if holding.checkpoint is None or (same_path and not shrank):
        return Reconciled(AnchorProof.NONE, reason=_UNPROVEN if file.on_path else None, moves_on=False)
    return _new_epoch(file, texts, counts, known, holding)


_UNPROVEN: Final = "the transcript contains no stored message"


def _capped(new: int, cap: int) -> str:
    return f"{new:,} messages would be new by their text alone, and {cap:,} are believed"


# -- what was appended -----------------------------------------------------------------------------------


async def _appended(
    reader: Reader,
    owner: ConversationId,
    file: HostFile,
    state: Mapping[str, object],
) -> Reconciled | None:
    """All messages behind the place that was read; None when it is not proven that nothing else changed."""
    offset, size = state.get("last_processed_offset"), state.get("last_seen_size")
    if not isinstance(offset, int) or not isinstance(size, int):
        return None
    modified = state.get("last_seen_mtime_ms")
    if file.stamp.size <= size or (isinstance(modified, int) and file.stamp.modified_ns // 10**6 < modified):
        return None
    newest, wanted = await newest_row(reader, owner), state.get("last_processed_entry_hash")
    last = next((one for one in reversed(file.plain) if one.is_message and one.end <= offset), None)
    if last is None or newest is None or wanted != entry_hash(newest.role, newest.content):
        return None
    behind = tuple(one for one in file.plain if one.offset >= offset)
    if any(at >= offset for at in file.plain_bad_at):
        return None
    texts = await asyncio.to_thread(_texts, file, [last, *(one for one in behind if one.is_message)])
    if texts[0].entry_hash != wanted:
        return None
    ids = [node for one in behind if (node := entry_id_of(one)) is not None]
    if await values_taken(reader, owner, "transcript_entry_id", ids):
        return None
    loose = {(row.role, row.content) for row in await recent_without_entry(reader, owner, _RECENT)}
    if any(text.key in loose and not says_nothing(text.content) for text in texts[1:]):
        return None
    allowed = {None, newest.entry_id, *(one.node for one in behind)}
    if any(one.node is not None and one.parent not in allowed for one in behind):
        return None
    new = tuple(one for one in behind if one.is_message)
    return Reconciled(AnchorProof.ENTRY_ID if newest.entry_id is not None else AnchorProof.CONTENT, new)


# -- by entry ids ----------------------------------------------------------------------------------------


async def _by_entries(
    reader: Reader,
    owner: ConversationId,
    file: HostFile,
    anchor: Anchor,
    known: frozenset[str],
    rows: int,
) -> Reconciled:
    unknown = [one for one in file.messages[anchor.start :] if entry_id_of(one) not in known]
    adopted, new = await _match(reader, owner, file, unknown, known)
    cap = import_cap(rows)
    return Reconciled(
        anchor.proof, tuple(new[:cap]), tuple(adopted), anchor.left_out, None, moves_on=len(new) <= cap
    )


async def _match(
    reader: Reader,
    owner: ConversationId,
    file: HostFile,
    unknown: Sequence[HostEntry],
    known: frozenset[str],
) -> tuple[list[Adoption], list[HostEntry]]:
    """Which of some entries are rows already, and which are new."""
    if not unknown:
        return [], []
    texts = await asyncio.to_thread(_texts, file, unknown)
    rows: dict[tuple[str, str], list[RowText]] = {}
    for row in await rows_of_hash(reader, owner, [text.identity for text in texts]):
        rows.setdefault((row.role, row.content), []).append(row)
    stored_times = await asyncio.to_thread(_stored_times, file, known, rows)
    adopted: list[Adoption] = []
    new: list[HostEntry] = []
    for entry, text in zip(unknown, texts, strict=True):
        held = rows.get(text.key, [])
        loose = next((row for row in held if row.entry_id is None), None)
        left = next((row for row in held if row.entry_id not in file.nodes_on_path), None)
        same = loose or left
        entry_id = entry_id_of(entry)
        if same is not None and entry_id is not None:
            held.remove(same)
            adopted.append(Adoption(same, entry_id, text.sender))
        elif (text.identity, text.timestamp) not in stored_times:
            new.append(entry)
    return adopted, new


def _stored_times(
    file: HostFile, known: frozenset[str], rows: dict[tuple[str, str], list[RowText]]
) -> set[tuple[str, str]]:
    """Hash and inner time of the entries on the path that are stored with one of some texts."""
    ids = {row.entry_id for held in rows.values() for row in held if row.entry_id in known}
    entries = [one for one in file.messages if entry_id_of(one) in ids]
    return {(text.identity, text.timestamp) for text in _texts(file, entries) if text.timestamp}


# -- by texts --------------------------------------------------------------------------------------------


async def _by_texts(
    reader: Reader, owner: ConversationId, file: HostFile, start: int, rows: int
) -> Reconciled:
    new, cap = file.messages[start:], import_cap(rows)
    if len(new) > cap:
        return Reconciled(AnchorProof.CONTENT, reason=_capped(len(new), cap), moves_on=False)
    return Reconciled(AnchorProof.CONTENT, new)


def _new_epoch(
    file: HostFile,
    texts: Sequence[_Text],
    counts: dict[tuple[str, str], int],
    known: frozenset[str],
    holding: Holding,
) -> Reconciled:
    """Another file, or one that was cut: new when none of its messages is stored."""
    messages = file.messages
    ids = {entry_id_of(one) for one in messages}
    if known & ids or any(text.key in counts for text in texts):
        return Reconciled(AnchorProof.NONE, reason=_UNPROVEN, moves_on=False)
    cap = import_cap(holding.messages)
    if len(messages) > cap and None in ids:
        return Reconciled(AnchorProof.NONE, reason=_capped(len(messages), cap), moves_on=False)
    return Reconciled(AnchorProof.CONTENT, messages[:cap], moves_on=len(messages) <= cap)


# -- texts -----------------------------------------------------------------------------------------------


class _Text(Record, frozen=True):
    """What an entry would be stored as, as far as it is compared."""

    role: str
    content: str
    timestamp: str  #: of the message itself, as it is written; empty when it has none
    sender: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.role, self.content

    @property
    def identity(self) -> str:
        return identity_of(self.role, self.content)

    @property
    def entry_hash(self) -> str:
        return entry_hash(self.role, self.content)


def _texts(file: HostFile, entries: Iterable[HostEntry]) -> list[_Text]:
    return [text_of_message(host.message) for host in read_messages(file, list(entries))]


def text_of_message(message: JsonObject) -> _Text:
    """What is compared of a message of the host."""
    given: Json = message.get("timestamp")
    assert holds_message(message)
    return _Text(
        stored_role(message) or "",
        well_formed(message_text(message)),
        "" if given is None else str(given),
        sender_metadata(message),
    )


# -- where an import goes on ----------------------------------------------------------------------------


async def anchor_of(reader: Reader, holding: Holding | None, file: HostFile, rules: IngestRules) -> Anchor:
    """From where on a transcript is new, by what its conversation holds."""
    owner = None if holding is None else holding.conversation_id
    tail = [] if owner is None else await tail_messages(reader, owner, MOST_COMPARED)
    if owner is None or not tail:
        return Anchor(0, AnchorProof.EMPTY)
    known = await known_entry_ids(reader, owner)
    found = anchor_by_entry([entry_id_of(one) for one in file.messages], known)
    if found is None:
        texts = await asyncio.to_thread(_stored_texts, file, rules)
        found = anchor_by_content(texts, [comparable(each.role, each.content) for each in tail])
    return found or Anchor(len(file.on_path), AnchorProof.NONE)


def _stored_texts(file: HostFile, rules: IngestRules) -> list[str]:
    """What is compared of each message, as it would be stored; blocks."""
    stored = (store_message(host, rules) for host in read_messages(file, file.messages))
    return [comparable(one.role, one.content) if isinstance(one, StoredMessage) else "" for one in stored]


# -- what a turn repeats (docs/spec/ingest.md, "Repeated messages") -----------------------------------


#: Names of the members of a block by which it is known again.
_IDS: Final = ("id", "call_id", *CALL_IDS)
#: What the metadata says of the model that answered.
_IDENTITY: Final = frozenset({"modelProvider", "modelApi", "modelId", "responseModelId"})


async def _owner(reader: Reader, session: Session) -> ConversationId | None:
    holding = await find_holding(reader, session.session_id, session.session_key)
    return None if holding is None else holding.conversation_id


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


#: Newest rows among which a turn is looked for that goes on in the database.
_LONGEST_TURN: Final = 200


async def stored_of_turn(reader: Reader, session: Session, turn: Sequence[StoredMessage]) -> int:
    """How many messages of the turn that a host holds are stored, from the first on.

    As `overlap_of`; and all, where the turn goes on in the database: it ends with the result of a tool.
    """
    owner, held = await _owner(reader, session), await overlap_of(reader, session, turn)
    if held or owner is None or not turn:
        return held
    newest = await newest_rows(reader, owner, 1)
    if not newest or newest[0].role != "tool":
        return 0
    rows = [(row.role, row.content) for row in await newest_rows(reader, owner, _LONGEST_TURN)]
    wanted = [(one.role, one.content) for one in turn]
    last = max((at for at, (role, _) in enumerate(rows) if role == "user"), default=-1)
    first = last
    while first > 0 and rows[first - 1][0] == "user":
        first -= 1
    places = range(max(0, first), last + 1)
    return len(turn) if any(rows[at : at + len(wanted)] == wanted for at in places) else 0


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
    ours, theirs = [part.noted for part in message.parts], [parsed_object(text) for text in row.metadata]
    if all(_ids(noted.get("raw")) for noted in ours):
        return [_raw(one) for one in ours] == [_raw(one) for one in theirs]
    return [_without_identity(one) for one in ours] == [_without_identity(one) for one in theirs]


def _raw(noted: JsonObject) -> str:
    return js_json(noted.get("raw"))


def _without_identity(noted: JsonObject) -> str:
    return js_json({name: value for name, value in noted.items() if name not in _IDENTITY})


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
    compared = [one for one in fresh if one.entry_id is None and one.content]
    if owner is None or not compared:
        return
    earlier = await earlier_texts(reader, owner, [one.identity for one in compared])
    counts: Counter[tuple[str, ...]] = Counter()
    for one in compared:
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
