"""``status``: what a database holds, on one page, and whether its engine keeps up with the host."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from lcm_core import __version__
from lcm_core.base.errors import ExitCode, UsageError
from lcm_core.base.jsonl import read_moment
from lcm_core.base.settings import Settings
from lcm_core.base.text import counted as number_of
from lcm_core.base.times import DURATION, iso_or_none, span_of
from lcm_core.base.values import Record, replace, to_json
from lcm_core.change.schema import unknown_parts
from lcm_core.store.database import Reader
from lcm_core.store.engine_work import GapTotals, gap_totals
from lcm_core.store.opening import FileState, file_state
from lcm_core.store.schema import Schema
from lcm_core.store.statistics import DatabaseStatistics, Growth, database_statistics, growth_of_all
from lcm_core.store.wal import WalState, examine_wal
from lcm_host.ingestion import Ingestion, ingestions
from lcm_host.reading import COUNTED_BYTES, bad_lines
from lcm_host.sessions import list_sessions

from lcm_tui.cli import options
from lcm_tui.cli.answer import OURS, Answer, Outcome, Run
from lcm_tui.cli.command import command, flag, option
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import FilePath, Kind, invalid
from lcm_tui.cli.presentation import PROGRAM
from lcm_tui.cli.selecting import tail_of
from lcm_tui.cli.working import watched
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Mark, Note, OutputBlock, json_of, list_table
from lcm_tui.tables.status import CELLS, Ingesting, depths_table, spark_text, summary

# -- keeping up with the host ----------------------------------------------------------------------------
# As ``status`` says it.

#: Places that could not be read that people are shown at most.
_PROBLEMS = 5


def _outbox(one: Ingestion) -> list[Document]:
    return [
        {**some_of(row, "key attempts last_error"), "createdAt": iso_or_none(read_moment(row.created_ms))}
        for row in one.outbox
    ]


# fmt: off
#: What is said of how far the engine is with a session.
INGESTION_COLUMNS: Final[tuple[ListColumn[Ingestion, None], ...]] = (
    ListColumn("conversation", right=True, heading="Conv.", json="conversationId", value="conversation_id",
               text=str),
    ListColumn("session", grows=True, heading="Session",
               value=lambda one: one.session.session_key or one.session.session_id),
    ListColumn("agent", json="agent", value="session.agent"),
    ListColumn("key", json="sessionKey", value="session.session_key"),
    ListColumn("id", json="sessionId", value="session.session_id"),
    ListColumn("missing", right=True, heading="Missing", value="behind"),
    ListColumn("since", heading="Since", value=lambda one: iso_or_none(one.lags_since()), time=True),
    ListColumn("last", json="hostLastEntryId", value=lambda one: one.last_entry and one.last_entry.entry_id),
    ListColumn("last_at", heading="Host's last", spare=2, json="hostLastEntryAt", time=True,
               value=lambda one: one.last_entry and iso_or_none(one.last_entry.created_at)),
    ListColumn("end", json="engineLastMessageId", value=lambda one: one.end and one.end.message_id),
    ListColumn("end_at", heading="Engine's last", spare=1, json="engineLastMessageAt", time=True,
               value=lambda one: one.end and iso_or_none(one.end.at)),
    ListColumn("committed", json="lastCommittedTurnAt",
               value=lambda one: one.end and iso_or_none(one.end.committed_at)),
    ListColumn("cursor", json="cursorEntryId", value=lambda one: one.end and one.end.frontier),
    ListColumn("seq", json="cursorSeq", value=lambda one: one.end and one.end.frontier_seq),
    ListColumn("found", json="cursorFound", value="by_cursor"),
    ListColumn("behind", json="behind", value="behind"),
    ListColumn("behind_since", json="behindSince", value=lambda one: iso_or_none(one.behind_since)),
    ListColumn("running", json="inFlight", value="in_flight"),
    ListColumn("waiting", right=True, heading="Waiting turns", value=lambda one: len(one.outbox)),
    ListColumn("outbox", json="outbox", value=_outbox),
    ListColumn("error", grows=True, heading="Last error",
               value=lambda one: next((row.last_error for row in one.outbox if row.last_error), None)),
    ListColumn("problem", json="problem", value="problem"),
)
# fmt: on


def document(found: Ingesting) -> Document:
    """The same as JSON."""
    return {
        "compared": len(found.compared),
        "behind": len(found.lagging),
        "items": [json_of(INGESTION_COLUMNS, one) for one in found.compared],
        "problems": [some_of(one, "path reason") for one in found.problems],
        "badLines": [
            {**some_of(one, "agent session_id"), "lines": lines} for one, lines in found.bad_lines.items()
        ],
        "checkpoints": found.checkpoints,
    }


def blocks(run: Run, found: Ingesting) -> list[OutputBlock]:
    """What lags behind, and what could not be read."""
    said: list[OutputBlock] = []
    if found.lagging:
        title = "What the engine has not stored"
        said.append(list_table(INGESTION_COLUMNS, found.lagging, run.time, title=title))
    said += [Note(one.sentence) for one in found.problems[:_PROBLEMS]]
    said += [
        Note(f"{number_of(lines, 'line')} of session {one.session_id} cannot be read.")
        for one, lines in list(found.bad_lines.items())[:_PROBLEMS]
    ]
    if found.checkpoints:
        said.append(Note(f"{number_of(found.checkpoints, 'checkpoint')} of session files left out."))
    return said


# -- the page --------------------------------------------------------------------------------------------

#: Bytes of a WAL that are examined: half a second.
_MOST_OF_WAL: Final = 128 * 1024 * 1024


#: Session files, the newest, whose lines are counted.
_FILES: Final = 100


class DatabaseStatus(Record, frozen=True):
    """What the command prints."""

    schema: Schema
    file: FileState | None
    wal: WalState | None  #: as far as it was examined
    counted: DatabaseStatistics
    growth: Growth | None
    ingesting: Ingesting
    gaps: GapTotals | None  #: in what the engine has stored of transcripts


class Lag(Kind[timedelta]):
    """For how long the engine may lag behind its host: ``behind=5m``."""

    def read(self, name: str, value: str) -> timedelta:
        """The time."""
        word, _, given = value.partition("=")
        span = span_of(given) if word == "behind" else None
        if span is None:
            raise invalid(name, f"must be behind= and {DURATION}, such as behind=5m", value)
        return span


@command(
    "status",
    examples=(
        "status",
        "status --db copy.db --json",
        "status --fail-on behind=5m",
        "status --watch 10 --fail-on behind=5m --quiet",
        "status --report",
    ),
)
@option(
    "--fail-on",
    Lag(),
    "behind=DURATION",
    "Exit with code 6 if the engine has been behind its host for this long.",
)
@options.watch
@flag("--report", "Write a bug report: versions, schema, counts, masked settings, errors.")
@option("--to", FilePath(text=True), "PATH", "The file of the report (default: a new file in this folder).")
def status(
    run: Run, *, fail_on: timedelta | None, watch: int | None, report: bool, to: Path | None
) -> Outcome:
    """Show the contents of the database, its engine version, and whether the engine keeps up with its
    host."""
    if to is not None and not report:
        raise UsageError("--to requires --report.", details={"option": "to"})
    if report:
        from lcm_tui.cli.report import write_report

        return write_report(run, to)

    def once() -> Answer:
        found = run.read(load_status, run.settings)
        lags = fail_on is not None and found.ingesting.lags(fail_on, datetime.now(UTC))
        answer = run.answer(
            *("status", status_document(run, found), status_blocks(run, found)),
            not_recorded=_not_recorded(found),
        )
        return replace(answer, exit_code=ExitCode.FINDINGS) if lags else answer

    return once() if watch is None else watched(run, once, watch, ends=fail_on is not None)


async def load_status(reader: Reader, settings: Settings) -> DatabaseStatus:
    """Read everything that the command prints."""
    listing = await asyncio.to_thread(list_sessions, settings.sessions.value)
    compared = await ingestions(reader, listing.sessions, settings.engine)
    in_files = [one for one in listing.sessions if one.live_file is not None][:_FILES]
    unreadable = await asyncio.to_thread(bad_lines, in_files, COUNTED_BYTES)
    return DatabaseStatus(
        reader.schema,
        file_state(settings.database.value),
        await asyncio.to_thread(_wal, settings.database.value),
        await database_statistics(reader),
        await growth_of_all(reader),
        Ingesting(
            compared,
            [one for one in listing.problems if settings.sessions.value != one.path],
            unreadable,
            listing.checkpoints,
        ),
        await gap_totals(reader),
    )


def _wal(path: Path) -> WalState | None:
    with suppress(OSError):  # what cannot be read at all is said where it is opened
        return examine_wal(path, most=_MOST_OF_WAL)
    return None


def status_document(run: Run, found: DatabaseStatus) -> Document:
    """The status as the envelope's ``data``."""
    counted = found.counted
    tail = tail_of((), found.schema, run.settings)
    return {
        "version": __version__,
        "databaseSizeBytes": None if found.file is None else found.file.size,
        "freshTail": {"count": tail.count, "maxTokens": tail.max_tokens},
        "status": {
            "conversations": {"total": counted.conversations, "active": counted.active},
            "messages": to_json(counted.messages),
            "summaries": {
                **some_of(counted.summaries, "count tokens"),
                "sourceMessageTokens": counted.covered_tokens,
                **some_of(counted.summaries, "earliest latest"),
                "byDepth": to_json(counted.depths),
            },
            "context": {"items": counted.context_items, "tokens": counted.context_tokens},
            "maintenance": to_json(counted.maintenance),
        },
        OURS: {
            "schema": {
                "version": found.schema.version,
                "missing": list(found.schema.missing),
                "unknown": list(unknown_parts(found.schema)),
            },
            "ingestion": document(found.ingesting),
            **({} if found.gaps is None else {"gaps": to_json(found.gaps)}),
            **({"walIgnoredBytes": found.wal.lost_bytes} if found.wal and found.wal.lost else {}),
        },
    }


