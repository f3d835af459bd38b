"""The checks of what the host has and the engine has not (H1 to H3; docs/spec/host.md, "Is it ingesting?").

G21 names what the engine itself has noted as never stored, with the host's transcript where it is at hand.
Who has a host runs these checks and those of the database together: `STAGES`, `CHECKS`, `run_checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from lcm_core.base.findings import Check, CheckScope, RowRef
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted, safe_line
from lcm_core.base.times import iso_z
from lcm_core.checks import running
from lcm_core.checks.check import (
    BY_DESIGN,
    SUSPICIOUS,
    WARNING,
    Folders,
    Hit,
    Limits,
    Rule,
    Run,
    Stage,
    conversation_row,
    hit,
)
from lcm_core.store.schema import Schema
from lcm_core.store.state import GAPS

from lcm_host.ingestion import FoundGap, Ingestion, Said, find_gaps, ingestions, owners_of
from lcm_host.reading import bad_lines
from lcm_host.sessions import HostSession, list_sessions


def _behind(compared: Sequence[Ingestion], limits: Limits) -> Iterator[Hit]:
    for one in compared:
        if one.behind:
            since = "" if one.behind_since is None else f", since {iso_z(one.behind_since)}"
            missing = f"{_named(one.session)} {'is' if one.behind == 1 else 'are'} missing{since}"
            yield _hit(one.conversation_id, f"{counted(one.behind, 'message')} of {missing}.")


def _waiting(compared: Sequence[Ingestion], limits: Limits) -> Iterator[Hit]:
    for one in compared:
        if one.outbox:
            count = len(one.outbox)
            tried = max(row.attempts for row in one.outbox)
            said = next((row.last_error for row in one.outbox if row.last_error), None)
            why = "" if said is None else f"; the last error is: {said[:200]}"
            turns = f"{counted(count, 'turn')} of {_named(one.session)} {'waits' if count == 1 else 'wait'}"
            sentence = f"{turns} for the engine, tried {counted(tried, 'time')}{why}."
            yield _hit(one.conversation_id, sentence)


def _hit(owner: ConversationId | None, sentence: str) -> Hit:
    rows = () if owner is None else (conversation_row(owner),)
    return hit(SUSPICIOUS, sentence, *rows, owner=owner)


def _named(session: HostSession) -> str:
    return f"session {session.session_key or session.session_id}"


#: Entries of a gap that are named with their first words.
_NAMED: Final = 8
_WORDS: Final = 60


def _never_stored(found: Sequence[FoundGap], limits: Limits) -> Iterator[Hit]:
    for one in found:
        gap = one.gap
        entries = f"{counted(gap.entries, 'entry')} of the transcript of conversation {gap.conversation_id}"
        around = [
            f"{word} m{message}"
            for word, message in (("after", gap.prev_message_id), ("before", gap.next_message_id))
            if message is not None
        ]
        place = f" ({' and '.join(around)})" if around else ""
        what = f"{entries}{place} {'was' if gap.entries == 1 else 'were'} never stored, from "
        what += f"{safe_line(gap.first_entry_id)} to {safe_line(gap.last_entry_id)}."
        confidence = BY_DESIGN if one.is_filled else SUSPICIOUS
        row = RowRef(GAPS, (gap.gap_id,))
        yield hit(confidence, f"{what} {_at_hand(one)}", row, owner=gap.conversation_id)


def _at_hand(one: FoundGap) -> str:
    """What the host still has of it, and how it can be had here."""
    session = one.session
    if session is None:
        return "The host's transcript is not at hand."
    if one.problem is not None:
        return f"They cannot be listed: {safe_line(one.problem).rstrip('.')}."
    if not one.entries:
        return "Nothing that the engine would store of them is missing now."
    named = "; ".join(f"{safe_line(entry.entry_id or '')} {_words(entry)}" for entry in one.entries[:_NAMED])
    more = f"; and {len(one.entries) - _NAMED:,} more" if len(one.entries) > _NAMED else ""
    agent = session.agent or "AGENT"
    return (
        f"The host still has {named}{more}. The engine never imports them; `lcm-tui backfill {agent} "
        f"{session.session_id} --session-key KEY`, with a key of your own, imports the whole session as a "
        "conversation of its own."
    )


def _words(entry: Said) -> str:
    text = safe_line(" ".join(entry.text.split()))
    return f"{entry.role or '?'}: {text[:_WORDS]}{'…' if len(text) > _WORDS else ''}"


# fmt: off
_GAPS: Final[tuple[Rule[Sequence[FoundGap]], ...]] = (
    Rule("G21", WARNING, "entries never stored",
         "Did the engine note a gap in what it has stored of a transcript?",
         why="The engine after 1.1.1 notes messages of the host that lie between stored ones and were never "
         "stored. It never imports them later, so they cannot be summarised, found or recalled.",
         scope=CheckScope.CONVERSATION, needs=(GAPS,), find=_never_stored),
)
# fmt: on


async def _read_gaps(run: Run) -> None:
    """G21: what is noted, and what the sessions of the host still have of it."""
    folder = run.folders.sessions
    listing = await asyncio.to_thread(list_sessions, folder) if folder is not None else None
    sessions = () if listing is None else listing.sessions
    run.ask(_GAPS, await run.database.read(find_gaps, sessions, run.folders.engine, run.conversation_id))


# fmt: off
_BEHIND: Final[tuple[Rule[Sequence[Ingestion]], ...]] = (
    Rule("H1", WARNING, "engine behind its host",
         "Did a turn of the host end whose messages the engine has not stored?",
         why="The engine stores what was said when a turn ends. Messages it has not stored cannot be "
         "summarised, found or recalled; `backfill` imports them.", scope=CheckScope.CONVERSATION,
         unfixed="`lcm-tui backfill AGENT SESSION` imports them; `lcm-tui sessions` lists both.",
         find=_behind),
    Rule("H2", WARNING, "turns wait in the host",
         "Does the host keep turns that the engine has not committed?",
         why="The host hands a turn over until the engine commits it. A turn that stays was refused each "
         "time, and its messages are missing.", scope=CheckScope.CONVERSATION, find=_waiting),
)
# fmt: on


#: A session in a file, its lines that cannot be read, and its conversation.
_BadLines = tuple[HostSession, int, ConversationId | None]


def _unreadable(found: Sequence[_BadLines], limits: Limits) -> Iterator[Hit]:
    for session, count, owner in found:
        yield _hit(owner, f"{counted(count, 'line')} of {_named(session)} cannot be read.")


# fmt: off
_LINES: Final[tuple[Rule[Sequence[_BadLines]], ...]] = (
    Rule("H3", WARNING, "unreadable lines", "Has the transcript of a session lines that cannot be read?",
         why="A process that dies or races while it appends leaves a record that is cut off. The engine "
         "skips such a line; `backfill` stores the whole records in it, and `show` of the session names it.",
         scope=CheckScope.CONVERSATION, find=_unreadable),
)
# fmt: on


async def _read_sessions(run: Run) -> None:
    """H1 to H3: what the host's databases and files say, beside the conversations."""
    folder = run.folders.sessions
    if folder is None or not run.wants(("H1", "H2", "H3")):
        return
    listing = await asyncio.to_thread(list_sessions, folder)
    if run.wants(("H1", "H2")):
        compared = await run.database.read(ingestions, listing.sessions, run.folders.engine)
        run.ask(_BEHIND, compared)
    if run.wants(("H3",)):
        counts = await asyncio.to_thread(bad_lines, listing.sessions)
        owners = await run.database.read(owners_of, list(counts))
        run.ask(_LINES, [(one, count, owners.get(one)) for one, count in counts.items()])


def _why_not(check: Check, schema: Schema, folders: Folders) -> str:
    if folders.in_host_database:
        return ""
    return folders.no_sessions or ("there is no database of the host" if check.id == "H2" else "")


#: The stages of a database and of its host.
STAGES: Final = (
    *running.STAGES,
    Stage("gaps in transcripts", _GAPS, _read_gaps),
    Stage("sessions of the host", (*_BEHIND, *_LINES), _read_sessions, _why_not),
)
CHECKS: Final[Mapping[str, Check]] = running.checks_of(STAGES)
FAMILIES: Final[Mapping[str, str]] = {**running.FAMILIES, "H": "the host"}
#: What reads texts, files and sessions: neither `STRUCTURE` nor `WHOLE_FILE`.
TEXTS: Final = frozenset(CHECKS) - running.STRUCTURE - running.WHOLE_FILE
choose: Final = partial(running.choose, stages=STAGES)
run_checks: Final = partial(running.run_checks, stages=STAGES)
