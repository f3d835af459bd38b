"""A conversation beside the Codex session that it was held in: what one of them has and the other has not."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lcm_core.diff import Diff, compare_lines, edits_between
from lcm_core.errors import NotFoundError
from lcm_core.host.codex import (
    BINDING,
    CALL,
    MOST_CHARACTERS,
    MOST_ROWS,
    REASONING,
    RESULT,
    Rollout,
    Spoken,
    bound_thread,
    find_rollouts,
    homes_of,
    read_rollout,
    written_arguments,
)
from lcm_core.host.listing import FilePlace, find_session, list_sessions
from lcm_core.ingest.jsonl import BadLineError, Cancelled, decode_object, never_cancelled
from lcm_core.paths import SESSIONS_FOLDER, resolve_transcript
from lcm_core.records import Conversation, ConversationId, Message, MessagePart
from lcm_core.settings import Settings
from lcm_core.store.database import Reader
from lcm_core.store.messages import message_ids, whole_messages
from lcm_core.store.state import transcripts
from lcm_core.times import parse_utc

#: Messages that are read at a time.
_PAGE: Final = 400


@dataclass(frozen=True, slots=True)
class SpokenLines:
    """Rows as lines of text: a line that says whose it is, the text, a blank line."""

    rows: tuple[Spoken, ...]
    lines: tuple[str, ...]
    starts: tuple[int, ...]  #: the line with which each row begins

    def heading_at(self, line: int) -> str:
        """The row to which a line belongs, by its role and its place."""
        at = bisect_right(self.starts, line) - 1
        return f"== {self.rows[at].role} · {self.rows[at].where}" if at >= 0 else ""


@dataclass(frozen=True, slots=True)
class CodexDiff:
    """A Codex session (old) and its conversation (new)."""

    rollout: Rollout
    older: int  #: other rollouts of the same thread
    old_text: SpokenLines
    new_text: SpokenLines
    diff: Diff  #: of the lines
    only_codex: tuple[Spoken, ...]  #: in order
    only_conversation: tuple[Spoken, ...]
    elsewhere: int  #: rows of the conversation that Codex has at another place
    same: int
    complete: bool  #: False: one of them is longer than what is compared


# -- which ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundRollouts:
    """Where the Codex session of a conversation is."""

    newest: Path
    older: int


def find_codex(
    recorded: Sequence[Path], conversation: Conversation, settings: Settings, environ: Mapping[str, str]
) -> FoundRollouts:
    """The newest rollout of the thread that the conversation's session is bound to; blocks.

    Raises:
        NotFoundError: its session is bound to none, or the rollout is not there.
    """
    places = list(dict.fromkeys([*recorded, *_listed(conversation, settings)]))
    for transcript in places:
        if (thread := bound_thread(transcript)) is None:
            continue
        if found := find_rollouts(homes_of(transcript, environ), thread):
            return FoundRollouts(found[0], len(found) - 1)
        looked = ", ".join(str(one) for one in homes_of(transcript, environ))
        raise NotFoundError(
            f"Conversation {conversation.conversation_id} is bound to the Codex thread {thread}, which has "
            f"no rollout in {looked}. Set CODEX_HOME to its folder, or name the file: {_named(conversation)}",
            code="ROLLOUT_NOT_FOUND",
        )
    raise NotFoundError(
        f"Conversation {conversation.conversation_id} is bound to no Codex session: there is no "
        f"<session>.jsonl{BINDING} beside its transcript. If you have the file: {_named(conversation)}",
        code="ROLLOUT_NOT_FOUND",
    )


def _named(conversation: Conversation) -> str:
    return f"`lcm-tui sessions compare {conversation.conversation_id} --rollout PATH`."


def _listed(conversation: Conversation, settings: Settings) -> list[Path]:
    """Where the host would have the session file, if it has the session."""
    agents = settings.sessions.value
    found = [agents / f"{conversation.session_id}.jsonl"]
    if conversation.agent is not None:
        found.append(agents / conversation.agent / SESSIONS_FOLDER / f"{conversation.session_id}.jsonl")
    try:
        place = find_session(list_sessions(agents), conversation.session_id).place
    except NotFoundError:
        return found
    return [place.path, *found] if isinstance(place, FilePlace) else found


# -- the comparison -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """A conversation as it is compared."""

    conversation: Conversation
    rows: tuple[Spoken, ...]
    complete: bool  #: False: it is longer than what is held
    transcripts: tuple[Path, ...]  #: where its session file is, as the engine recorded it


async def read_held(reader: Reader, conversation: Conversation, settings: Settings) -> Held:
    """Read what is compared with a Codex session."""
    found = await transcripts_of(reader, conversation, settings)
    rows, complete = await spoken_in(reader, conversation.conversation_id)
    return Held(conversation, rows, complete, found)


async def transcripts_of(reader: Reader, conversation: Conversation, settings: Settings) -> tuple[Path, ...]:
    """The session files that the engine recorded for a conversation, as this machine has them."""
    sessions, state = settings.sessions.value, settings.state_dir.value
    number = conversation.conversation_id
    stored = [path for owner, path in await transcripts(reader) if owner == number]
    found = [resolve_transcript(one, sessions=sessions, state_dir=state).path for one in stored]
    return tuple(one for one in found if one is not None)


def why_no_codex(
    recorded: Sequence[Path], conversation: Conversation, settings: Settings, environ: Mapping[str, str]
) -> str | None:
    """Why there is no Codex session to compare a conversation with; None: there is one; blocks."""
    try:
        find_codex(recorded, conversation, settings, environ)
    except NotFoundError as error:
        return error.message
    return None


def compare_with_codex(
    held: Held,
    settings: Settings,
    environ: Mapping[str, str],
    rollout: Path | None = None,
    *,
    cancelled: Cancelled = never_cancelled,
) -> CodexDiff:
    """Compare a conversation with its Codex session, or with the *rollout* that is named; blocks.

    Raises:
        NotFoundError: there is no such Codex session.
        TranscriptError: the rollout cannot be read.
    """
    if rollout is None:
        found = find_codex(held.transcripts, held.conversation, settings, environ)
    else:
        found = FoundRollouts(rollout, 0)
    read = read_rollout(found.newest, cancelled=cancelled)
    return compare_spoken(read, found.older, held.rows, complete=held.complete)


async def spoken_in(reader: Reader, conversation_id: ConversationId) -> tuple[tuple[Spoken, ...], bool]:
    """What a conversation holds of the same, in its order; and whether that is all of it."""
    ids = await message_ids(reader, conversation_id)
    rows: list[Spoken] = []
    characters = 0
    for start in range(0, len(ids), _PAGE):
        if len(rows) >= MOST_ROWS or characters > MOST_CHARACTERS:
            return tuple(rows), False
        for message, parts in await whole_messages(reader, ids[start : start + _PAGE]):
            said = _said(message, parts)
            rows += said
            characters += sum(len(one.text) for one in said)
    return tuple(rows), True


def _said(message: Message, parts: Sequence[MessagePart]) -> list[Spoken]:
    """A message as Codex has it: reasoning, the text, then each call; of a tool, its results."""
    where, at = f"seq {message.seq:,}", parse_utc(message.created_at)
    found = [(REASONING, one.text or "") for one in parts if one.part_type == "reasoning"]
    outputs = [one.tool_output or one.tool_error or "" for one in parts if one.part_type == "tool"]
    if message.role == "tool":
        found += [(RESULT, text) for text in ([one for one in outputs if one] or [message.content])]
    else:
        found.append((message.role, message.content))
        for one in parts:
            if one.tool_name and (one.tool_input is not None or not (one.tool_output or one.tool_error)):
                found.append((CALL, f"{one.tool_name} {_arguments(one)}".strip()))
    return [Spoken(role, text, where, at) for role, text in found if text.strip()]


def _arguments(part: MessagePart) -> str:
    """What a tool was called with: its column, else, before 0.3, the block as the host sent it."""
    if part.tool_input is not None or part.metadata is None:
        return written_arguments(part.tool_input)
    try:
        raw = decode_object(part.metadata).get("raw")
    except BadLineError:
        return ""
    block = raw if isinstance(raw, dict) else {}
    return written_arguments(next((block[name] for name in ("arguments", "input") if name in block), None))


def compare_spoken(
    rollout: Rollout, older: int, spoken: Sequence[Spoken], *, complete: bool = True
) -> CodexDiff:
    """Lay both side by side."""
    old, new = tuple(one.said for one in rollout.rows), tuple(one.said for one in spoken)
    edits = edits_between(old, new)
    same = sum(one.old_end - one.old_start for one in edits if one.same)
    left = [at for one in edits if not one.same for at in range(one.old_start, one.old_end)]
    right = [at for one in edits if not one.same for at in range(one.new_start, one.new_end)]
    only_old, only_new = Counter(old[at] for at in left), Counter(new[at] for at in right)
    moved = only_old & only_new
    left_text, right_text = _lines(rollout.rows), _lines(tuple(spoken))
    return CodexDiff(
        rollout,
        older,
        left_text,
        right_text,
        compare_lines(left_text.lines, right_text.lines),
        _without(moved, [rollout.rows[at] for at in left]),
        _without(moved, [spoken[at] for at in right]),
        sum(moved.values()),
        same,
        complete and rollout.complete,
    )


def _without(moved: Counter[str], rows: Sequence[Spoken]) -> tuple[Spoken, ...]:
    rest, kept = Counter(moved), []
    for one in rows:
        if rest[one.said] > 0:
            rest[one.said] -= 1
        else:
            kept.append(one)
    return tuple(kept)


def _lines(rows: tuple[Spoken, ...]) -> SpokenLines:
    lines: list[str] = []
    starts: list[int] = []
    for one in rows:
        starts.append(len(lines))
        lines += (f"== {one.role}", *one.text.split("\n"), "")
    return SpokenLines(rows, tuple(lines), tuple(starts))
