"""The checks of the file as a whole: its schema, pages and counters, and rows that lead nowhere.

Those of the file (G12 to G17, G20) read little by themselves, but for G13.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from lcm_core.base.errors import DatabaseError
from lcm_core.base.findings import CheckScope, FixId, RowRef
from lcm_core.base.records import ConversationId
from lcm_core.base.text import counted, phrase, some
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Hit,
    Limits,
    ReadingRule,
    Rule,
    Run,
    finding_of,
    hit,
)
from lcm_core.store.conversations import list_conversations
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Row, quoted
from lcm_core.store.ownership import ROWS_AT_A_TIME, parts_without_message
from lcm_core.store.rows import KeyRange, key_ranges, row_count
from lcm_core.store.statistics import sums_of
from lcm_core.store.wal import WalState, examine_wal

_MIB: Final = 1024 * 1024
_LARGE_WAL: Final = 64 * _MIB
_MANY_FREE_PAGES: Final = 1_000
#: Faults that quick_check names; it stops there.
_MOST_FAULTS: Final = 100
#: Violations of one table that are counted.
_MOST_VIOLATIONS: Final = 100_000
_STEPS: Final = ("backfillSummaryDepths", "backfillSummaryMetadata", "backfillToolCallColumns")
_IDENTITY_STEP: Final = "repairOpenClawMetadataIdentityState"
#: What removes rows of a table that refer to nothing.
_FIXES: Final = {
    "message_parts": FixId.DELETE_ORPHAN_PARTS,
    "summary_messages": FixId.DELETE_ORPHAN_LINKS,
    "summary_parents": FixId.DELETE_ORPHAN_LINKS,
    "focus_brief_sources": FixId.DELETE_ORPHAN_LINKS,
    "context_items": FixId.DROP_DANGLING_ITEMS,
}


async def _migration(reader: Reader, limits: Limits) -> list[Hit]:
    """What the schema lacks of the version that it otherwise is."""
    schema = reader.schema
    tables = [(name, name.partition(".")[0]) for name in schema.missing]
    reasons = []
    if missing := [name for name, table in tables if name == table or schema.has(table)]:
        reasons.append(f"it lacks {some(missing)}")
    if schema.has("lcm_migration_state"):
        done = {row["step_name"] for row in await reader.rows("SELECT step_name FROM lcm_migration_state")}
        wanted = [*_STEPS, *((_IDENTITY_STEP,) if schema.has("conversations", "archive_cause") else ())]
        if steps := [step for step in wanted if step not in done]:
            reasons.append(f"it never finished {some(steps)}")
    leftover = await reader.value(
        "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = 'conversations_session_key_idx'"
    )
    if leftover and schema.has("conversations", "active"):
        reasons.append(
            "it still has the index conversations_session_key_idx, which forbids archiving a session"
        )
    what = f"The migration of this file is not complete: {'; '.join(reasons)}."
    return [hit(SUSPICIOUS, what, RowRef("sqlite_master", ()))] if reasons else []


class Space(Record, frozen=True):
    """What the file and its WAL take up."""

    pages: int
    free_pages: int
    page_size: int  #: bytes
    wal: int  #: bytes


def _space(used: Space, limits: Limits) -> Iterator[Hit]:
    size = used.pages * used.page_size
    if used.wal > _LARGE_WAL and used.wal * 4 > size:
        what = f"The WAL holds {used.wal // _MIB:,} MiB beside a file of {size // _MIB:,} MiB."
        yield hit(BY_DESIGN, what, RowRef("disk", ("-wal",)))
    if used.free_pages > _MANY_FREE_PAGES and used.free_pages * 4 > used.pages:
        free = used.free_pages * used.page_size // _MIB
        what = f"{free:,} of {size // _MIB:,} MiB of the file are free; VACUUM returns them to the disk."
        yield hit(BY_DESIGN, what, RowRef("disk", ("",)))


def _unread(wal: WalState, limits: Limits) -> Iterator[Hit]:
    """What a WAL holds that SQLite ignores (docs/spec/decisions.md, "A WAL that SQLite ignores")."""
    row = RowRef("disk", ("-wal",))
    if wal.lost:
        yield hit(
            BROKEN,
            f"SQLite ignores {wal.lost_bytes:,} bytes of {wal.path}, because {wal.problem}. They hold "
            f"{counted(wal.lost, 'page')} that were written to this file; the next program that closes it "
            "deletes them. Copy the WAL now.",
            row,
            count=wal.lost,
        )
    elif wal.zeros:
        what = f"{counted(wal.zeros, 'page')} of {wal.path} are zeros"
        yield hit(SUSPICIOUS, f"{what}: a file system may have lost what was written.", row)


async def _load_space(reader: Reader, wal: int) -> Space:
    return Space(
        await reader.value("PRAGMA page_count"),
        await reader.value("PRAGMA freelist_count"),
        await reader.value("PRAGMA page_size"),
        wal,
    )


async def _counters_behind(reader: Reader, limits: Limits) -> list[Hit]:
    recorded = {row["name"]: row["seq"] for row in await reader.rows("SELECT name, seq FROM sqlite_sequence")}
    found = []
    for table, key in (("conversations", "conversation_id"), ("messages", "message_id")):
        largest = await reader.value(f"SELECT max({key}) FROM {table}") or 0
        counter = recorded.get(table) or 0
        if isinstance(counter, int) and counter < largest:
            what = f"The id counter of {table} is at {counter:,} although ids go to {largest:,}"
            why = "ids of deleted rows may be reused"
            found.append(hit(SUSPICIOUS, f"{what}: {why}.", RowRef("sqlite_sequence", (table,))))
    return found


async def _stuck_batches(reader: Reader, limits: Limits) -> list[Hit]:
    nodes, batches = "pending_summary_nodes", "pending_compaction_batches"
    found = []
    for what, table, query in (
        (
            "summaries whose lease expired more than an hour ago",
            nodes,
            f"""SELECT node_id AS id FROM pending_summary_nodes WHERE status = 'running'
            AND julianday(lease_expires_at) < {limits.today!r} - 1.0 / 24""",
        ),
        (
            "summaries of published batches, never promoted",
            nodes,
            """SELECT n.node_id AS id FROM pending_summary_nodes AS n JOIN pending_compaction_batches AS b
            ON b.batch_id = n.batch_id WHERE b.status = 'published' AND n.status = 'ready'""",
        ),
        (
            "promoted entries without a summary",
            nodes,
            """SELECT node_id AS id FROM pending_summary_nodes
            WHERE status = 'promoted' AND canonical_summary_id IS NULL""",
        ),
        (
            "batches that are being published",
            batches,
            "SELECT batch_id AS id FROM pending_compaction_batches WHERE status = 'publishing'",
        ),
    ):
        ids = [row["id"] for row in await reader.rows(query)]
        if ids:
            rows = (RowRef(table, (one,)) for one in ids[: limits.rows])
            sentence = f"{counted(len(ids), 'row')} of pending work: {what}."
            found.append(hit(SUSPICIOUS, sentence, *rows, count=len(ids)))
    return found


async def _untrusted(reader: Reader, limits: Limits) -> list[Hit]:
    found = []
    row = await reader.row(
        """SELECT count(*) AS anchors, total(trust_state IN ('suspect', 'unproven')) AS doubtful
        FROM message_transcript_anchor_trust"""
    )
    if row is not None and (doubtful := int(row["doubtful"])):
        found.append(
            hit(
                BY_DESIGN,
                f"{doubtful:,} of {counted(row['anchors'], 'transcript anchor')} cannot be trusted. The "
                "engine keeps the messages and ignores these anchors: no action needed.",
                RowRef("message_transcript_anchor_trust", ()),
            )
        )
    for epoch in await reader.rows(
        "SELECT conversation_id AS id FROM conversation_transcript_epochs WHERE migration_mode = 'corrupt'"
    ):
        owner = ConversationId(epoch["id"])
        what = f"The transcript of conversation {owner} is marked as corrupt."
        row_of = RowRef("conversation_transcript_epochs", (owner,))
        found.append(hit(BROKEN, what, row_of, owner=owner))
    return found


async def _damaged_pages(reader: Reader, limits: Limits) -> list[Hit]:
    """What SQLite finds wrong with the pages; the one read that takes as long as the file is large."""
    rows = await reader.rows(f"PRAGMA quick_check({_MOST_FAULTS})")
    faults = [str(row[0]) for row in rows if row[0] != "ok"]
    if not faults:
        return []
    what = f"SQLite reports {counted(len(faults), 'fault')} in the file itself ({faults[0][:200]})"
    return [hit(BROKEN, f"{what}; work on a copy.", RowRef("sqlite_master", ()), count=len(faults))]


async def lost_tables(database: Database) -> list[str]:
    """The tables whose pages cannot all be read; reads each page of their rows once."""
    return [name for name in sorted(database.schema.tables) if await _is_lost(database, _count, name)]


async def file_damage(database: Database, lost: Sequence[str]) -> Hit:
    """That the file is damaged, which tables are *lost* in part, and of which conversations: it reads all."""
    owners: list[ConversationId] = []
    with suppress(DatabaseError):
        known = await database.read(list_conversations)
        ids = sorted(entry.conversation.conversation_id for entry in known)
        owners = [one for one in ids if await _is_lost(database, sums_of, one)]
    whose = f" (of {'conversation' if len(owners) == 1 else 'conversations'} {some(owners, 8)})"
    where = f": {some(lost)} cannot be read in full{whose if owners else ''}" if lost else ""
    what = (
        f"The file itself is damaged{where}. Copy it with its -wal, then save what is left "
        "(`sqlite3 COPY .recover`), or restore a backup (`lcm-tui restore`)."
    )
    return hit(BROKEN, what, RowRef("sqlite_master", ()))


async def _is_lost(
    database: Database, read: Callable[[Reader, Any], Awaitable[object]], what: object
) -> bool:
    try:
        await database.read(read, what)
    except DatabaseError as error:
        return error.code == "DATABASE_CORRUPT"
    return False


async def _count(reader: Reader, table: str) -> None:
    await reader.value(f"SELECT count(*) FROM {quoted(table)} NOT INDEXED")


async def _violations(reader: Reader, limits: Limits, table: str) -> list[Hit]:
    """Rows of a table that refer to nothing; the same rows have findings of their own in other families."""
    rowids: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    for row in await reader.rows(
        f'SELECT "rowid" AS id, parent FROM pragma_foreign_key_check(?) LIMIT {_MOST_VIOLATIONS}', table
    ):
        parent = row["parent"]
        counts[parent] = counts.get(parent, 0) + 1
        kept = rowids.setdefault(parent, [])
        if len(kept) < limits.rows and row["id"] is not None:
            kept.append(row["id"])
    found = []
    for parent, count in counts.items():
        # Where the other table is gone altogether its rows are not lost one by one: a backup has them.
        mendable = parent in ("messages", "summaries") and reader.schema.has(parent)
        what = phrase(count, "row", None, f"refer to rows of {parent} that are missing.")
        rows = (RowRef(table, (rowid,)) for rowid in rowids[parent])
        fix = _FIXES.get(table) if mendable else None
        found.append(hit(BROKEN, f"In {table}, {what}", *rows, count=count, fix=fix))
    return found


# fmt: off
SPACE: Final[tuple[Rule[Space], ...]] = (
    Rule("G14", INFO, "space not used", "Is the WAL large, or much of the file free?",
         why="A large WAL, or many free pages, use disk space; a VACUUM by the host frees it.",
         scope=CheckScope.FILE, find=_space),
)
WAL: Final[tuple[Rule[WalState], ...]] = (
    Rule("G20", ERROR, "WAL not read", "Does the WAL hold what SQLite ignores?",
         why="SQLite reads a WAL up to the first frame that does not fit its header and the frame before, "
         "and says nothing of the rest.",
         unfixed="SQLite cannot read these pages. Copy the WAL, then copy the file with its -wal again, or "
         "restore a backup. A change needs --allow-unread-wal, which keeps a copy of the WAL first.",
         scope=CheckScope.FILE, find=_unread),
)
SCHEMA: Final[tuple[ReadingRule, ...]] = (
    ReadingRule("G12", WARNING, "migration incomplete",
                "Does the schema fit no version, or lack steps of its migration?",
                why="Tables and columns are those of one version, and its migration has noted its steps.",
                scope=CheckScope.FILE, find=_migration),
    ReadingRule("G15", WARNING, "ids may be used again", "Is an id counter below the largest id?",
                why="SQLite assigns ids above its counter. If the counter is below the largest id, ids of "
                "deleted rows are reused.", scope=CheckScope.FILE, needs=("sqlite_sequence",),
                find=_counters_behind),
    ReadingRule("G16", WARNING, "pending work stuck", "Is background compaction of 1.0-beta stuck?",
                why="1.0-beta prepares compaction in the background; stuck work is never used.",
                scope=CheckScope.FILE, needs=("pending_compaction_batches", "pending_summary_nodes"),
                find=_stuck_batches),
    ReadingRule("G17", INFO, "transcript anchors not trusted",
                "Are anchors suspect or unproven, or epochs corrupt?",
                why="1.0-beta records the place of each message in its transcript, and how certain it is.",
                scope=CheckScope.FILE,
                needs=("message_transcript_anchor_trust", "conversation_transcript_epochs"), find=_untrusted),
)
# fmt: on
#: It also asks `_violations`, a table at a time.
# fmt: off
PAGES: Final[tuple[ReadingRule, ...]] = (
    ReadingRule("G13", ERROR, "damaged file",
                "Does SQLite report damaged pages, or rows with missing references?",
                why="SQLite's own checks: pages that can be read, and rows that refer to rows that exist.",
                scope=CheckScope.FILE,
                unanswered="What integrity_check adds to quick_check: whether every index entry is right.",
                find=_damaged_pages),
)
# fmt: on


async def read_schema(run: Run) -> None:
    """G12, G14 to G17: what is known of the file without reading it."""
    if run.wants(("G14",)):
        known = run.database.state
        space = await run.database.read(_load_space, 0 if known is None else known.wal_size)
        run.ask(SPACE, space)
    if run.wants(("G20",)):
        async with run.patient(("G20",)):
            wal = await asyncio.to_thread(examine_wal, run.database.path)
            if wal is not None:
                run.ask(WAL, wal)
    await run.ask_reading(SCHEMA)


async def read_pages(run: Run) -> None:
    """G13: SQLite's own checks of the file."""
    database = run.database
    await run.ask_reading(PAGES)
    [rule] = PAGES
    tables = sorted(table for table, columns in database.schema.tables.items() if columns)
    for step, table in enumerate(tables, 1):
        hits = await database.read(_violations, run.limits, table)
        run.add(finding_of(rule, one) for one in hits)
        run.progress(len(tables) + step, len(tables) * 2)


