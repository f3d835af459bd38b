"""Writes a benchmark database: the engine's schema at 0.15, filled in the order in which a host would have.

Messages of all conversations are interleaved by time, as they lie in a file that grew. The search tables
stay empty: no measured screen reads them, and filling them would double the time. Everything else is what the
engine writes: parts, links with ordinals, context items, hashes, keys, counters.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.passages import Pool, output, prose
from benchmarks.rows import MESSAGE_SQL, PART_SQL, MessageRow, PartRow, Rows, Session
from benchmarks.shapes import Layout, Shape, layouts
from benchmarks.summaries import SUMMARY_SQL, History, Node, SummaryRow, nodes
from lcm_tui.cli.demo import unpack_demo

FORMAT = 1  #: counts up when the same shape would give other rows
FOLDER = Path(__file__).parent / "out"
LARGEST = 1  #: id of the largest conversation, which is also the one with the newest message

_BATCH = 4_000
_INDEX_BITS = 20  #: room for a million conversations behind the time in a sort key
_START = int(datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp())
_END = int(datetime(2026, 7, 1, 18, tzinfo=UTC).timestamp())
_STATE = "/home/operator/.openclaw"
_AGENTS = ("main", "research", "ops", "writer")
_CAUSES = ("manual-reset", "session-end", "rollover-fallback", "cron-rotation")
_CHARACTERS_PER_TOKEN = 3.8  #: of stored text; with the JSON around it the mean is as wanted


def database(shape: Shape, folder: Path = FOLDER) -> Path:
    """The database of *shape* in *folder*: an old one made from the same parameters, else a new one."""
    key = hashlib.sha256(f"{FORMAT} {shape}".encode()).hexdigest()[:10]
    path = folder / f"{shape.name}-{key}.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        write(shape, part)
        part.rename(path)
    return path


def write(shape: Shape, path: Path) -> None:
    """Write the database of *shape* to the new file *path*, with no WAL beside it."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-1000000"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        statements, steps = engine_schema()
        for statement in statements:
            connection.execute(statement)
        connection.executemany("INSERT INTO lcm_migration_state VALUES (?,?,?)", steps)
        connection.execute("COMMIT")
        _Writer(connection, shape).run()
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def engine_schema() -> tuple[list[str], list[tuple[str, int, str]]]:
    """The statements that make the engine's tables and indexes, and its record of migrations.

    Both are read from the demonstration database of the package, which the engine wrote at 0.15.3.
    """
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(unpack_demo(Path(folder)).database)
        try:
            rows: list[tuple[str, str]] = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            steps: list[tuple[str, int, str]] = connection.execute(
                "SELECT step_name, algorithm_version, completed_at FROM lcm_migration_state"
            ).fetchall()
        finally:
            connection.close()
    virtual = tuple(f"{name}_" for name, sql in rows if sql.upper().startswith("CREATE VIRTUAL TABLE"))
    engine = [
        sql for name, sql in rows if not name.startswith((*virtual, "lcm_tui_")) or "VIRTUAL" in sql.upper()
    ]
    return engine, steps