def _not_recorded(found: DatabaseStatus) -> list[str]:
    unknown = {
        "status.conversations.active": found.counted.active,
        "status.maintenance": found.counted.maintenance.pending,
    }
    return [name for name, value in unknown.items() if value is None]


def _not_read(wal: WalState) -> str:
    return (
        f"{wal.lost_bytes:,} bytes" if wal.lost else number_of(wal.zeros, "page of zeros", "pages of zeros")
    )


def _gaps(totals: GapTotals | None) -> list[tuple[str, Cell]]:
    """What the engine has noted as never stored; nothing where it has noted none."""
    if totals is None:
        return []
    where = f"{number_of(totals.gaps, 'gap')} in {number_of(totals.conversations, 'conversation')}"
    words = f"{where}, {number_of(totals.entries, 'entry')} never stored; the largest has {totals.largest:,}"
    return [("  gaps", f"{words}. `{PROGRAM} doctor --check G21` names them")]


def _recorded(value: int | None) -> Cell:
    return Mark.NOT_RECORDED if value is None else value


def status_blocks(run: Run, found: DatabaseStatus) -> list[OutputBlock]:
    """The status for people."""
    counted = found.counted
    messages, summaries = counted.messages, counted.summaries
    limits = tail_of((), found.schema, run.settings)
    most = f", at most {limits.max_tokens:,} tokens" if limits.max_tokens else ""
    tail = f"{number_of(limits.count, 'message')}{most}"
    missing = [("Missing", ", ".join(found.schema.missing))] if found.schema.missing else []
    odd = ", ".join(unknown_parts(found.schema))
    unknown = [("Unknown to lcm-tui", odd)] if odd else []
    size = None if found.file is None else f"{found.file.size:,} bytes"
    wal: list[tuple[str, Cell]] = []
    if found.file is not None and found.file.wal_size:
        wal.append(("WAL", f"{found.file.wal_size:,} bytes"))
    if found.wal is not None and not found.wal.is_sound:
        wal.append(("  not read", f"{_not_read(found.wal)}: {found.wal.problem}; see `{PROGRAM} doctor`"))
    facts: list[tuple[str, Cell]] = [
        ("Database", str(run.settings.database.value)),
        ("Size", size),
        *wal,
        ("Written by LCM", found.schema.version),
        *missing,
        *unknown,
        ("Conversations", counted.conversations),
        ("  active", _recorded(counted.active)),
        ("Messages", messages.count),
        ("  tokens", messages.tokens),
        ("  first", run.time(messages.earliest)),
        ("  last", run.time(messages.latest)),
        ("  over time", None if found.growth is None else spark_text(found.growth, CELLS)),
        ("Summaries", summaries.count),
        ("  tokens", summaries.tokens),
        ("  cover", f"{counted.covered_tokens:,} message tokens"),
        ("  from", run.time(summaries.earliest)),
        ("  to", run.time(summaries.latest)),
        ("Context items", counted.context_items),
        ("  tokens", counted.context_tokens),
        ("Fresh tail", tail),
        ("Ingesting", summary(found.ingesting)),
        *_gaps(found.gaps),
        ("Compaction pending", _recorded(counted.maintenance.pending)),
        ("  running", _recorded(counted.maintenance.running)),
        ("  failed", _recorded(counted.maintenance.failed)),
    ]
    return [Facts(facts), *blocks(run, found.ingesting), depths_table(counted.depths)]