# -- rows that lead nowhere ------------------------------------------------------------------------------
# Rows that join two others and have lost one: links, edges and parts (B3, B4, E13).

#: Each table with what its rows have lost where their summary is there.
_LINES: Final = (
    (
        "summary_messages",
        "l.rowid",
        "B3",
        """SELECT l.summary_id AS one, l.message_id AS other,
        s.conversation_id AS owner, m.conversation_id AS of_other, s.rowid IS NULL AS lacks_one
        FROM summary_messages AS l
        LEFT JOIN summaries AS s ON s.summary_id = l.summary_id
        LEFT JOIN messages AS m ON m.message_id = l.message_id
        WHERE {step} AND (s.rowid IS NULL OR m.message_id IS NULL)""",
    ),
    (
        "summary_parents",
        "e.rowid",
        "B4",
        """SELECT e.summary_id AS one, e.parent_summary_id AS other,
        s.conversation_id AS owner, p.conversation_id AS of_other, s.rowid IS NULL AS lacks_one
        FROM summary_parents AS e
        LEFT JOIN summaries AS s ON s.summary_id = e.summary_id
        LEFT JOIN summaries AS p ON p.summary_id = e.parent_summary_id
        WHERE {step} AND (s.rowid IS NULL OR p.rowid IS NULL)""",
    ),
)


