"""A commit makes exactly the change that was planned, or none, and says why in a sentence."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lcm_core.api import (
    Database,
    DatabaseError,
    DatabaseMissingError,
    ExitCode,
    LcmError,
    RefusedError,
    StalePlanError,
    plan_dissolve,
    plan_undo,
)
from lcm_core.base.errors import CancelledError
from lcm_core.change.commit import commit, commit_plan
from lcm_core.change.connection import Writer, explained
from lcm_core.change.journal import pack
from lcm_core.change.plan import (
    BusyError,
    Cells,
    DiskFullError,
    Item,
    Move,
    ReadOnlyError,
    ReplacedError,
    RowChange,
    Symbol,
    SymbolKind,
    deletion,
    deletions,
    insertion,
    key_of,
    renumbering,
)
from lcm_core.store.opening import Access

from tests.change.support import (
    REAL,
    context_of,
    delete,
    dissolvable,
    dump,
    item_row,
    plan_of,
    planned,
    row_of,
    rows_of,
    search_faults,
    splice,
    summary_row,
    update,
)
from tests.databases import connect, query, run, value

ATTEMPTS = 3

JOURNAL = "SELECT count(*) FROM sqlite_master WHERE name = 'lcm_tui_operations'"


def refused(path: Path, plan, kind: type[LcmError], **options: object) -> LcmError:
    """The error of a commit that leaves everything as it was."""
    before, journal = dump(path), value(path, JOURNAL)
    with pytest.raises(kind) as caught:
        commit(path, plan, **options)
    assert dump(path) == before
    assert value(path, JOURNAL) == journal
    assert value(path, "PRAGMA integrity_check") == "ok"
    assert "\n" not in caught.value.message
    assert caught.value.message.endswith(".")
    return caught.value


# -- what goes -------------------------------------------------------------------------------------------


def test_rows_change_as_planned_and_nothing_else(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf'")
    plan = plan_of(
        update(path, "summaries", "summary_id", leaf, content="rewritten", token_count=3),
        *delete(path, "message_parts", message_id=1),
        insertion(
            "large_files", row_of(path, "large_files", "rowid", 1).but(file_id="file_00000000000000aa")
        ),
    )
    done = commit(path, plan)
    after = dump(path)
    assert {table for table in before if before[table] != after[table]} == {
        "summaries",
        "message_parts",
        "large_files",
    }
    assert value(path, "SELECT content FROM summaries WHERE summary_id = ?", leaf) == "rewritten"
    assert value(path, "SELECT count(*) FROM message_parts WHERE message_id = 1") == 0
    assert {(one.table, one.insert, one.update, one.delete) for one in done.operation.rows} == {
        ("large_files", 1, 0, 0),
        ("message_parts", 0, 0, len(before["message_parts"]) - len(after["message_parts"])),
        ("summaries", 0, 1, 0),
    }
    assert search_faults(path) == []


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_new_rows_get_ids_seq_and_ordinals_of_the_moment(database_copy, version):
    path = database_copy(version)
    before = dump(path)
    template = rows_of(path, "SELECT * FROM messages WHERE conversation_id = 2 LIMIT 1")[0]
    plain = {
        name: None
        for name in ("identity_hash", "transcript_entry_id", "stable_event_key")
        if name in template
    }
    symbols = [Symbol(f"new:{number}", SymbolKind.ID) for number in (1, 2)]
    edits = []
    for symbol in symbols:
        row = template.but(
            message_id=symbol,
            seq=Symbol(f"{symbol.name}:seq", SymbolKind.SEQ),
            content="later words",
            **plain,
        )
        item = item_row(2, symbol).but(ordinal=Symbol(f"{symbol.name}:at", SymbolKind.ORDINAL))
        edits += [insertion("messages", row), insertion("context_items", item)]
    plan = plan_of(*edits, conversation_id=2)
    last_seq = value(path, "SELECT max(seq) FROM messages WHERE conversation_id = 2")
    run(path, *_append(2, last_seq + 1))  # the host was faster
    appended = dump(path)
    done = commit(path, plan)
    new = rows_of(path, "SELECT * FROM messages WHERE content = 'later words' ORDER BY message_id")
    assert [row["seq"] for row in new] == [last_seq + 2, last_seq + 3]
    items = context_of(path, 2)
    assert [ref for _, ref in items[-2:]] == [row["message_id"] for row in new]
    assert items[-1][0] == items[-3][0] + 2
    assert search_faults(path) == []
    undo = asyncio.run(planned(path, plan_undo, done.id))
    commit(path, undo)
    assert dump(path) == appended
    assert before.keys() == appended.keys()


def _append(conversation_id: int, seq: int) -> list[str]:
    return [
        f"""INSERT INTO messages (conversation_id, seq, role, content, token_count)
        VALUES ({conversation_id}, {seq}, 'user', 'appended', 3)""",
        "INSERT INTO messages_fts (rowid, content) VALUES (last_insert_rowid(), 'appended')",
        f"""INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
        SELECT {conversation_id}, max(ordinal) + 1, 'message', (SELECT max(message_id) FROM messages)
        FROM context_items WHERE conversation_id = {conversation_id}""",
    ]


def test_a_new_conversation_takes_rows_that_refer_to_it(database_copy):
    path = database_copy("0.15.3")
    before = dump(path)
    mine, message = Symbol("new:c", SymbolKind.ID), Symbol("new:m", SymbolKind.ID)
    conversation = row_of(path, "conversations", "conversation_id", 1).but(
        conversation_id=mine, session_key="agent:new:one", session_id="s"
    )
    said = rows_of(path, "SELECT * FROM messages WHERE message_id = 1")[0].but(
        message_id=message,
        conversation_id=mine,
        seq=Symbol("new:s", SymbolKind.SEQ),
        transcript_entry_id=None,
        stable_event_key=None,
    )
    item = item_row(0, message).but(conversation_id=mine, ordinal=Symbol("new:o", SymbolKind.ORDINAL))
    plan = plan_of(
        insertion("conversations", conversation),
        insertion("messages", said),
        insertion("context_items", item),
        conversation_id=None,
    )
    done = commit(path, plan)
    new = value(path, "SELECT conversation_id FROM conversations WHERE session_id = 's'")
    assert context_of(path, new) == [
        (0, value(path, "SELECT message_id FROM messages WHERE conversation_id = ?", new))
    ]
    assert value(path, "SELECT seq FROM messages WHERE conversation_id = ?", new) == 1
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before


@pytest.mark.long
def test_text_that_is_no_utf8_and_blobs_go_and_come_back_as_bytes(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        "UPDATE messages SET content = CAST(x'ff41ed' AS TEXT) WHERE message_id = 5",
        "UPDATE message_parts SET part_id = CAST(x'fe' AS TEXT), metadata = x'00ff' WHERE message_id = 5",
        "UPDATE large_files SET byte_size = 9.5e300, file_name = 'a' || char(0) || 'b' WHERE rowid = 1",
        "DELETE FROM messages_fts WHERE rowid = 5",
    )
    before = dump(path)
    plan = plan_of(
        *delete(path, "message_parts", message_id=5),
        update(path, "messages", "message_id", 5, content="clean"),
        *delete(path, "large_files", rowid=1),
    )
    done = commit(path, plan)
    assert value(path, "SELECT content FROM messages WHERE message_id = 5") == "clean"
    assert value(path, "SELECT content FROM messages_fts WHERE rowid = 5") == "clean"
    commit(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert dump(path) == before
    assert value(path, "SELECT hex(content) FROM messages WHERE message_id = 5") == "FF41ED"


def test_what_is_not_to_be_journaled_leaves_no_journal(database_copy):
    path = database_copy("0.8.2")
    leaf = value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf'")
    done = commit(path, plan_of(update(path, "summaries", "summary_id", leaf, content="x")), journal=False)
    assert done.operation is None
    assert done.id == ""
    assert value(path, JOURNAL) == 0


# -- stale -----------------------------------------------------------------------------------------------


def _leaf(path: Path) -> str:
    return value(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' ORDER BY rowid")


STALE = {
    "the key of a new row is taken": (
        lambda path: insertion("summaries", summary_row(path, "sum_00000000000000aa", kind="leaf")),
        """INSERT INTO summaries (summary_id, conversation_id, kind, content, token_count)
        VALUES ('sum_00000000000000aa', 1, 'leaf', 'x', 1)""",
        "summaries sum_00000000000000aa was not there, now there",
    ),
    "something that must be unique is taken": (
        lambda path: insertion(
            "messages",
            row_of(path, "messages", "message_id", 1).but(
                message_id=Symbol("new:1", SymbolKind.ID),
                seq=7_000,
                transcript_entry_id=None,
                stable_event_key=None,
            ),
        ),
        "UPDATE messages SET seq = 7000 WHERE message_id = 2 AND conversation_id = 1",
        "table messages was free",
    ),
    "a value has changed": (
        lambda path: update(path, "summaries", "summary_id", _leaf(path), content="new"),
        "UPDATE summaries SET content = content || '!'",
        "content was",
    ),
    "a value has the same bytes and another type": (
        lambda path: update(path, "summaries", "summary_id", _leaf(path), content="new"),
        "UPDATE summaries SET content = CAST(content AS BLOB)",
        "bytes",
    ),
    "a NULL has become something": (
        lambda path: update(path, "conversations", "conversation_id", 1, archived_at="now"),
        "UPDATE conversations SET archived_at = '' WHERE conversation_id = 1",
        "archived_at was NULL",
    ),
    "the row that changes is gone": (
        lambda path: update(path, "conversation_bootstrap_state", "conversation_id", 1, last_seen_size=0),
        "DELETE FROM conversation_bootstrap_state WHERE conversation_id = 1",
        "conversation_bootstrap_state 1 was there, now gone",
    ),
    "the row that goes has changed elsewhere": (
        lambda path: delete(path, "conversation_bootstrap_state", conversation_id=1)[0],
        "UPDATE conversation_bootstrap_state SET last_seen_size = last_seen_size + 1",
        "last_seen_size",
    ),
    "the row that goes is gone": (
        lambda path: delete(path, "conversation_bootstrap_state", conversation_id=1)[0],
        "DELETE FROM conversation_bootstrap_state",
        "was there, now gone",
    ),
    "a column is gone": (
        lambda path: update(path, "conversations", "conversation_id", 1, title="t"),
        "ALTER TABLE conversations DROP COLUMN title",
        "column conversations.title was there, now gone",
    ),
    "a table is gone": (
        lambda path: delete(path, "focus_brief_sources", role="cited")[0],
        "DROP TABLE focus_brief_sources",
        "table focus_brief_sources was there, now gone",
    ),
    "an item is no longer in the context": (
        lambda path: splice(path, 1, 6, 1, *()),
        "DELETE FROM context_items WHERE conversation_id = 1 AND ordinal = 6",
        "no longer in the context",
    ),
    "the first of several items is no longer in the context": (
        lambda path: splice(path, 1, 6, 3, *()),
        "DELETE FROM context_items WHERE conversation_id = 1 AND ordinal = 6",
        "around message 850 and 2 more",
    ),
    "an item stands there anew": (
        lambda path: splice(path, 1, 0, 1, *()),
        "UPDATE context_items SET created_at = 'later' WHERE conversation_id = 1 AND ordinal = 0",
        "created_at",
    ),
    "an item has another ordinal than is renumbered": (
        lambda path: renumbering(1, (Move(Item(context_of(path, 1)[-1][1]), 21, 30),)),
        "UPDATE context_items SET ordinal = 25 WHERE conversation_id = 1 AND ordinal = 21",
        "no longer at ordinal 21",
    ),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("case", STALE)
def test_a_plan_whose_rows_have_changed_is_stale(database_copy, case):
    path = database_copy("0.15.3")
    make, meanwhile, said = STALE[case]
    plan = plan_of(make(path))
    run(path, meanwhile)
    error = refused(path, plan, StalePlanError)
    assert isinstance(error, StalePlanError)
    assert said in error.message
    assert error.moved
    assert error.exit_code == ExitCode.STALE


def test_a_stale_plan_lists_everything_that_moved(database_copy):
    path = database_copy("0.15.3")
    leaves = [row[0] for row in query(path, "SELECT summary_id FROM summaries WHERE kind = 'leaf' LIMIT 5")]
    plan = plan_of(*(update(path, "summaries", "summary_id", leaf, content="new") for leaf in leaves))
    marks = ", ".join(f"'{leaf}'" for leaf in leaves)
    run(path, f"UPDATE summaries SET content = 'other' WHERE summary_id IN ({marks})")
    error = refused(path, plan, StalePlanError)
    assert isinstance(error, StalePlanError)
    assert len(error.moved) == 5
    assert "and 2 more" in error.message


@pytest.mark.cases(3)
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("step", ["opened", "looked up", "checked before"])
@pytest.mark.parametrize("harmless", [True, False])
def test_what_the_host_writes_right_before_the_lock_counts(database_copy, mode, step, harmless):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    with connect(path) as host:
        host.execute("SELECT count(*) FROM messages").fetchone()
        conversation, summary = dissolvable(path)[0]
        plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))
        meanwhile = (
            "UPDATE conversations SET title = 'host' WHERE conversation_id = 2"
            if harmless
            else f"UPDATE summaries SET content = content || '!' WHERE summary_id = '{summary}'"
        )

        def fault(name: str) -> None:
            if name == step:
                host.execute(meanwhile)

        if harmless:
            commit(path, plan, fault=fault)
            assert value(path, "SELECT title FROM conversations WHERE conversation_id = 2") == "host"
        else:
            with pytest.raises(StalePlanError, match="content was"):
                commit(path, plan, fault=fault)
        assert value(path, JOURNAL) == harmless


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_host_that_always_writes_in_between_outruns_no_commit(database_copy, mode):
    """It takes the ids, the seq and the ordinal that were worked out, each time; at last it has to wait."""
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    template = row_of(path, "messages", "message_id", 1)
    plain = {"transcript_entry_id": None, "stable_event_key": None}
    new, seq = Symbol("new:1", SymbolKind.ID), Symbol("s", SymbolKind.SEQ)
    plan = plan_of(
        insertion("messages", template.but(message_id=new, seq=seq, content="ours", **plain)),
        insertion("context_items", item_row(1, new).but(ordinal=Symbol("o", SymbolKind.ORDINAL))),
    )
    steps: list[str] = []

    def host(name: str) -> None:
        steps.append(name)
        if name in ("checked before", "checked again"):
            run(
                path,
                """INSERT INTO messages (conversation_id, seq, role, content, token_count)
                SELECT 1, max(seq) + 1, 'user', 'theirs', 3 FROM messages WHERE conversation_id = 1""",
                """INSERT INTO context_items (conversation_id, ordinal, item_type, message_id)
                SELECT 1, max(ordinal) + 1, 'message', (SELECT max(message_id) FROM messages)
                FROM context_items WHERE conversation_id = 1""",
                """INSERT INTO messages_fts (rowid, content)
                SELECT message_id, content FROM messages ORDER BY message_id DESC LIMIT 1""",
            )

    before = context_of(path, 1)
    done = commit(path, plan, fault=host)
    assert steps.count("checked again") == ATTEMPTS - 1
    assert steps.count("begun") == ATTEMPTS
    tail = [ref for _, ref in context_of(path, 1)[len(before) :]]
    texts = [value(path, "SELECT content FROM messages WHERE message_id = ?", ref) for ref in tail]
    assert texts == ["theirs"] * ATTEMPTS + ["ours"]
    assert done.edits[0].row["message_id"] == tail[-1]
    assert search_faults(path) == []
    undo = asyncio.run(planned(path, plan_undo, done.id))
    commit(path, undo)
    assert [ref for _, ref in context_of(path, 1)[len(before) :]] == tail[:-1]


def test_a_host_that_always_writes_makes_a_plan_stale_that_does_not_fit(database_copy):
    path = database_copy("0.15.3")
    leaf = _leaf(path)
    plan = plan_of(update(path, "summaries", "summary_id", leaf, content="new"))
    steps: list[str] = []

    def host(name: str) -> None:
        steps.append(name)
        if name == "checked again":
            text = f"version {len(steps)}"
            run(path, f"UPDATE summaries SET content = '{text}' WHERE summary_id = '{leaf}'")
        elif name == "checked before":
            run(path, "UPDATE conversations SET title = 'host' WHERE conversation_id = 2")

    with pytest.raises(StalePlanError, match="content was"):
        commit(path, plan, fault=host)
    assert value(path, "SELECT content FROM summaries WHERE summary_id = ?", leaf).startswith("version")


def test_a_migration_right_before_the_lock_counts(database_copy):
    path = database_copy("0.15.3")
    conversation, summary = dissolvable(path)[0]
    plan = asyncio.run(planned(path, plan_dissolve, conversation, [summary]))

    def migrate(name: str) -> None:
        if name == "checked before":
            run(path, "ALTER TABLE summaries ADD COLUMN mood TEXT DEFAULT 'calm'")

    done = commit(path, plan, fault=migrate)
    [gone] = [edit for edit in deletions(done.edits) if edit.table == "summaries"]
    assert gone.before["mood"] == "calm"


def test_two_rows_without_a_key_are_never_taken_for_each_other(database_copy):
    path = database_copy("0.15.3")
    row = summary_row(path, "x").but(summary_id=None, kind="leaf")
    names = ", ".join(row.columns)
    for content in ("one", "two"):
        values = ", ".join("?" * len(row.columns))
        with connect(path) as connection:
            connection.execute(
                f"INSERT INTO summaries ({names}) VALUES ({values})",
                [content if name == "content" else cell for name, cell in row.values],
            )
    before = row.but(content="one")
    refused(path, plan_of(deletion("summaries", before)), StalePlanError)


# -- refused ---------------------------------------------------------------------------------------------


def test_a_trigger_that_writes_along_is_noticed(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        """CREATE TRIGGER nosy AFTER UPDATE ON summaries BEGIN
        UPDATE conversations SET title = 'seen' WHERE conversation_id = 2; END""",
    )
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    assert "trigger" in refused(path, plan, RefusedError).message


@pytest.mark.parametrize(
    "changed", [{"role": "robot"}, {"content": None}], ids=["a check of the schema", "a value is required"]
)
def test_a_row_that_the_schema_does_not_take_is_refused(database_copy, changed):
    path = database_copy("0.15.3")
    plan = plan_of(update(path, "messages", "message_id", 1, **changed))
    assert "rejected a row" in refused(path, plan, RefusedError).message


def test_an_empty_plan_is_refused(database_copy):
    path = database_copy("0.15.3")
    assert "nothing to change" in refused(path, plan_of(), RefusedError).message


@pytest.mark.parametrize("edit", ["insert", "update", "delete"])
def test_context_items_change_by_splices_alone(database_copy, edit):
    path = database_copy("0.15.3")
    row = rows_of(path, "SELECT * FROM context_items LIMIT 1")[0]
    key = key_of("context_items", row)
    edits = {
        "insert": insertion("context_items", row.but(ordinal=500)),
        "update": RowChange(
            "context_items", key, Cells.of({"ordinal": row["ordinal"]}), Cells.of({"ordinal": 9})
        ),
        "delete": deletion("context_items", row),
    }
    with pytest.raises(ValueError, match="Splice"):
        commit(path, plan_of(edits[edit]))


# -- the file --------------------------------------------------------------------------------------------

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
connection.execute("SELECT count(*) FROM messages").fetchone()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("mode", "held"),
    [
        ("wal", "BEGIN IMMEDIATE"),
        ("delete", "BEGIN IMMEDIATE"),
        ("delete", "BEGIN"),  # a reader that does not end lets nobody commit in a file without a WAL
    ],
)
def test_a_lock_that_somebody_keeps_is_waited_for_and_told(database_copy, mode, held):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    before = dump(path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), held], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError) as caught:
            commit(path, plan, wait=0.3)
    finally:
        holder.communicate()
    assert caught.value.waited >= 0.3
    assert caught.value.exit_code == ExitCode.BUSY
    assert f"{caught.value.waited:.1f} s" in caught.value.message
    assert dump(path) == before
    commit(path, plan)


def test_readers_of_a_file_with_a_wal_are_in_nobodys_way(database_copy):
    path = database_copy("0.15.3")
    run(path, "PRAGMA journal_mode = wal")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), "BEGIN"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        commit(path, plan, wait=0.3)
    finally:
        holder.communicate()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_file_that_cannot_be_reached_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ReadOnlyError, match="cannot be reached"):
        commit(tmp_path / "file" / "lcm.db", plan_of(insertion("summaries", Cells.of({"summary_id": "x"}))))


#: A commit by somebody who may only read; root may always write, so it becomes somebody else first.
AS_READER = """
import os, sys, urllib.parse  # which pathlib wants, and who may only read may not read it then
sys.path[:0] = sys.argv[3:]
from lcm_core.change.commit import commit
from lcm_core.change.journal import unpack
from lcm_core.change.plan import Plan
from lcm_core.base.errors import LcmError
from pathlib import Path
plan = Plan("test", "A test", 1, unpack(Path(sys.argv[2]).read_bytes()))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    commit(Path(sys.argv[1]), plan)
except LcmError as error:
    print(type(error).__name__, error.exit_code.value, error.message)
