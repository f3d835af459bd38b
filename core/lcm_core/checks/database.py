"""The checks of the file as a whole: its schema, pages and counters, and rows that lead nowhere.

Those of the file (G12 to G17, G20) read little by themselves, but for G13; F1 to F6 read the search tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from lcm_core.base.errors import DatabaseError, SearchUnavailableError
from lcm_core.base.findings import Check, CheckScope, FixId, RowRef
from lcm_core.base.records import ConversationId
from lcm_core.base.text import BLANKS, counted, phrase, some
from lcm_core.base.values import Record
from lcm_core.checks.check import (
    BROKEN,
    BY_DESIGN,
    ERROR,
    INFO,
    SUSPICIOUS,
    WARNING,
    FaultRows,
    Folders,
    Hit,
    Limits,
    ReadingRule,
    Rule,
    Run,
    finding_of,
    hit,
)
from lcm_core.store.database import Database, Reader
from lcm_core.store.opening import Row, WalState, examine_wal
from lcm_core.store.ownership import ROWS_AT_A_TIME, parts_without_message
from lcm_core.store.rows import KeyRange, key_ranges, of_conversation, row_count
from lcm_core.store.schema import Schema
from lcm_core.store.search import is_stale

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


SPACE: Final[tuple[Rule[Space], ...]] = (
    Rule(
        "G14",
        INFO,
        "space not used",
        "Is the WAL large, or much of the file free?",
        why="A large WAL, or many free pages, use disk space; a VACUUM by the host frees it.",
        scope=CheckScope.FILE,
        find=_space,
    ),
)
WAL: Final[tuple[Rule[WalState], ...]] = (
    Rule(
        "G20",
        ERROR,
        "WAL not read",
        "Does the WAL hold what SQLite ignores?",
        why="SQLite reads a WAL up to the first frame that does not fit its header and the frame before, and "
        "says nothing of the rest.",
        unfixed="SQLite cannot read these pages. Copy the WAL, then copy the file with its -wal again, or "
        "restore a backup. A change needs --allow-unread-wal, which keeps a copy of the WAL first.",
        scope=CheckScope.FILE,
        find=_unread,
    ),
)
SCHEMA: Final[tuple[ReadingRule, ...]] = (
    ReadingRule(
        "G12",
        WARNING,
        "migration incomplete",
        "Does the schema fit no version, or lack steps of its migration?",
        why="Tables and columns are those of one version, and its migration has noted its steps.",
        scope=CheckScope.FILE,
        find=_migration,
    ),
    ReadingRule(
        "G15",
        WARNING,
        "ids may be used again",
        "Is an id counter below the largest id?",
        why="SQLite assigns ids above its counter. If the counter is below the largest id, ids of deleted "
        "rows are reused.",
        scope=CheckScope.FILE,
        needs=("sqlite_sequence",),
        find=_counters_behind,
    ),
    ReadingRule(
        "G16",
        WARNING,
        "pending work stuck",
        "Is background compaction of 1.0-beta stuck?",
        why="1.0-beta prepares compaction in the background; stuck work is never used.",
        scope=CheckScope.FILE,
        needs=("pending_compaction_batches", "pending_summary_nodes"),
        find=_stuck_batches,
    ),
    ReadingRule(
        "G17",
        INFO,
        "transcript anchors not trusted",
        "Are anchors suspect or unproven, or epochs corrupt?",
        why="1.0-beta records the place of each message in its transcript, and how certain it is.",
        scope=CheckScope.FILE,
        needs=("message_transcript_anchor_trust", "conversation_transcript_epochs"),
        find=_untrusted,
    ),
)
#: It also asks `_violations`, a table at a time.
PAGES: Final[tuple[ReadingRule, ...]] = (
    ReadingRule(
        "G13",
        ERROR,
        "damaged file",
        "Does SQLite report damaged pages, or rows with missing references?",
        why="SQLite's own checks: pages that can be read, and rows that refer to rows that exist.",
        scope=CheckScope.FILE,
        unanswered="What integrity_check adds to quick_check: whether every index entry is right.",
        find=_damaged_pages,
    ),
)


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


LINES: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule(
        "B3",
        ERROR,
        "link to a missing message",
        "Does a link name a message that does not exist?",
        why="Each link of a leaf names a stored message.",
        needs=("summaries", "summary_messages"),
        find=_lost("B3", "link", "refer to a missing message.", FixId.DELETE_ORPHAN_LINKS),
    ),
    Rule(
        "B4",
        ERROR,
        "link of a missing summary",
        "Does a link or an edge name a summary that does not exist?",
        why="Each link and each edge joins summaries that are stored.",
        needs=("summaries",),
        find=_lost("B4", "link or edge", "refer to a missing summary.", FixId.DELETE_ORPHAN_LINKS),
    ),
)
PARTS: Final[tuple[Rule[LooseEnds], ...]] = (
    Rule(
        "E13",
        ERROR,
        "orphan parts",
        "Are there parts whose message does not exist?",
        why="A part belongs to a stored message; parts without a message are never read.",
        needs=("message_parts",),
        find=_lost("E13", "part", "belong to a missing message.", FixId.DELETE_ORPHAN_PARTS),
    ),
)


# -- search tables ---------------------------------------------------------------------------------------
# They are copies that nothing keeps in step (docs/spec/search.md, "Upkeep"). The rows of a search table lie
# in its ``_content`` table, which can be read without the tokenizer. The table's own self-check writes, so
# it is never asked for; what it would find shows in the row counts and in a probe.

MESSAGES: Final = "messages_fts"
SUMMARIES: Final = "summaries_fts"
CJK: Final = "summaries_fts_cjk"
TABLES: Final = (MESSAGES, SUMMARIES, CJK)
_SHADOWS: Final = ("data", "idx", "content", "docsize", "config")
_CJK_TABLE: Final = "the search table for Chinese, Japanese and Korean"
#: Ids that one transaction compares.
_STEP: Final = 5_000
#: Characters of a message that refers to a file which are compared with what is searched.
_MOST_TEXT: Final = 200_000


class SearchProbe(Record, frozen=True):
    """Whether a search table works."""

    table: str
    fault: str  #: why not; empty when it does
    ours: bool = False  #: the fault is this machine's SQLite, which lacks what the table needs


class Differences:
    """How a search table differs from what it was filled from."""

    def __init__(self, limits: Limits) -> None:
        self.missing = FaultRows(limits)
        self.extra = FaultRows(limits)  #: of rows that are gone, or twice
        self.stale = FaultRows(limits)  #: with another text


class SearchTables:
    """What is known of the search tables of a file, or of what one conversation has in them."""

    def __init__(self, owner: ConversationId | None, limits: Limits) -> None:
        self.owner = owner
        self.probes: list[SearchProbe] = []
        self.messages = Differences(limits)
        self.summaries = Differences(limits)
        self.cjk = Differences(limits)


def _differs(
    noun: str, *parts: tuple[Callable[[SearchTables], FaultRows], str]
) -> Callable[[SearchTables, Limits], Iterator[Hit]]:
    """A rule about kinds of differences, each with what is said of its rows."""

    def find(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
        for rows_of, words in parts:
            yield from rows_of(seen).hits(BROKEN, noun, seen.owner, f"{words}.", FixId.REBUILD_SEARCH)

    return find


def _stale_rows(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
    for noun, found in (("message", seen.messages), ("summary", seen.summaries)):
        words = "differ from the search table."
        yield from found.stale.hits(BROKEN, noun, seen.owner, words, FixId.REBUILD_SEARCH)


def _broken_tables(seen: SearchTables, limits: Limits) -> Iterator[Hit]:
    for probe in seen.probes:
        if probe.fault:
            yield hit(
                SUSPICIOUS if probe.ours else BROKEN,
                f"The search table {probe.table} does not work: {probe.fault}.",
                RowRef(probe.table, ()),
                fix=None if probe.ours else FixId.REBUILD_SEARCH,
            )


CHECKS: Final[tuple[Rule[SearchTables], ...]] = (
    Rule(
        "F1",
        WARNING,
        "messages not found",
        "Are messages missing from the search table?",
        why="Messages with text can be found: each has a row in the search table (blank ones only before "
        "0.8).",
        needs=("messages_fts",),
        find=_differs("message", (lambda seen: seen.messages.missing, "cannot be found by searching")),
    ),
    Rule(
        "F2",
        WARNING,
        "search rows without message",
        "Does the search table contain messages that do not exist?",
        why="Deleted messages must not be found.",
        scope=CheckScope.FILE,
        needs=("messages_fts",),
        find=_differs(
            "message", (lambda seen: seen.messages.extra, "are in the search table although deleted")
        ),
    ),
    Rule(
        "F3",
        WARNING,
        "summaries in search",
        "Are summaries missing from the search table, in it twice, or in it although deleted?",
        why="Each summary with text has one row in the search table.",
        needs=("summaries_fts", "summaries"),
        find=_differs(
            "summary",
            (lambda seen: seen.summaries.missing, "cannot be found in the search table"),
            (lambda seen: seen.summaries.extra, "are in the search table twice, or although deleted"),
        ),
    ),
    Rule(
        "F4",
        WARNING,
        "stale search rows",
        "Does the search table contain a different text than the row?",
        why="The search table contains the same text as the row; otherwise a search finds words that are "
        "not there.",
        find=_stale_rows,
    ),
    Rule(
        "F5",
        WARNING,
        "summaries in CJK search",
        "Is the search table for Chinese, Japanese and Korean out of step?",
        why="The search table for Chinese, Japanese and Korean is filled once and then row by row; a repair "
        "of summaries by the engine does not update it.",
        needs=("summaries_fts_cjk", "summaries"),
        find=_differs(
            "summary",
            (lambda seen: seen.cjk.missing, f"cannot be found in {_CJK_TABLE}"),
            (lambda seen: seen.cjk.extra, f"are in {_CJK_TABLE} twice, or although deleted"),
            (lambda seen: seen.cjk.stale, f"have another text than {_CJK_TABLE}"),
        ),
    ),
    Rule(
        "F6",
        ERROR,
        "broken search table",
        "Can a search table not be read or searched?",
        why="A search table must be complete and readable by this SQLite. Otherwise the engine's search "
        "fails.",
        scope=CheckScope.FILE,
        unanswered="The full self-check of the index, which writes.",
        find=_broken_tables,
    ),
)


def why_not(check: Check, schema: Schema, folders: Folders) -> str:
    """Why F4 and F6, which ask of any search table, cannot be asked."""
    if check.id not in ("F4", "F6") or any(
        schema.has(f"{table}_content") or schema.has(table) for table in TABLES
    ):
        return ""
    return "this file has no search tables, which are optional from 0.3.0 on"


async def read_search(run: Run) -> None:
    """F1 to F6: the search tables against what they were filled from."""
    database, seen = run.database, SearchTables(run.conversation_id, run.limits)
    schema = database.schema
    seen.probes = [found for table in TABLES if (found := await probe(database, table)) is not None]
    if run.wants(("F1", "F2", "F4")) and schema.has(f"{MESSAGES}_content"):
        async for done, total in _compare_messages(database, run.conversation_id, seen.messages):
            run.progress(done, total)
    for table, differences, checks in ((SUMMARIES, seen.summaries, ("F3", "F4")), (CJK, seen.cjk, ("F5",))):
        if run.wants(checks) and schema.has(f"{table}_content") and schema.has("summaries"):
            await _compare_summaries(run, table, differences)
    run.ask(CHECKS, seen)


async def _compare_messages(
    database: Database, conversation_id: ConversationId | None, found: Differences
) -> AsyncIterator[tuple[int, int]]:
    """Note what the search table lacks, holds in another form, or holds although gone; a step at a time."""
    done, total = 0, await database.read(row_count, "messages")
    async for step in key_ranges(database, "messages", "message_id", _STEP):
        for row in await database.read(_differing, conversation_id, step):
            if row["missing"]:
                found.missing.add("messages", row["id"])
            elif is_stale(row["text"] or "", row["found"] or ""):
                found.stale.add(MESSAGES, row["id"])
        done = min(done + _STEP, total)
        yield done, total
    if conversation_id is None:
        async for step in key_ranges(database, f"{MESSAGES}_content", "id", _STEP):
            for row in await database.read(_orphans, step):
                found.extra.add(MESSAGES, row["id"])
            yield total, total


async def _orphans(reader: Reader, step: KeyRange) -> list[Row]:
    return await reader.rows(
        f"""SELECT f.id FROM {MESSAGES}_content AS f WHERE {step.where("f.id")}
        AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.message_id = f.id)""",
        *step.bounds,
    )


async def _differing(reader: Reader, conversation_id: ConversationId | None, step: KeyRange) -> list[Row]:
    only, keys = of_conversation("m.conversation_id", conversation_id)
    return await reader.rows(
        f"""SELECT m.message_id AS id, f.id IS NULL AS missing,
        CASE WHEN f.id IS NULL OR NOT instr(m.content, 'LCM') THEN NULL
            ELSE substr(CAST(m.content AS TEXT), 1, {_MOST_TEXT}) END AS text,
        CASE WHEN instr(f.c0, 'LCM') THEN substr(CAST(f.c0 AS TEXT), 1, {_MOST_TEXT}) END AS found
        FROM messages AS m LEFT JOIN {MESSAGES}_content AS f ON f.id = m.message_id
        WHERE {step.where("m.message_id")} AND {only}
          AND (CASE WHEN f.id IS NULL THEN trim(m.content, ?) <> '' ELSE f.c0 IS NOT m.content END)""",
        *step.bounds,
        *keys,
        BLANKS,
    )


async def _compare_summaries(run: Run, table: str, found: Differences) -> None:
    """Note the summaries that a search table lacks, holds twice, in another form, or although gone."""
    database, seen = run.database, set[str]()
    async for step in key_ranges(database, f"{table}_content", "id", _STEP):
        rows = await database.read(_summary_step, table, run.conversation_id, step)
        twice = []
        for row in rows:
            if row["id"] in seen:
                twice.append(row["row"])
            seen.add(row["id"])
            if row["stale"]:
                found.stale.add(table, row["row"])
        for rowid in (*(row["row"] for row in rows if row["gone"]), *twice):
            found.extra.add(table, rowid)
        run.moved()
    for summary_id in await database.read(_summaries_without, seen, run.conversation_id):
        found.missing.add("summaries", summary_id)


async def _summary_step(
    reader: Reader, table: str, conversation_id: ConversationId | None, step: KeyRange
) -> list[Row]:
    only, keys = of_conversation("s.conversation_id", conversation_id)
    return await reader.rows(
        f"""SELECT f.id AS row, CAST(f.c0 AS TEXT) AS id, s.summary_id IS NULL AS gone,
        (s.summary_id IS NOT NULL AND f.c1 IS NOT s.content) AS stale
        FROM {table}_content AS f LEFT JOIN summaries AS s ON s.summary_id = f.c0
        WHERE {step.where("f.id")} AND {only}""",
        *step.bounds,
        *keys,
    )


async def _summaries_without(
    reader: Reader, seen: set[str], conversation_id: ConversationId | None
) -> tuple[str, ...]:
    only, keys = of_conversation("s.conversation_id", conversation_id)
    rows = await reader.rows(
        f"""SELECT s.summary_id FROM summaries AS s
        WHERE s.summary_id IS NOT NULL AND trim(s.content, ?) <> '' AND {only}""",
        BLANKS,
        *keys,
    )
    return tuple(row["summary_id"] for row in rows if row["summary_id"] not in seen)


async def probe(database: Database, table: str) -> SearchProbe | None:
    """Whether a search table is whole and can be searched; None when this file has none."""
    schema = database.schema
    shadows = [name for name in _SHADOWS if schema.has(f"{table}_{name}")]
    if not schema.has(table):
        return SearchProbe(table, "the table itself is missing, its parts exist") if shadows else None
    lacking = [name for name in _SHADOWS if name not in shadows]
    if lacking:
        return SearchProbe(table, f"its part {table}_{lacking[0]} is missing")
    try:
        return SearchProbe(table, await database.read(_search_once, table))
    except DatabaseError as error:
        ours = isinstance(error, SearchUnavailableError)
        return SearchProbe(table, f"searching it fails ({error.__cause__ or error.message})", ours)


async def _search_once(reader: Reader, table: str) -> str:
    """Why a search table is broken; empty when it answers and its parts have the same rows."""
    await reader.rows(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT 1", '"lcm"')
    lost = await reader.value(
        f"""SELECT count(*) FROM {table}_content AS c
        WHERE NOT EXISTS (SELECT 1 FROM {table}_docsize AS d WHERE d.id = c.id)"""
    )
    extra = await reader.value(
        f"""SELECT count(*) FROM {table}_docsize AS d
        WHERE NOT EXISTS (SELECT 1 FROM {table}_content AS c WHERE c.id = d.id)"""
    )
    if lost or extra:
        return f"its parts have different rows ({lost + extra:,} of them)"
    columns = await reader.rows("SELECT name FROM pragma_table_info(?)", table)
    wanted = ["content"] if table == MESSAGES else ["summary_id", "content"]
    names = [row["name"] for row in columns]
    return "" if names[: len(wanted)] == wanted else f"it has other columns than {', '.join(wanted)}"
