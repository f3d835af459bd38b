"""``engine`` on the recorded file of 1.x, on older files, and on values that nobody wrote in good faith."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lcm_core.operations.engine_work import Need

from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.databases import column, connect, query, value
from tests.support import recorded, sampled

#: What the recording says of itself and of other commands.
NOT_STATE = {"engine", "commands", "log"}
EXPECTED: dict[str, Any] = recorded("lcm-1.0-next.expected.json.xz")
CLOCK = ("--at", EXPECTED["now"])
TABLES = (
    "pending_compaction_batches",
    "pending_summary_nodes",
    "pending_summary_node_messages",
    "pending_summary_node_children",
    "conversation_compaction_maintenance",
    "message_transcript_anchor_trust",
    "conversation_transcript_epochs",
    "turn_advancements",
    "conversation_transcript_cursors",
    "transcript_user_replay_keys",
    "conversation_transcript_gaps",
)
HOSTILE = (
    "NULL",
    "''",
    "'\x1b[31m\u202e'",
    "x'ff00fe'",
    "-1",
    "9e999",
    "9223372036854775807",
    "'now'",
    "'9999-12-31'",
)


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - NOT_STATE - {"conversations"}))
def test_the_recorded_states(name: str, database_file: DatabaseFactory) -> None:
    data = run("engine", "--db", database_file("1.0-next"), *CLOCK, "--json").data
    assert data[name] == EXPECTED[name]


def test_conversations_that_need_a_look_come_first(database_file: DatabaseFactory) -> None:
    listed = run("engine", "--db", database_file("1.0-next"), *CLOCK, "--json").data["conversations"]
    wanted = {one["id"]: one for one in EXPECTED["conversations"]}
    assert {one["id"]: {name: one[name] for name in wanted[1]} for one in listed} == wanted
    needs = [Need[one["need"].upper()] for one in listed]
    assert needs == sorted(needs)
    assert [one["id"] for one in listed][:5] == [1, 9, 4, 3, 2]


def test_one_conversation_says_what_would_be_published(database_file: DatabaseFactory) -> None:
    path = database_file("1.0-next")
    [one] = run("engine", "1", "--db", path, *CLOCK, "--json").data["conversations"]
    steps = [(step["a"], step["z"], step["replaces"]) for step in one["work"]["publication"]]
    assert steps[:3] == [
        (0, 0, {"messages": 0, "summaries": 0}),
        (1, 4, {"messages": 0, "summaries": 4}),
        (5, 11, {"messages": 7, "summaries": 0}),
    ]
    assert not one["work"]["publishable"]
    said = run("engine", "1", "--db", path, *CLOCK).out
    assert "2 of 5 nodes, 45 tokens, the oldest 4h ago" in said
    assert "19-25: the lease expired 4h ago" in said
    [one] = run("engine", "agent:main:telegram:direct:77", "--db", path, "--json").data["conversations"]
    assert (one["id"], one["work"]["publishable"]) == (2, True)


def test_a_partly_published_batch_says_what_is_left_at_the_ordinals_of_now(
    database_file: DatabaseFactory,
) -> None:
    path = database_file("1.1-later")
    [one] = run("engine", "11", "--db", path, *CLOCK, "--json").data["conversations"]
    work = one["work"]
    assert (work["published"], work["prepared"], work["publishable"], work["outdated"]) == (1, 0, False, None)
    assert [(step["a"], step["z"], step["replaces"]) for step in work["publication"]] == [
        (0, 0, {"messages": 0, "summaries": 0}),
        (1, 7, {"messages": 7, "summaries": 0}),
        (8, 14, {"messages": 7, "summaries": 0}),
    ]
    places = {
        (node["state"], node["a"], node["z"], node["planned_a"], node["planned_z"]) for node in work["nodes"]
    }
    assert places == {("promoted", 0, 7, 0, 7), ("claimed", 1, 7, 8, 14), ("claimable", 8, 14, 15, 21)}
    said = run("engine", "11", "--db", path, *CLOCK).out
    assert "0 of 2 nodes, 1 more published" in said
    assert "15-21" not in said
    published = value(
        path,
        "SELECT canonical_summary_id FROM pending_summary_nodes "
        "WHERE status = 'promoted' AND conversation_id = 11",
    )
    assert f"{published}  leaf" in said.partition("Published already")[2]


@pytest.mark.parametrize("version", ["1.1.1-next", "1.1-later"])
def test_the_part_that_is_ready_can_be_published_before_the_rest(
    version: str, database_file: DatabaseFactory
) -> None:
    path = database_file(version)
    [one] = run("engine", "1", "--db", path, *CLOCK, "--json").data["conversations"]
    work = one["work"]
    assert (work["publishable"], work["complete"]) == (True, False)
    assert [(step["a"], step["z"]) for step in work["publication"]] == [(0, 0), (1, 4), (5, 11)]
    assert [step["z"] for step in work["planned"]] == [0, 4, 11, 18, 25, 32]
    assert "0-11 can be published at the threshold" in run("engine", "1", "--db", path, *CLOCK).out


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE context_items SET message_id = 1 WHERE conversation_id = 11 AND ordinal = 9",
        "UPDATE pending_summary_node_messages SET ordinal = -ordinal",
        "DELETE FROM context_items WHERE conversation_id = 11 AND ordinal = 14",
        "UPDATE pending_summary_nodes SET active_ordinal_start = NULL, active_ordinal_end = NULL",
    ],
)
def test_a_batch_that_the_context_no_longer_fits_says_that_it_will_be_discarded(
    change: str, database_copy: DatabaseFactory
) -> None:
    path = database_copy("1.1-later")
    with connect(path) as connection:
        connection.execute(change)
    [one] = run("engine", "11", "--db", path, *CLOCK, "--json").data["conversations"]
    assert one["work"]["outdated"] in ("no_range", "other_sources")
    assert one["work"]["publication"] == []
    assert "so the engine will discard it" in run("engine", "11", "--db", path, *CLOCK).out


def test_cursor_gaps_and_replay_keys_are_shown_where_the_engine_notes_them(
    database_file: DatabaseFactory,
) -> None:
    path = database_file("1.1-later")
    data = run("engine", "2", "--db", path, *CLOCK, "--json").data
    assert data["cursors"] == [
        {
            "c": 2,
            "origin": "legacy-migration",
            "frontier_entry_id": "b69edc10",
            "frontier_seq": 30,
            "updated_at": "2026-09-20 13:50:00",
        }
    ]
    assert data["replayKeys"] == [{"c": 2, "entries": 15, "keys": 15}]
    [gap] = data["gaps"]
    assert (gap["first_entry_id"], gap["entry_count"], gap["a"], gap["z"]) == ("gap2a", 4, 5, 9)
    assert (gap["prev_message_id"], gap["next_message_id"]) == (96, 97)
    said = run("engine", "2", "--db", path, *CLOCK).out
    assert "up to entry b69edc10, message 30 of the host" in said
    assert "1 gap, 4 entries never stored" in said
    assert "m96" in said.partition("that were never stored")[2]
    assert "none: the conversation is not followed by a cursor yet" in run("engine", "7", "--db", path).out
    whole = run("engine", "--db", path, "--json").data
    assert [len(whole[name]) for name in ("cursors", "gaps", "replayKeys")] == [9, 2, 11]
    older = run("engine", "2", "--db", database_file("1.1.1-next"), "--json").document
    assert {"cursors", "gaps", "replayKeys"} <= set(older["meta"]["lcmTui"]["notRecorded"])
    assert "Cursor" not in run("engine", "2", "--db", database_file("1.1.1-next")).out


def test_nodes_that_are_made_from_each_other_twice_over_are_read_in_no_time(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("1.1-later")
    nodes, children = "pending_summary_nodes", "pending_summary_node_children"
    below = value(path, f"SELECT node_id FROM {nodes} WHERE conversation_id = 11 AND status = 'running'")
    with connect(path) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({nodes})")]
        for depth in range(1, 60):
            own = {"node_id": f"'n{depth}'", "depth": str(depth), "kind": "'condensed'"}
            columns = ", ".join({**own, "status": "'planned'"}.get(name, name) for name in names)
            connection.execute(
                f"INSERT INTO {nodes} SELECT {columns} FROM {nodes} WHERE node_id = ?", (below,)
            )
            connection.executemany(
                f"INSERT INTO {children} (node_id, ordinal, child_node_id) VALUES (?, ?, ?)",
                [(f"n{depth}", ordinal, below) for ordinal in (0, 1)],
            )
            below = f"n{depth}"
    [one] = run("engine", "11", "--db", path, *CLOCK, "--json").data["conversations"]
    assert one["work"]["outdated"] == "other_sources"
    assert len(one["work"]["nodes"]) == 62


def test_how_long_compactions_took_as_far_as_rows_say_so(database_file: DatabaseFactory) -> None:
    path = database_file("1.1-later")
    assert run("engine", "--db", path, "--json").data["took"] == {
        "runs": {"n": 3, "p50": 30.0, "p90": 40.0},
        "texts": {"n": 19, "p50": 12.0, "p90": 24.0},
        "batches": {"n": 2, "p50": 26.0, "p90": 32.0},
    }
    assert "last run of 3 conversations: 30 s (p50), 40 s (p90)" in run("engine", "--db", path).out
    assert "last run of 1 conversation: 40 s." in run("engine", "3", "--db", path).out
    nothing = run("engine", "--db", database_file("0.1.2"), "--json").data["took"]
    assert nothing == {"runs": None, "texts": None, "batches": None}


def test_legacy_anchors_are_no_warning(database_file: DatabaseFactory) -> None:
    path = database_file("1.0-next")
    said = run("engine", "6", "--db", path).out
    assert "4 of 18 messages matched to the host's transcript; the others are kept, no action needed" in said
    doctor = run("doctor", "--check", "G17", "--db", path)
    assert (doctor.code, "By design" in doctor.out) == (0, True)


def test_prepared_texts_are_shown_only_when_asked_for_and_as_prepared(database_file: DatabaseFactory) -> None:
    path = database_file("1.0-next")
    texts = column(
        path, "SELECT content FROM pending_summary_nodes WHERE conversation_id = 2 ORDER BY ordinal_start"
    )
    assert all(texts)
    plain = run("engine", "2", "--db", path, "--json")
    assert "prepared" not in plain.data
    assert not any(text in plain.out for text in texts)
    shown = run("engine", "2", "--include-content", "--db", path, "--json").data["prepared"]
    assert [(one["text"], one["inConversation"]) for one in shown] == [(text, False) for text in texts]
    people = run("engine", "2", "--include-content", "--db", path).out
    assert people.count("no model has received it") == len(texts)
    refused = run("engine", "--include-content", "--db", path)
    assert refused.code == 2
    assert "needs a conversation" in refused.err


@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2", "0.15.3"])
def test_an_older_engine_prepares_nothing(version: str, database_file: DatabaseFactory) -> None:
    path = database_file(version)
    assert "prepares nothing" in run("engine", "--db", path).out
    document = run("engine", "--db", path, "--json").document
    assert not document["data"]["prepares"]
    assert {"batches", "anchors", "epochs", "turns"} <= set(document["meta"]["lcmTui"]["notRecorded"])


@pytest.mark.long
@pytest.mark.parametrize("table", sampled(TABLES, TABLES[:3]))
def test_hostile_values_in_every_column_end_in_a_sentence(table: str, database_copy: DatabaseFactory) -> None:
    path = database_copy("1.1-later")
    good = path.read_bytes()
    count = value(path, f"SELECT count(*) FROM {table}")
    shown = {"conversation_compaction_maintenance": 3, "conversation_transcript_epochs": 6}.get(table, 1)
    for _, name, kind, _, _, key in query(path, f"PRAGMA table_info({table})"):
        # An integer key takes nothing but whole numbers: there it is a conversation, or message, of nobody.
        values = ("-1", "9223372036854775807") if key and kind == "INTEGER" else HOSTILE
        for shift in range(0, len(values), count):
            path.write_bytes(good)
            with connect(path) as connection:
                connection.execute("PRAGMA ignore_check_constraints = ON")
                for row, [rowid] in enumerate(connection.execute(f"SELECT rowid FROM {table}").fetchall()):
                    hostile = values[(row + shift) % len(values)]
                    connection.execute(
                        f"UPDATE OR IGNORE {table} SET {name} = {hostile} WHERE rowid = {rowid}"
                    )
            for words in (["--json"], [str(shown), "--include-content"]):
                answer = run("engine", *words, "--db", path)
                assert (answer.code, answer.err) == (0, ""), (name, shift)
                assert "\x1b" not in answer.out, (name, shift)


def test_nothing_is_written(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    before = path.read_bytes()
    run("engine", "--db", path)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(path.name)] == [path.name]


def test_closing_debt_is_shown_then_done_behind_a_backup(database_copy: DatabaseFactory) -> None:
    path = database_copy("1.0-next")
    before = path.read_bytes()
    shown = run("engine", "7", "--close-debt", "--db", path, "--json")
    assert (shown.code, shown.data["applied"], path.read_bytes()) == (0, False, before)
    done = run("engine", "7", "--close-debt", "--apply", "--yes", "--db", path, "--json").data
    assert Path(done["backup"]).stat().st_size == len(before)
    debts = run("engine", "--db", path, "--json").data["maintenance"]
    assert [one["resolution_reason"] for one in debts if one["c"] == 7] == ["operator-ignored"]
    assert run("engine", "7", "--apply", "--db", path).code == 2
    assert run("engine", "--close-debt", "--db", path).code == 2