"""


@pytest.mark.long
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555)])
def test_a_file_or_folder_that_cannot_be_written_is_told(
    database_file, open_folder, mode, file_mode, folder_mode
):
    path = Path(shutil.copyfile(database_file("0.15.3"), open_folder / "lcm.db"))
    run(path, f"PRAGMA journal_mode = {mode}")
    (path.parent / "plan").write_bytes(
        pack([update(path, "summaries", "summary_id", _leaf(path), content="new")])
    )
    before, beside = dump(path), sorted(path.parent.iterdir())
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_READER, str(path), str(path.parent / "plan"), *sys.path],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.parent.chmod(0o755)
        path.chmod(0o600)
    assert done.stdout.startswith(f"{ReadOnlyError.__name__} 5 {path} cannot be written"), done.stderr
    assert sorted(path.parent.iterdir()) == beside
    assert dump(path) == before


def test_no_room_for_the_shared_memory_is_told_as_a_full_disk(tmp_path, monkeypatch):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    usage = shutil.disk_usage(tmp_path)
    assert not isinstance(explained(error, tmp_path / "lcm.db", 0.0), DiskFullError)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=8192))
    assert isinstance(explained(error, tmp_path / "lcm.db", 0.0), DiskFullError)


def test_a_full_disk_changes_nothing(database_copy, monkeypatch):
    path = database_copy("0.15.3")
    begin = Writer.begin

    def begin_with_no_room(writer: Writer) -> None:
        writer.execute("PRAGMA max_page_count = 1")  # SQLite makes it the present size
        begin(writer)

    monkeypatch.setattr(Writer, "begin", begin_with_no_room)
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="long " * 100_000))
    error = refused(path, plan, DiskFullError)
    assert error.exit_code == ExitCode.DATABASE
    assert "full" in error.message


def test_a_file_that_was_replaced_is_not_touched(database_copy):
    path = database_copy("0.15.3")
    inode = path.stat().st_ino
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    other = path.with_name("other.db")
    shutil.copyfile(path, other)
    other.replace(path)
    assert path.stat().st_ino != inode
    error = refused(path, plan, ReplacedError, inode=inode)
    assert error.exit_code == ExitCode.STALE
    commit(path, plan, inode=path.stat().st_ino)


def test_a_file_that_is_gone_is_not_created(tmp_path):
    with pytest.raises(DatabaseMissingError):
        commit(tmp_path / "gone.db", plan_of(insertion("summaries", Cells.of({"summary_id": "x"}))))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_another_kind_of_file_is_told(tmp_path, content):
    path = tmp_path / "lcm.db"
    path.write_bytes(content)
    with pytest.raises(LcmError) as caught:
        commit(path, plan_of(insertion("summaries", Cells.of({"summary_id": "x"}))))
    assert isinstance(caught.value, DatabaseError | StalePlanError)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_commit_leaves_nothing_beside_the_file(database_copy, mode):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    commit(path, plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new")))
    assert os.listdir(path.parent) == ["lcm.db"]


async def test_a_screen_reads_what_it_committed(database_copy):
    path = database_copy("0.15.3")
    conversation_id, summary_id = dissolvable(path)[0]
    async with await Database.open(path) as database:
        plan = await database.read(plan_dissolve, conversation_id, [summary_id])
        done = await commit_plan(database, plan)
        undo = await database.read(plan_undo, done.id)
        await commit_plan(database, undo)
        again = await database.read(plan_dissolve, conversation_id, [summary_id])
    assert set(deletions(again.edits)) == set(deletions(plan.edits))


async def test_what_made_a_plan_stale_is_seen_by_the_next_plan(database_copy):
    """A file without a WAL is read as one that never changes, until somebody looks at it again."""
    path = database_copy("0.15.3")
    run(path, "PRAGMA journal_mode = wal")
    conversation_id, summary_id = dissolvable(path)[0]
    async with await Database.open(path) as database:
        assert database.access is Access.IMMUTABLE
        with connect(path) as host:
            plan = await database.read(plan_dissolve, conversation_id, [summary_id])
            host.execute("UPDATE summaries SET content = 'new' WHERE summary_id = ?", [summary_id])
            with pytest.raises(StalePlanError):
                await commit_plan(database, plan)
            again = await database.read(plan_dissolve, conversation_id, [summary_id])
            await commit_plan(database, again)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
async def test_a_commit_that_nobody_waits_for_any_more_is_given_up(database_copy, mode, kind):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    before = dump(path)
    async with await Database.open(path) as database:
        with connect(path) as holder:
            holder.execute(f"BEGIN {kind}")
            task = asyncio.create_task(commit_plan(database, plan, wait=60))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait((task,), timeout=60)
            assert task.cancelled()
            holder.execute("ROLLBACK")
    assert dump(path) == before


def test_who_stops_while_the_lock_is_taken_changes_nothing(database_copy):
    path = database_copy("0.15.3")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    before, asked = dump(path), []
    with pytest.raises(CancelledError, match="nothing was changed") as caught:
        commit(path, plan, stopped=lambda: not asked.append(1))
    assert caught.value.exit_code is ExitCode.CANCELLED
    assert dump(path) == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_commit_that_has_the_lock_is_made(database_copy, mode):
    path = database_copy("0.15.3")
    run(path, f"PRAGMA journal_mode = {mode}")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    steps: list[str] = []
    done = commit(path, plan, fault=steps.append, stopped=lambda: "begun" in steps)
    assert done.id
    assert value(path, "SELECT content FROM summaries WHERE summary_id = ?", _leaf(path)) == "new"


def test_whoever_can_be_stopped_still_waits_to_the_bound(database_copy):
    path = database_copy("0.15.3")
    plan = plan_of(update(path, "summaries", "summary_id", _leaf(path), content="new"))
    with connect(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError) as caught:
            commit(path, plan, wait=0.3, stopped=lambda: False)
        holder.execute("ROLLBACK")
    assert caught.value.waited >= 0.3
