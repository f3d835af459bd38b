"""``sessions``: what the host has, in its databases and in files, and in Codex."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from lcm_core.base.diff import unified_text
from lcm_core.base.errors import UsageError
from lcm_core.base.jsonl import TranscriptChangedError
from lcm_core.base.records import ConversationId
from lcm_core.base.setting_values import SettingSource
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted, preview
from lcm_core.base.times import iso_or_none, parse_utc
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.listing import Position, Window
from lcm_host.codex import CodexDiff, Held, Spoken, compare_with_codex, read_held
from lcm_host.entries import SessionEntry
from lcm_host.ingestion import Ingestion, ingestions, owners_of
from lcm_host.reading import SessionExtent, SessionPage, extents, read_page
from lcm_host.sessions import (
    ColdPlace,
    HostListing,
    HostSession,
    HotPlace,
    Storage,
    find_session,
    list_sessions,
    path_of,
)

from lcm_tui.cli import cursors, options
from lcm_tui.cli.answer import Answer, Paging, Run
from lcm_tui.cli.command import command, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import Choice, ConversationArgument, ConversationName, FilePath, StoredText
from lcm_tui.cli.selecting import chosen
from lcm_tui.cli.working import interruptible
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, json_names, json_of, list_table
from lcm_tui.tables.blocks import OutputBlock as Block
from lcm_tui.tables.comparison import codex_blocks

#: Places that could not be read, and lines or rows, that people are shown at most.
_PROBLEMS = 20
_LIST, _SHOW = "sessions", "sessions.show"
_CURRENT: Final = "current"


@command(
    "sessions",
    forms=("csv",),
    examples=("sessions --agent main --only current", "sessions --compare 1 --file rollout.jsonl"),
)
@options.page_options
@option("--agent", StoredText(), "AGENT", "Only sessions of this agent.")
@option("--session-key", StoredText(), "KEY", "Only sessions of this key.")
@option(
    "--only",
    Choice(_CURRENT, *Storage),
    "WHAT",
    "current: only the current session of each key; or only sessions stored in one of the ways "
    f"{', '.join(Storage)}; may be given several times.",
    multiple=True,
)
@options.period_options
@option(
    "--compare",
    ConversationArgument(),
    "CONVERSATION",
    "Compare this conversation with its Codex session instead.",
)
@option(
    "--file",
    FilePath(),
    "PATH",
    "The Codex session file to compare with (default: the newest of the thread that the session is "
    "bound to).",
)
def sessions(
    run: Run,
    *,
    paged: options.PageOptions,
    agent: str | None,
    session_key: str | None,
    only: tuple[str, ...],
    times: options.TimeOptions,
    compare: ConversationName | None,
    file: Path | None,
) -> Answer:
    """List the sessions of the host, newest first."""
    if compare is not None:
        options.alone("--compare", "--file")
        return _compared(run, compare, file)
    if file is not None:
        raise UsageError("--file requires --compare.", details={"option": "file"})
    window = options.window(run, _LIST, paged, times)
    listing = list_sessions(run.settings.sessions.value)
    storages = {*only} - {_CURRENT}
    wanted = [
        one
        for one in listing.sessions
        if agent in (None, one.agent)
        and session_key in (None, one.session_key)
        and (not storages or one.storage in storages)
        and (one.current or _CURRENT not in only)
        and _within(one.newest_at, window)
    ]
    items, following = _page_of(wanted, window)
    owners, behind = _known(run, items)
    held = extents(items)
    rows = [SessionRow(one, held.get(one), owners.get(one), behind.get(one)) for one in items]
    empty = f"There are no sessions in {run.settings.sessions.value}."
    return run.answer(
        "sessions",
        {
            "total": len(wanted),
            "items": [json_of(SESSION_COLUMNS, row) for row in rows],
            "checkpoints": listing.checkpoints,
            "problems": [some_of(one, "path reason") for one in listing.problems],
        },
        [
            list_table(SESSION_COLUMNS, rows, run.time, empty=empty),
            *_unreadable(run, items, held),
            *_not_read(listing),
        ],
        paging=Paging(_LIST, window.limit, len(items), following),
        names=json_names(SESSION_COLUMNS),
    )


def _within(moment: datetime | None, window: Window) -> bool:
    if window.since is None and window.until is None:
        return True
    return (
        moment is not None
        and (window.since is None or moment >= window.since)
        and (window.until is None or moment < window.until)
    )


def _page_of(sessions: Sequence[HostSession], window: Window) -> tuple[list[HostSession], Position | None]:
    """A page of sessions that are in order, and where the next begins."""
    if window.position is not None:
        behind = _order(parse_utc(window.position.timestamp), str(window.position.id))
        sessions = [one for one in sessions if _order(one.newest_at, _name(one)) > behind]
    items = list(sessions[: window.limit])
    if len(sessions) <= window.limit:
        return items, None
    last = items[-1]
    return items, Position(iso_or_none(last.newest_at), _name(last))


def _order(moment: datetime | None, name: str) -> tuple[float, str]:
    # As exact as a cursor holds it.
    return (float("inf") if moment is None else -(moment.timestamp() * 1000 // 1), name)


def _name(session: HostSession) -> str:
    return f"{session.agent or ''}/{session.session_id}"


def _known(
    run: Run, sessions: Sequence[HostSession]
) -> tuple[Mapping[HostSession, ConversationId], Mapping[HostSession, int]]:
    """The conversations of some sessions, and how many messages of those that were compared are not in them.

    Nothing where no database was named and none is there.
    """
    database = run.settings.database
    if not sessions or (database.source is SettingSource.DEFAULT and not database.value.exists()):
        return {}, {}

    async def load(reader: Reader) -> tuple[dict[HostSession, ConversationId], list[Ingestion]]:
        return await owners_of(reader, sessions), await ingestions(reader, sessions, run.settings.engine)

    owners, compared = run.read(load)
    return owners, {one.session: one.behind for one in compared if one.problem is None}


class SessionRow(Record, frozen=True):
    """A session of a list, with what is known of it."""

    session: HostSession
    extent: SessionExtent | None
    conversation_id: ConversationId | None
    behind: int | None

    @property
    def newest(self) -> str | None:
        """When its newest entry was made."""
        found = None if self.extent is None else self.extent.newest_at
        return iso_or_none(found or self.session.newest_at)


def _of_extent(name: str) -> Callable[[SessionRow], int | None]:
    return lambda row: None if row.extent is None else getattr(row.extent, name)


# fmt: off
#: What is said of a session wherever it stands.
IDENTITY: Final[tuple[ListColumn[SessionRow, None], ...]] = (
    ListColumn("agent", heading="Agent", json="agent", value="session.agent"),
    ListColumn("id", heading="Session", value="session.session_id"),
    ListColumn("key", grows=True, heading="Key", json="sessionKey", value="session.session_key"),
    ListColumn("session", json="sessionId", value="session.session_id"),
    ListColumn("storage", heading="Stored", json="storage", value="session.storage.value"),
    ListColumn("current", heading="Current", spare=3, json="current", value="session.current"),
    ListColumn("previous", json="previousSessionId", value="session.previous_session_id"),
)
SESSION_COLUMNS: Final = (
    *IDENTITY,
    ListColumn("entries", right=True, heading="Entries", json="entries", value=_of_extent("entries")),
    ListColumn("bad", json="badLines", value=_of_extent("bad_lines")),
    ListColumn("newest", heading="Newest", spare=1, json="newestAt", time=True, value="newest"),
    ListColumn("conversation", right=True, heading="Conv.", spare=2, json="conversationId",
               value="conversation_id", text=str),
    ListColumn("behind", right=True, heading="Behind", spare=2, json="behind", value="behind"),
)
# fmt: on


def _unreadable(
    run: Run, sessions: Sequence[HostSession], held: Mapping[HostSession, SessionExtent]
) -> list[Block]:
    """The sessions with lines that cannot be read, as far as they were counted."""
    bad = [(one, held[one].bad_lines) for one in sessions if one in held and held[one].bad_lines]
    return [
        Note(f"{counted(lines, 'line')} of session {one.session_id} cannot be read: {_shows(run, one)}")
        for one, lines in bad[:_PROBLEMS]
    ]


def _shows(run: Run, session: HostSession) -> str:
    agent = ["--agent", session.agent] if session.agent else []
    return run.line("show", session.session_id, *agent)


def _not_read(listing: HostListing) -> list[Block]:
    lines = [Note(one.sentence) for one in listing.problems[:_PROBLEMS]]
    if (rest := len(listing.problems) - len(lines)) > 0:
        lines.append(Note(f"and {counted(rest, 'more place')}"))
    if listing.checkpoints:
        lines.append(Note(f"{counted(listing.checkpoints, 'checkpoint')} left out."))
    return [*lines]


# -- one session -------------------------------------------------------------------------------------------


def show_session(
    run: Run, session_id: str, agent: str | None, limit: int | None, cursor: str | None
) -> Answer:
    """Show the messages of a session that the host still sees, in order."""
    position = None if cursor is None else cursors.decode(_SHOW, cursor)
    listing = list_sessions(run.settings.sessions.value)
    session = find_session(listing, session_id, agent)
    before, total = (None, 0) if position is None else _before(session, position)
    page = read_page(session, limit=limit, before=before)
    if page.total < total:  # a path only grows, unless the host rewrites it; then older pages are others
        raise TranscriptChangedError(
            f"Session {session.session_id} was rewritten by its host since the previous page: omit --cursor."
        )
    messages = [entry for entry in page.entries if entry.is_message]
    following = None
    if page.start > 0 and page.entries:
        following = Position(None, f"{page.start}:{session.session_id}:{page.total}")
    return run.answer(
        "show",
        {
            "session": {
                **json_of(IDENTITY, SessionRow(session, None, None, None)),
                "path": str(path_of(session)),
                "entriesOnPath": page.total,
            },
            "messages": [_message(entry) for entry in messages],
            "path": [[entry.entry_id, entry.type] for entry in page.entries],
            "offPath": list(page.off_path),
            "problems": [
                {_numbered(session): problem.line, "reason": problem.reason} for problem in page.problems
            ],
            "problemCount": page.problem_count,
        },
        _blocks(run, session, page, messages),
        paging=Paging(_SHOW, page.total if limit is None else limit, len(page.entries), following),
    )


def _before(session: HostSession, position: Position) -> tuple[int, int]:
    """Before which entry the page of a cursor ends, and how many there were when it was made."""
    place, _, rest = str(position.id).partition(":")
    named, _, total = rest.rpartition(":")
    if not place.isdecimal() or len(place) > 15 or named != session.session_id:
        raise UsageError(
            "The cursor cannot be used: it belongs to another session. Omit --cursor.",
            code="INVALID_CURSOR",
            details={"option": "cursor"},
        )
    return int(place), int(total) if total.isdecimal() and len(total) <= 15 else 0


def _created(entry: SessionEntry) -> str | None:
    return iso_or_none(entry.created_at)


MESSAGE_COLUMNS: Final[tuple[ListColumn[SessionEntry, None], ...]] = (
    ListColumn("entry", heading="Entry", json="entryId", value="entry_id"),
    ListColumn("role", heading="Role", json="role", value="role"),
    ListColumn("time", heading="Time", spare=1, time=True, value=_created),
    ListColumn("words", grows=True, heading="Text", value=lambda one: preview(one.text or one.problem or "")),
    ListColumn("text", json="text", value="text"),
    ListColumn("created", json="createdAt", time=True, value=_created),
)


def _message(entry: SessionEntry) -> Document:
    found = json_of(MESSAGE_COLUMNS, entry)
    return found if entry.problem is None else {**found, "problem": entry.problem}


def _numbered(session: HostSession) -> str:
    return "seq" if isinstance(session.place, HotPlace | ColdPlace) else "line"


def _blocks(
    run: Run, session: HostSession, page: SessionPage, messages: Sequence[SessionEntry]
) -> list[Block]:
    on_path = counted(page.total, "entry")
    facts: list[tuple[str, Cell]] = [
        ("Session", session.session_id),
        ("Agent", session.agent),
        ("Key", session.session_key),
        ("Stored", f"{session.storage.value}, {path_of(session)}"),
        ("Current", "yes" if session.current else "no"),
        ("Before it", session.previous_session_id),
        ("Holds", f"{on_path} that the host sees, {len(page.off_path):,} between them that it does not"),
    ]
    said = [f"{_numbered(session)} {one.line}: {one.reason}" for one in page.problems[:_PROBLEMS]]
    more = page.problem_count - len(said)
    notes = [*said, *([f"and {more:,} more"] if more > 0 and said else [])]
    return [
        Facts(facts),
        list_table(MESSAGE_COLUMNS, messages, run.time, empty="This session has no messages."),
        *(Note(line) for line in notes),
    ]


# -- a conversation and its Codex session ------------------------------------------------------------------


def _compared(run: Run, conversation: ConversationName, file: Path | None) -> Answer:
    """Compare a conversation with its Codex session."""
    held = run.read(_held, conversation, run.settings)
    with interruptible() as stopped:
        found = compare_with_codex(held, run.settings, os.environ, file, cancelled=stopped)
    return run.answer("sessions", _codex_document(held, found), list(codex_blocks(found)))


async def _held(reader: Reader, named: options.Named, settings: Settings) -> Held:
    return await read_held(reader, await chosen(reader, named), settings)


def _codex_document(held: Held, found: CodexDiff) -> Document:
    rollout, read = found.rollout, found.rollout.reading
    return {
        **some_of(held.conversation, "conversation_id session_id"),
        "rollout": {
            "path": str(rollout.path),
            "older": found.older,
            "lines": read.lines,
            "rows": len(rollout.rows),
            "repeatedEvents": read.repeated,
            "notCompared": dict(rollout.others),
            "notImported": read.refused,
            "problems": [some_of(one, "line reason") for one in read.problems.kept],
            "problemCount": read.problems.count,
        },
        "rows": len(held.rows),
        "complete": found.complete,
        "onlyCodex": [_row(one) for one in found.only_codex],
        "onlyConversation": [_row(one) for one in found.only_conversation],
        **some_of(found, "elsewhere same"),
        "lines": some_of(found.diff, "removed added"),
        "diff": list(unified_text(found.diff)),
    }


def _row(one: Spoken) -> Document:
    return {**some_of(one, "role where"), "createdAt": iso_or_none(one.at), "text": one.text}