class LooseEnds:
    """The rows that lead nowhere, by what they have lost and by the conversation of the end that is there."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rows: dict[tuple[str, ConversationId | None], FaultRows] = {}

    def take(self, check: str, owner: ConversationId | None, table: str, *key: int | str | None) -> None:
        """Note a row."""
        self._rows.setdefault((check, owner), FaultRows(self._limits)).add(table, *key)

    def of(self, check: str) -> Iterator[tuple[ConversationId | None, FaultRows]]:
        """The rows that a check is about, conversation by conversation."""
        return ((owner, rows) for (of, owner), rows in self._rows.items() if of == check)


def _lost(check: str, noun: str, words: str, fix: FixId) -> Callable[[LooseEnds, Limits], Iterator[Hit]]:
    def find(seen: LooseEnds, limits: Limits) -> Iterator[Hit]:
        for owner, rows in seen.of(check):
            yield from rows.hits(BROKEN, noun, owner, words, fix)

    return find


async def read_lines(run: Run) -> None:
    """B3, B4: links and edges, a step at a time."""
    seen, database = LooseEnds(run.limits), run.database
    lines = [line for line in _LINES if database.schema.has(line[0]) and database.schema.has("summaries")]
    done, total = 0, sum([await database.read(row_count, line[0]) for line in lines])
    for table, column, check, query in lines:
        async for rows in _stepwise(database, table, "rowid", _where(query, column)):
            for row in rows:
                lost, owner = ("B4", row["of_other"]) if row["lacks_one"] else (check, row["owner"])
                if run.conversation_id in (None, owner):
                    seen.take(lost, owner, table, row["one"], row["other"])
            done = min(done + ROWS_AT_A_TIME, total)
            run.progress(done, total)
    run.ask(LINES, seen)


async def read_parts(run: Run) -> None:
    """E13: parts, which count for the conversation whose session they name."""
    seen, database = LooseEnds(run.limits), run.database
    done, total = 0, await database.read(row_count, "message_parts")
    async for rows in _stepwise(database, "message_parts", "message_id", parts_without_message):
        for row in rows:
            if run.conversation_id in (None, row["owner"]):
                seen.take("E13", row["owner"], "message_parts", row["id"])
        done = min(done + ROWS_AT_A_TIME, total)
        run.progress(done, total)
    run.ask(PARTS, seen)


async def _stepwise(
    database: Database, table: str, key: str, query: Callable[[KeyRange], str]
) -> AsyncIterator[list[Row]]:
    async for step in key_ranges(database, table, key, ROWS_AT_A_TIME):
        yield await database.read(Reader.rows, query(step), *step.bounds)


def _where(query: str, column: str) -> Callable[[KeyRange], str]:
    return lambda step: query.format(step=step.where(column))


# fmt: off
LINES: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule("B3", ERROR, "link to a missing message", "Does a link name a message that does not exist?",
         why="Each link of a leaf names a stored message.", needs=("summaries", "summary_messages"),
         find=_lost("B3", "link", "refer to a missing message.", FixId.DELETE_ORPHAN_LINKS)),
    Rule("B4", ERROR, "link of a missing summary",
         "Does a link or an edge name a summary that does not exist?",
         why="Each link and each edge joins summaries that are stored.", needs=("summaries",),
         find=_lost("B4", "link or edge", "refer to a missing summary.", FixId.DELETE_ORPHAN_LINKS)),
)
PARTS: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule("E13", ERROR, "orphan parts", "Are there parts whose message does not exist?",
         why="A part belongs to a stored message; parts without a message are never read.",
         needs=("message_parts",),
         find=_lost("E13", "part", "belong to a missing message.", FixId.DELETE_ORPHAN_PARTS)),
)
# fmt: on