def stamp(seconds: int) -> str:
    """A time in the form of SQL defaults, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(seconds: int) -> str:
    """A time in the form of summary ranges, UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class _Writer:
    def __init__(self, connection: sqlite3.Connection, shape: Shape) -> None:
        self._db = connection
        self._shape = shape
        self._rng = random.Random(shape.seed)
        self._prose: Pool = prose(random.Random(shape.seed + 1))
        self._output: Pool = output(random.Random(shape.seed + 2))
        self._rows = Rows(self._rng, self._prose, self._output)

    def run(self) -> None:
        plan = layouts(self._shape)
        windows = [self._window(index) for index in range(len(plan))]
        order = sorted(range(len(plan)), key=lambda index: windows[index][0])
        plan, windows = [plan[index] for index in order], [windows[index] for index in order]
        sessions = self._conversations(plan, windows)
        histories = self._messages(plan, windows, sessions)
        self._graphs(plan, sessions, histories)

    def _window(self, index: int) -> tuple[int, int]:
        """First and last second of a conversation; the largest spans all the time and ends last."""
        if index == 0:
            return _START, _END
        first = self._rng.randrange(_START + 3600, _END - 40 * 3600)
        latest = _END - self._rng.randrange(3600, 30 * 3600)
        return first, min(latest, first + 1200 + int(self._rng.expovariate(1 / (6 * 86400))))

    def _conversations(self, plan: list[Layout], windows: list[tuple[int, int]]) -> list[Session]:
        sessions, rows, states = [], [], []
        for number, (layout, (first, last)) in enumerate(zip(plan, windows, strict=True), 1):
            largest = layout.messages == self._shape.largest_messages
            session_id = self._rows.part_id()
            agent = "main" if largest else self._rng.choice(_AGENTS)
            lane = self._rng.choice(("telegram:direct", "cron", "subagent", "discord:channel"))
            session_key = None if number % 23 == 7 else f"agent:{agent}:{lane}:{700_000 + number}"
            archived = not largest and self._rng.random() < 0.6
            cause = self._rng.choice(_CAUSES) if archived else None
            at = stamp(first)
            archived_at = iso(last + 60) if archived else None
            rows.append((number, session_id, session_key, int(not archived), archived_at, cause, at, at, at))
            size = layout.messages * 900
            path = f"{_STATE}/agents/{agent}/sessions/{session_id}.jsonl"
            states.append((number, path, size, last * 1000, size, stamp(last)))
            length = self._shape.mean_tokens(largest) * _CHARACTERS_PER_TOKEN
            sessions.append(Session(number, session_id, length))
        with self._transaction():
            self._db.executemany(
                """INSERT INTO conversations (conversation_id, session_id, session_key, active, archived_at,
                archive_cause, bootstrapped_at, created_at, updated_at)
                VALUES (?,?,?,?,?,?,?,?,?)""",
                rows,
            )
            self._db.executemany(
                """INSERT INTO conversation_bootstrap_state (conversation_id, session_file_path,
                last_seen_size, last_seen_mtime_ms, last_processed_offset, updated_at)
                VALUES (?,?,?,?,?,?)""",
                states,
            )
        return sessions

    def _messages(
        self, plan: list[Layout], windows: list[tuple[int, int]], sessions: list[Session]
    ) -> list[History]:
        histories = [History() for _ in plan]
        messages: list[MessageRow] = []
        parts: list[PartRow] = []
        for message_id, (at, index) in enumerate(_timeline(plan, windows), 1):
            row, own_parts = self._rows.message(sessions[index], message_id, stamp(at))
            messages.append(row)
            parts += own_parts
            history = histories[index]
            history.ids.append(message_id)
            history.tokens.append(row[5])
            history.times.append(at)
            if len(messages) == _BATCH:
                self._flush(messages, parts)
        self._flush(messages, parts)
        return histories

    def _flush(self, messages: list[MessageRow], parts: list[PartRow]) -> None:
        with self._transaction():
            self._db.executemany(MESSAGE_SQL, messages)
            self._db.executemany(PART_SQL, parts)
        messages.clear()
        parts.clear()

    def _graphs(self, plan: list[Layout], sessions: list[Session], histories: list[History]) -> None:
        for layout, session, history in zip(plan, sessions, histories, strict=True):
            with self._transaction():
                roots: list[Node] = []
                for made in nodes(layout, history, self._rng, self._prose, self._shape.max_depth):
                    if isinstance(made, list):
                        roots = made
                    else:
                        self._summary(session.conversation_id, made, history)
                self._context(session.conversation_id, roots, history, layout.covered)

    def _summary(self, conversation_id: int, node: Node, history: History) -> None:
        kind = "condensed" if node.sources else "leaf"
        row: SummaryRow = (
            node.summary_id, conversation_id, kind, node.depth, node.text, node.tokens,
            iso(node.earliest), iso(node.latest), node.descendants, node.descendant_tokens,
            node.message_tokens, stamp(node.created), "[]", node.model,
        )  # fmt: skip
        node.text = ""
        self._db.execute(SUMMARY_SQL, row)
        self._db.executemany(
            "INSERT INTO summary_messages (summary_id, message_id, ordinal) VALUES (?,?,?)",
            [(node.summary_id, history.ids[place], number) for number, place in enumerate(node.messages)],
        )
        self._db.executemany(
            "INSERT INTO summary_parents (summary_id, parent_summary_id, ordinal) VALUES (?,?,?)",
            [(node.summary_id, source.summary_id, number) for number, source in enumerate(node.sources)],
        )

    def _context(self, conversation_id: int, roots: list[Node], history: History, covered: int) -> None:
        items: list[tuple[str, int | None, str | None, str]] = [
            ("summary", None, node.summary_id, stamp(node.created)) for node in roots
        ]
        items += [
            ("message", history.ids[place], None, stamp(history.times[place]))
            for place in range(covered, len(history.ids))
        ]
        self._db.executemany(
            """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id, summary_id,
            created_at) VALUES (?,?,?,?,?,?)""",
            [(conversation_id, ordinal, *item) for ordinal, item in enumerate(items)],
        )

    def _transaction(self) -> sqlite3.Connection:
        self._db.execute("BEGIN")
        return self._db  # as a context manager it commits


def _timeline(plan: list[Layout], windows: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Time and conversation index of every message of the database, oldest first."""
    keys = []
    for index, (layout, (first, last)) in enumerate(zip(plan, windows, strict=True)):
        step = (last - first) / layout.messages
        keys += [(first + int(step * (place + 1)) << _INDEX_BITS) | index for place in range(layout.messages)]
    keys.sort()
    return ((key >> _INDEX_BITS, key & (1 << _INDEX_BITS) - 1) for key in keys)
