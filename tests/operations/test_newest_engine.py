"""Files of the 1.x line: every change and its undo leave the same rows, those that would cascade too."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import (
    Database,
    ExitCode,
    plan_archive,
    plan_dissolve,
    plan_merge,
    plan_transplant,
    plan_undo_batch,
)
from lcm_core.change.commit import commit
from lcm_core.change.journal import operations
from lcm_core.operations.export import export_conversation, plan_import, read_conversation_file
from lcm_core.operations.prune import Criteria, TranscriptFolders, plan_delete, select
from lcm_core.operations.rewrite import plan_rewrite
from lcm_core.store.conversations import get_conversation
from lcm_host.appending import plan_new_session

from tests.change.support import Rows, dissolvable, dump, planned, reading, search_faults, undo, unpacked
from tests.cli.support import run as run_command
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, query, run, value
from tests.operations.drafting import setting_of
from tests.operations.fixing import findings_of, fixes_of
from tests.support import sampled, unpack_database

NOW = datetime(2026, 9, 20, 14, tzinfo=UTC)
FILES = ("1.1.1-next", "1.1-later", "1.1.0-shapes", "1.1.0-upgraded")
CURSORS, KEYS, GAPS = (
    "conversation_transcript_cursors",
    "transcript_user_replay_keys",
    "conversation_transcript_gaps",
)
NOTED = (CURSORS, KEYS, GAPS)
#: No batch of the engine is active any more: nothing but that stands in the way of a change.
ENDED = "UPDATE pending_compaction_batches SET status = 'stale'"
#: What the host was told never happened: conversation 9 is an earlier part of conversation 10's session.
SPLIT = (
    "UPDATE conversations SET active = 0, archive_cause = 'rollover-fallback', "
    "session_key = (SELECT session_key FROM conversations WHERE conversation_id = 10) "
    "WHERE conversation_id = 9"
)


def made_and_undone(path: Path, plans) -> Rows:
    """Commit, undo, redo, undo: each leaves what it should; the rows in between."""
    before, faults = dump(path), set(search_faults(path))  # the file has a few of its own
    done = [commit(path, plan) for plan in plans]
    after = dump(path)
    assert after != before
    assert set(search_faults(path)) <= faults
    if len(done) == 1:
        undone = undo(path, done[0].id)
        assert dump(path) == before
        again = undo(path, undone.id)
        assert dump(path) == after
        undo(path, again.id)
    else:
        assert done[0].operation is not None
        batch = done[0].operation.batch
        back = [undo(path, one.id) for one in reversed(done)] if batch is None else undo_batch(path, batch)
        assert len(back) == len(done)
    assert dump(path) == before
    assert set(search_faults(path)) <= faults
    assert query(path, "PRAGMA foreign_key_check") == []
    return after


def undo_batch(path: Path, batch: str) -> Sequence[object]:
    async def load(reader):
        return await plan_undo_batch(reader, batch)

    return [commit(path, plan) for plan in asyncio.run(reading(path, load))]


def rows_in(found: Rows, table: str) -> list[dict[str, object]]:
    return [unpacked(row) for row in found.get(table, [])]


def deletions(path: Path, conversation: int):
    return asyncio.run(planned(path, plan_delete, [conversation])).plans


@pytest.mark.long
@pytest.mark.parametrize("chosen", [1, 2, 6, pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize("version", sampled(FILES, ["1.1-later"]))
def test_a_conversation_is_deleted_and_brought_back(
    database_copy: DatabaseFactory, version: str, chosen: int | None
):
    """None: each of them, one after the other."""
    path = database_copy(version)
    run(path, ENDED)
    owners = column(path, "SELECT conversation_id FROM conversations ORDER BY 1")
    for owner in owners if chosen is None else [chosen]:
        after = made_and_undone(path, deletions(path, owner))
        for table, found in after.items():
            left = [one for one in map(unpacked, found) if one.get("conversation_id") == owner]
            assert left == [], table
        assert len(rows_in(after, "conversations")) == len(owners) - 1


@pytest.mark.long
def test_a_gap_of_another_conversation_only_loses_its_neighbours(database_copy: DatabaseFactory):
    """No engine writes that; the schema does with it what SQLite would."""
    path = database_copy("1.1-later")
    run(path, ENDED, f"UPDATE {GAPS} SET conversation_id = 3 WHERE gap_id = 1")
    [gap] = [row for row in rows_in(dump(path), GAPS) if row["gap_id"] == 1]
    after = made_and_undone(path, deletions(path, 1))
    assert [row for row in rows_in(after, GAPS) if row["gap_id"] == 1] == [
        {**gap, "prev_message_id": None, "next_message_id": None}
    ]


def an_export(path: Path, conversation: int, folder: Path) -> Path:
    async def load(reader) -> Path:
        found = await get_conversation(reader, conversation)
        return (await export_conversation(reader, found, folder, path, now=NOW)).path

    return asyncio.run(reading(path, load))


def imports(path: Path, file: Path):
    return asyncio.run(planned(path, plan_import, read_conversation_file(file), now=NOW))


def test_an_export_holds_what_is_noted_of_entries_and_nothing_of_others(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path = database_copy("1.1-later")
    run(path, f"UPDATE {GAPS} SET conversation_id = 3 WHERE gap_id = 1")
    lines = [json.loads(one) for one in an_export(path, 1, tmp_path).read_text().splitlines()]
    counts = lines[-1]["end"]
    assert (counts[CURSORS], counts[KEYS], counts.get(GAPS)) == (1, 20, None)
    assert json.loads(an_export(path, 2, tmp_path).read_text().splitlines()[-1])["end"][GAPS] == 1


@pytest.mark.long
@pytest.mark.parametrize("conversation", [1, 2])
def test_an_export_comes_back_as_it_was(database_copy: DatabaseFactory, tmp_path: Path, conversation: int):
    path = database_copy("1.1-later")
    run(path, ENDED)
    before = dump(path)
    file = an_export(path, conversation, tmp_path)
    for plan in deletions(path, conversation):
        commit(path, plan)
    for plan in imports(path, file):
        commit(path, plan)
    assert dump(path) == before


@pytest.mark.long
def test_an_export_beside_its_original_has_its_own_gaps_keys_and_place(
    database_copy: DatabaseFactory, tmp_path: Path
):
    path = database_copy("1.1-later")
    after = made_and_undone(path, imports(path, an_export(path, 2, tmp_path)))
    new = max(int(str(row["conversation_id"])) for row in rows_in(after, "conversations"))
    assert new > 11
    old_keys, new_keys = (
        [{**row, "conversation_id": 0} for row in rows_in(after, KEYS) if row["conversation_id"] == one]
        for one in (2, new)
    )
    assert len(new_keys) == 15
    assert new_keys == old_keys
    assert [row["cursor"] for row in rows_in(after, CURSORS) if row["conversation_id"] == new] == [
        value(path, f"SELECT cursor FROM {CURSORS} WHERE conversation_id = 2")
    ]
    [gap] = [row for row in rows_in(after, GAPS) if row["conversation_id"] == new]
    assert gap["gap_id"] == 3
    sides = {row["message_id"]: row for row in rows_in(after, "messages")}
    neighbours = [sides[gap[name]] for name in ("prev_message_id", "next_message_id")]
    assert [(one["conversation_id"], one["seq"]) for one in neighbours] == [(new, 4), (new, 5)]


@pytest.mark.long
def test_a_neighbour_that_is_not_in_the_file_is_no_neighbour(database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("1.1-later")
    run(path, ENDED)
    run(path, f"UPDATE {GAPS} SET prev_message_id = 96, next_message_id = 1 WHERE gap_id = 2")
    file = an_export(path, 2, tmp_path)
    for plan in deletions(path, 2):
        commit(path, plan)
    for plan in imports(path, file):
        commit(path, plan)
    sql = f"SELECT prev_message_id, next_message_id FROM {GAPS} WHERE gap_id = 2"
    assert query(path, sql) == [(96, None)]


def test_an_import_into_a_file_without_these_tables_says_what_is_lost(
    database_copy: DatabaseFactory, tmp_path: Path
):
    file = an_export(database_copy("1.1-later"), 2, tmp_path)
    plans = imports(database_copy("0.15.3"), file)
    for table in NOTED:
        assert any(f"of {table} not imported" in one for one in plans[0].warnings), table


@pytest.mark.long
def test_merging_moves_what_is_noted_of_entries(database_copy: DatabaseFactory):
    path = database_copy("1.1-later")
    run(path, SPLIT, f"UPDATE {GAPS} SET conversation_id = 9 WHERE gap_id = 1")
    before = dump(path)
    plan = asyncio.run(planned(path, plan_merge, [10], now=NOW))
    assert any("transcript cursor goes with the older" in one for one in plan.warnings)
    after = made_and_undone(path, [plan])
    places = {row["conversation_id"] for row in rows_in(after, CURSORS)}
    assert places == {1, 2, 3, 4, 5, 6, 10, 11}
    keys = sum(row["conversation_id"] in (9, 10) for row in rows_in(before, KEYS))
    assert [row["conversation_id"] for row in rows_in(after, KEYS)].count(10) == keys == 8
    assert {row["gap_id"]: row["conversation_id"] for row in rows_in(after, GAPS)} == {1: 10, 2: 2}


@pytest.mark.long
def test_merging_keeps_what_the_newer_conversation_has_noted(database_copy: DatabaseFactory):
    path = database_copy("1.1-later")
    entry = value(path, f"SELECT transcript_entry_id FROM {KEYS} WHERE conversation_id = 10 LIMIT 1")
    key = "conversation_id, transcript_entry_id, idempotency_key, entry_signature"
    gap = "conversation_id, first_entry_id, last_entry_id, first_visible_seq, last_visible_seq, entry_count"
    run(
        path,
        SPLIT,
        f"INSERT INTO {KEYS} ({key}) VALUES (9, '{entry}', 'older', '')",
        f"INSERT INTO {GAPS} ({gap}, source) VALUES (9, 'a', 'b', 1, 2, 2, 'x')",
        f"INSERT INTO {GAPS} ({gap}, source) VALUES (10, 'a', 'b', 1, 2, 2, 'y')",
    )
    newer = value(path, f"SELECT idempotency_key FROM {KEYS} WHERE transcript_entry_id = ?", entry)
    after = made_and_undone(path, [asyncio.run(planned(path, plan_merge, [10], now=NOW))])
    assert [
        row["idempotency_key"] for row in rows_in(after, KEYS) if row["transcript_entry_id"] == entry
    ] == [newer]
    assert [row["source"] for row in rows_in(after, GAPS) if row["first_entry_id"] == "a"] == ["y"]


@pytest.mark.long
def test_transplanting_copies_what_is_noted_of_the_copied_entries(database_copy: DatabaseFactory):
    path = database_copy("1.1-later")
    plan = asyncio.run(planned(path, plan_transplant, 1, 10, now=NOW))
    after = made_and_undone(path, [plan])
    messages = {row["message_id"]: row for row in rows_in(after, "messages")}
    copied = [row for row in messages.values() if row["conversation_id"] == 10 and int(str(row["seq"])) < 1]
    entries = {row["transcript_entry_id"] for row in copied} - {None}
    noted = {row["transcript_entry_id"] for row in rows_in(after, KEYS) if row["conversation_id"] == 1}
    there = {row["transcript_entry_id"] for row in rows_in(after, KEYS) if row["conversation_id"] == 10}
    assert entries & noted <= there
    assert len(there) == len(entries & noted) + 3
    [gap] = [row for row in rows_in(after, GAPS) if row["conversation_id"] == 10]
    sides = [messages[gap[name]]["seq"] for name in ("prev_message_id", "next_message_id")]
    assert [messages[gap["prev_message_id"]]["conversation_id"], sides[1]] == [10, int(str(sides[0])) + 1]


@pytest.mark.long
def test_half_a_gap_is_not_transplanted_and_said(database_copy: DatabaseFactory):
    path = database_copy("1.1-later")
    run(path, f"UPDATE {GAPS} SET next_message_id = NULL WHERE gap_id = 1")
    plan = asyncio.run(planned(path, plan_transplant, 1, 10, now=NOW))
    assert "1 transcript gap is not copied: only one side of them is" in plan.warnings
    assert all(row["conversation_id"] != 10 for row in rows_in(made_and_undone(path, [plan]), GAPS))


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(FILES, ["1.1-later", "1.1.0-shapes"]))
def test_other_changes_and_their_undo(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    run(path, ENDED)
    owner = value(
        path, "SELECT conversation_id FROM summaries GROUP BY conversation_id ORDER BY count(*) DESC LIMIT 1"
    )
    conversation, condensed = dissolvable(path)[0]
    made_and_undone(path, [asyncio.run(planned(path, plan_dissolve, conversation, [condensed]))])
    keep = asyncio.run(planned(path, plan_dissolve, conversation, [condensed], keep=True))
    made_and_undone(path, [keep])
    other = value(path, "SELECT conversation_id FROM conversations WHERE conversation_id <> ? LIMIT 1", owner)
    made_and_undone(path, [asyncio.run(planned(path, plan_transplant, owner, other, now=NOW))])
    made_and_undone(path, [asyncio.run(planned(path, plan_archive, [owner], now=NOW))])
    made_and_undone(path, [asyncio.run(planned(path, plan_new_session, owner, 2, now=NOW))])
    made_and_undone(path, [a_rewrite(path, conversation, condensed)])
    if fixes := asyncio.run(all_fixes(path)):
        made_and_undone(path, [fixes])


def a_rewrite(path: Path, conversation: int, summary: str):
    async def load():
        async with await Database.open(path) as database:
            return await database.read(
                plan_rewrite,
                conversation,
                summary,
                "Another text.",
                model="m",
                rendering=setting_of(database.schema).rendering,
            )

    return asyncio.run(load())


async def all_fixes(path: Path):
    return (await fixes_of(path, await findings_of(path, whole_file=False))).plan


@pytest.mark.long
@pytest.mark.parametrize("version", FILES)
def test_compacting_and_its_undo(database_copy: DatabaseFactory, version: str):
    path = database_copy(version)
    before = dump(path)
    owner = value(
        path,
        """SELECT c.conversation_id FROM context_items AS c JOIN messages AS m USING (message_id)
        WHERE m.role = 'user' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1""",
    )
    done = run_command(
        *("compact", str(owner), "--db", path, "--set", "freshTailCount=4", "--set", "leafChunkTokens=100"),
        *("--apply", "--yes", "--json"),
    )
    assert done.code == 0, done
    after = dump(path)
    assert after != before
    for one in asyncio.run(reading(path, lambda reader: reader.run(operations))):
        undo(path, one.id)
    assert dump(path) == before


@pytest.mark.long
@pytest.mark.parametrize("version", FILES)
def test_a_backup_is_the_same_file_and_brings_it_back(tmp_path: Path, version: str):
    """After a change of ours, and after the loss of what is noted of entries and prepared."""
    path, copy = unpack_database(version, tmp_path / "lcm.db"), tmp_path / "copy.db"
    before, schema = dump(path), query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")
    done = run_command("backup", "--db", path, "--to", copy, "--json")
    assert done.code == 0, done
    assert dump(copy) == before
    run(path, ENDED)
    for plan in deletions(path, 2):
        commit(path, plan)
    run(path, *(f"DROP TABLE {one}" for one in (*NOTED, "pending_summary_node_messages") if one in before))
    assert dump(path) != before
    done = run_command("restore", copy, "--db", path, "--apply", "--yes", "--json")
    assert done.code == 0, done
    assert dump(path) == before
    assert query(path, "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2") == schema


@pytest.mark.cases(6)
@pytest.mark.parametrize("version", FILES)
@pytest.mark.parametrize("arguments", [(), ("--apply", "--yes")], ids=["preview", "apply"])
def test_a_file_of_the_newest_line_is_not_migrated(
    database_copy: DatabaseFactory, version: str, arguments: tuple[str, ...]
):
    path = database_copy(version)
    before = path.read_bytes()
    done = run_command("migrate", *arguments, "--db", path)
    assert (done.code, done.out) == (ExitCode.REFUSED, "")
    assert done.err.endswith("which its engine brings up to date when it starts. Nothing was changed.\n")
    assert path.read_bytes() == before


def rows_of(found: Rows, owner: int) -> dict[str, list[dict[str, object]]]:
    """The rows of a conversation, by table, search tables left out."""
    keys = {"conversation_id": {owner}}
    for table, key in (("messages", "message_id"), ("summaries", "summary_id")):
        keys[key] = {row[key] for row in rows_in(found, table) if row["conversation_id"] == owner}
    return {
        table: rows
        for table in found
        if "_fts" not in table
        and (
            rows := [
                row
                for row in rows_in(found, table)
                if any(row.get(key) in held for key, held in keys.items())
            ]
        )
    }


@pytest.mark.long
@pytest.mark.parametrize("conversation", [1, 2, 5])
@pytest.mark.parametrize("version", FILES)
def test_an_export_comes_into_an_empty_file_of_the_newest_engine(
    database_copy: DatabaseFactory, tmp_path: Path, version: str, conversation: int
):
    """What only an older engine has, and the new one never reads, is left out and said."""
    source, target = database_copy(version), database_copy("1.1-later-empty")
    plans = imports(target, an_export(source, conversation, tmp_path))
    expected = rows_of(dump(source), conversation)
    dead = expected.pop("conversation_bootstrap_state", None)
    assert ["of conversation_bootstrap_state not imported" in one for one in plans[0].warnings] == (
        [] if dead is None else [True]
    )
    assert rows_of(made_and_undone(target, plans), conversation) == expected


def a_transcript(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "s1.jsonl"
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s1"}]
    parent = None
    for number in range(4):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": [{"type": "text", "text": f"text {number}"}]}
        stamp = f"2026-09-20T10:00:0{number}.000Z"
        lines.append(
            {
                "type": "message",
                "id": f"e{number}",
                "parentId": parent,
                "timestamp": stamp,
                "message": message,
            }
        )
        parent = f"e{number}"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", [*FILES, "1.1-later-empty"])
def test_an_import_writes_what_the_engine_would(database_copy: DatabaseFactory, tmp_path: Path, version: str):
    path = database_copy(version)
    before = dump(path)
    done = run_command(
        *("backfill", "--file", a_transcript(tmp_path / "sessions"), "--db", path),
        *("--apply", "--yes", "--json"),
    )
    assert done.code == 0, done
    after = dump(path)
    owner = value(path, "SELECT conversation_id FROM conversations WHERE session_id = 's1'")
    messages = [row for row in rows_in(after, "messages") if row["conversation_id"] == owner]
    assert {row["transcript_entry_id"] for row in messages} == {"e0", "e1", "e2", "e3"}
    anchors = [
        row for row in rows_in(after, "message_transcript_anchor_trust") if row["conversation_id"] == owner
    ]
    assert {(row["message_id"], row["transcript_entry_id"]) for row in anchors} == {
        (row["message_id"], row["transcript_entry_id"]) for row in messages
    }
    [shape] = {
        (row["trust_state"], row["source"], row["reason"], str(row["verified_at"])[-5:]) for row in anchors
    }
    assert shape == ("verified", "transcript-import", "message imported from transcript entry", ".000Z")
    for table in (CURSORS, KEYS, GAPS, "conversation_bootstrap_state", "conversation_transcript_epochs"):
        assert after.get(table) == before.get(table), table
    for one in asyncio.run(reading(path, lambda reader: reader.run(operations))):
        undo(path, one.id)
    assert dump(path) == before


@pytest.mark.long
def test_dead_checkpoints_of_an_older_engine_are_no_findings(database_copy: DatabaseFactory):
    """An upgraded file keeps them; no engine of the 1.x line reads them."""
    path = database_copy("1.1.0-upgraded")
    run(path, "UPDATE conversation_bootstrap_state SET last_processed_offset = last_seen_size + 1000")
    assert not [one for one in asyncio.run(findings_of(path)) if one.check in ("G6", "G7", "G8")]
    before = dump(path)["conversation_bootstrap_state"]
    commit(path, asyncio.run(planned(path, plan_new_session, 1, 2, now=NOW)))
    assert dump(path)["conversation_bootstrap_state"] == before


async def test_a_dead_checkpoint_is_no_lost_transcript(database_copy: DatabaseFactory, tmp_path: Path):
    folders = TranscriptFolders(tmp_path, tmp_path)
    counts = {}
    for version in ("0.15.3", "1.1.0-upgraded"):
        async with await Database.open(database_copy(version)) as database:
            counts[version] = len(await database.read(select, Criteria(orphaned=folders)))
    assert counts["0.15.3"] > counts["1.1.0-upgraded"] == 0


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.1-later", "frontier entry id  80192e3e"),
        ("1.1.0-upgraded", "Transcript, by an older engine (not read any more)"),
        ("1.1.1-next", "Transcript\nNot recorded by this version."),
    ],
)
def test_a_conversation_shows_how_far_its_transcript_was_read(
    database_file: DatabaseFactory, version: str, words: str
):
    assert words in run_command("conversations", "show", "1", "--db", database_file(version)).out
    shown = run_command("conversations", "show", "1", "--db", database_file(version), "--json").document
    cursor = shown["data"]["lcmTui"]["transcriptCursor"]
    if version == "1.1-later":
        assert (cursor["frontierSeq"], cursor["origin"]) == (40, "fresh")
    else:
        assert cursor is None
        assert "lcmTui.transcriptCursor" in shown["meta"]["lcmTui"]["notRecorded"]


def scramble(path: Path, seed: int) -> None:
    """Cursors, keys and gaps as no engine wrote them, within what the schema takes."""
    chance = random.Random(seed)
    owners = column(path, "SELECT conversation_id FROM conversations")
    messages = [*column(path, "SELECT message_id FROM messages"), None]
    entries = column(path, "SELECT transcript_entry_id FROM messages WHERE transcript_entry_id IS NOT NULL")
    entries += ["", "a\x00b", "\u202e", "%", *map(str, range(4))]
    with connect(path) as db:
        db.execute(f"DELETE FROM {GAPS}")
        for number in range(12):
            db.execute(
                f"""INSERT OR IGNORE INTO {GAPS} (conversation_id, first_entry_id, last_entry_id,
                first_visible_seq, last_visible_seq, entry_count, prev_message_id, next_message_id, source)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'x')""",
                (
                    *(chance.choice(owners), chance.choice(entries[-8:]), chance.choice(entries[-8:])),
                    *(number, -number, number),
                    *(chance.choice(messages), chance.choice(messages)),
                ),
            )
        for _ in range(40):
            db.execute(
                f"INSERT OR IGNORE INTO {KEYS} VALUES (?, ?, ?, '', '2026-09-20 13:50:00')",
                (chance.choice(owners), chance.choice(entries), chance.choice(["", "k"])),
            )
        db.execute(f"DELETE FROM {CURSORS} WHERE conversation_id = ?", (chance.choice(owners),))


@pytest.mark.long
@pytest.mark.parametrize("seed", sampled(range(12), range(1)))
def test_whatever_is_noted_of_entries_comes_back(database_copy: DatabaseFactory, tmp_path: Path, seed: int):
    path = database_copy("1.1-later")
    run(path, ENDED, SPLIT)
    scramble(path, seed)
    chance = random.Random(seed)
    one, other = chance.sample([1, 2, 3, 5, 6, 9, 10], 2)
    file = an_export(path, one, tmp_path)
    made_and_undone(path, imports(path, file))
    made_and_undone(path, [asyncio.run(planned(path, plan_merge, [10], now=NOW))])
    made_and_undone(
        path, [asyncio.run(planned(path, plan_transplant, 1, other if other != 1 else 2, now=NOW))]
    )
    after = made_and_undone(path, deletions(path, one))
    assert all(
        row["conversation_id"] != one for table in (CURSORS, KEYS, GAPS) for row in rows_in(after, table)
    )
    gone = {row["message_id"] for row in rows_in(dump(path), "messages") if row["conversation_id"] == one}
    for row in rows_in(after, GAPS):
        assert gone.isdisjoint({row["prev_message_id"], row["next_message_id"]})


def test_the_status_sums_up_gaps(database_file: DatabaseFactory):
    path = database_file("1.1-later")
    shown = run_command("status", "--db", path, "--json").data["lcmTui"]["gaps"]
    assert shown == {"conversations": 2, "gaps": 2, "entries": 8, "largest": 4}
    assert (
        "2 gaps in 2 conversations, 8 entries never stored; the largest has 4"
        in run_command("status", "--db", path).out
    )
    assert "gaps" not in run_command("status", "--db", database_file("1.1.1-next"), "--json").data
