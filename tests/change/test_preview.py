"""What a preview shows is what a commit does: ordinals, tokens, rows and SQL."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from lcm_core.api import StalePlanError, plan_dissolve, plan_undo
from lcm_core.change.commit import commit
from lcm_core.change.journal import decode_edits
from lcm_core.change.place import Step
from lcm_core.change.plan import (
    Cells,
    Item,
    Move,
    RowChange,
    Symbol,
    SymbolKind,
    insertion,
    key_of,
    renumbering,
)
from lcm_core.change.preview import Tokens, as_one_plan, literal, lock_seconds, lock_warning, words_of
from lcm_core.store.schema import Schema

from tests.change.support import (
    REAL,
    context_of,
    delete,
    dissolvable,
    dump,
    item_row,
    plan_of,
    planned,
    previewed,
    row_of,
    splice,
    summary_row,
    update,
)
from tests.databases import connect, run, value

STOP_THE_HOST = (
    "This database was written by an engine before 0.5, which does not wait for a lock: stop the host first"
)

TOKENS = """SELECT sum(coalesce(s.token_count, m.token_count)) FROM context_items AS c
    LEFT JOIN summaries AS s USING (summary_id) LEFT JOIN messages AS m USING (message_id)
    WHERE c.conversation_id = ?"""


def a_dissolve(path: Path, number: int = 0, **options: object):
    conversation, summary = dissolvable(path)[number]
    return asyncio.run(planned(path, plan_dissolve, conversation, [summary], **options))


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", REAL)
@pytest.mark.parametrize("number", [0, -1])
def test_ordinals_and_tokens_are_those_after_the_commit(database_copy, version, number):
    path = database_copy(version)
    plan = a_dissolve(path, number, levels=2)
    conversation = plan.conversation_id
    assert conversation is not None
    one = previewed(path, plan)
    before = {ref: ordinal for ordinal, ref in context_of(path, conversation)}
    assert one.tokens.before == value(path, TOKENS, conversation)
    done = commit(path, plan)
    after = {ref: ordinal for ordinal, ref in context_of(path, conversation)}
    assert one.tokens.after == value(path, TOKENS, conversation)
    assert one.tokens.change == done.tokens
    assert {each.ref: each.old for each in one.leaving} == {
        ref: ordinal for ref, ordinal in before.items() if ref not in after
    }
    assert {each.ref: each.new for each in one.entering} == {
        ref: ordinal for ref, ordinal in after.items() if ref not in before
    }
    assert {each.ref: (each.old, each.new) for each in one.moving} == {
        ref: (ordinal, after[ref])
        for ref, ordinal in before.items()
        if ref in after and after[ref] != ordinal
    }
    assert one.rows == done.operation.rows


def test_what_is_previewed_is_what_is_committed(database_copy):
    path = database_copy("0.15.3")
    plan = a_dissolve(path, levels=2)
    assert tuple(step.edit for step in previewed(path, plan).steps) == commit(path, plan).edits


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_the_sql_does_what_the_commit_does(database_copy, version):
    path = database_copy(version)
    by_hand = Path(shutil.copyfile(path, path.with_name("by-hand.db")))
    plan = a_dissolve(path, levels=2)
    script = list(previewed(path, plan).sql())
    commit(path, plan)
    run(by_hand, *script)
    assert dump(by_hand) == dump(path)


def test_the_sql_of_every_edit_runs(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        "UPDATE messages SET content = CAST(x'ff41' AS TEXT) || char(0) || '''' WHERE message_id = 1",
        "UPDATE context_items SET ordinal = ordinal + 5 WHERE conversation_id = 1 AND ordinal = 21",
        "UPDATE large_files SET byte_size = 9e999, file_name = x'00ff' WHERE rowid = 1",
    )
    by_hand = Path(shutil.copyfile(path, path.with_name("by-hand.db")))
    last = context_of(path, 1)[-1]
    plan = plan_of(
        *delete(path, "message_parts", message_id=1),
        update(path, "messages", "message_id", 1, content="it's\nnew", token_count=5),
        insertion("large_files", row_of(path, "large_files", "rowid", 1).but(file_id="other")),
        *delete(path, "large_files", rowid=2),
        renumbering(1, (Move(Item(last[1]), 26, 21),)),
        splice(path, 3, 0, 2, *[ref for _, ref in context_of(path, 3)][:2][::-1]),
    )
    script = list(previewed(path, plan).sql())
    commit(path, plan)
    run(by_hand, *script)
    assert dump(by_hand) == dump(path)


def test_what_nobody_knows_yet_has_the_value_it_would_get(database_copy):
    path = database_copy("0.15.3")
    template = row_of(path, "messages", "message_id", 1)
    new = Symbol("new:1", SymbolKind.ID)
    seq = value(path, "SELECT max(seq) FROM messages WHERE conversation_id = 1") + 1
    plan = plan_of(
        insertion(
            "messages",
            template.but(
                message_id=new,
                seq=Symbol("s", SymbolKind.SEQ),
                transcript_entry_id=None,
                stable_event_key=None,
            ),
        ),
        insertion("context_items", item_row(1, new).but(ordinal=Symbol("o", SymbolKind.ORDINAL))),
    )
    one = previewed(path, plan)
    number = value(path, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'") + 1
    _, begin, first, second, *search, end = one.sql()
    assert (begin, end) == ("BEGIN IMMEDIATE;", "COMMIT;")
    assert f"{number}, " in first.partition("VALUES")[2]
    assert f" {seq}" in first
    assert f"{number}, " in second
    assert [sql.split()[0] for sql in search] == ["DELETE", "INSERT"]
    assert one.entering[0].identity == "message:new:1"
    assert one.entering[0].new == 22
    assert one.tokens.change == template["token_count"]
    assert commit(path, plan).tokens == template["token_count"]


def test_machines_get_the_same_from_every_operation(database_copy):
    path = database_copy("0.15.3")
    plan = a_dissolve(path)
    one = previewed(path, plan)
    document = json.loads(json.dumps(one.as_json()))
    assert list(document) == ["kind", "conversationId", "edits", "shift", "tokens", "rows", "warnings"]
    assert document["kind"] == "dissolve"
    assert document["conversationId"] == 1
    assert decode_edits(document["edits"]) == tuple(step.edit for step in one.steps)
    gone, *_ = document["shift"]
    assert gone == {"identity": f"summary:{dissolvable(path)[0][1]}", "from": 0, "to": None}
    assert document["shift"][1]["from"] is None
    assert document["shift"][-1]["to"] == document["shift"][-1]["from"] + 1
    assert document["rows"]["context_items"] == {"insert": 2, "update": 0, "delete": 1}
    assert set(document["tokens"]) == {"before", "after"}


def test_people_get_lines_that_are_safe_to_print(database_copy):
    path = database_copy("0.15.3")
    run(path, "UPDATE large_files SET file_id = char(27) || '[31m' WHERE rowid = 1")
    plan = plan_of(*delete(path, "large_files", rowid=1), *a_dissolve(path, budget=1).edits)
    lines = list(previewed(path, plan).text())
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert "␛[31m" in "\n".join(lines)
    text = "\n".join(lines)
    assert "ordinal 0 loses summary" in text
    assert "ordinal 1 gets summary" in text
    assert "21 items moved, 1 removed, 2 added" in text
    assert "context_items +2 ~0 -1" in text


def test_warnings_of_the_plan_are_shown(database_copy):
    path = database_copy("0.15.3")
    one = previewed(path, a_dissolve(path, budget=1))
    assert any("exceed the budget" in warning for warning in one.warnings)
    assert any("exceed the budget" in line for line in one.text())


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("version", "warned"), [("0.1.2", True), ("0.3.0", True), ("0.8.2", False), ("0.15.3", False)]
)
def test_a_host_that_waits_for_no_lock_is_to_be_stopped(database_copy, version, warned):
    path = database_copy(version)
    assert (STOP_THE_HOST in previewed(path, a_dissolve(path)).warnings) is warned


def test_a_host_of_the_beta_line_waits_though_it_lacks_the_table(database_copy):
    path = database_copy("0.15.3")
    run(
        path,
        "DROP TABLE conversation_bootstrap_state",
        "CREATE TABLE message_transcript_anchor_trust (message_id INTEGER PRIMARY KEY)",
    )
    assert STOP_THE_HOST not in previewed(path, a_dissolve(path)).warnings


def test_a_column_that_the_plan_does_not_know_is_named(database_copy):
    path = database_copy("0.15.3")
    plan = a_dissolve(path)
    run(path, "ALTER TABLE context_items ADD COLUMN weight INTEGER DEFAULT 3")
    assert any("context_items.weight" in warning for warning in previewed(path, plan).warnings)


def test_a_stale_plan_has_no_preview(database_copy):
    path = database_copy("0.15.3")
    plan = a_dissolve(path)
    run(path, f"DELETE FROM context_items WHERE summary_id = '{dissolvable(path)[0][1]}'")
    with pytest.raises(StalePlanError):
        previewed(path, plan)


def test_the_preview_of_a_lying_plan_follows_the_host(database_copy):
    path = database_copy("0.15.3")
    plan = a_dissolve(path, 1)
    run(path, "DELETE FROM context_items WHERE conversation_id = 1 AND ordinal = 0")
    move = "UPDATE context_items SET ordinal = {} WHERE conversation_id = 1 AND ordinal = {}"
    run(path, *(move.format(ordinal - 1, ordinal) for ordinal, _ in context_of(path, 1)))
    one = previewed(path, plan)
    assert [each.old for each in one.leaving] == [0]
    commit(path, plan)
    assert context_of(path, 1)[0][1] == plan.select


def test_an_undo_is_previewed_like_any_other_change(database_copy):
    path = database_copy("0.15.3")
    first = previewed(path, a_dissolve(path))
    done = commit(path, a_dissolve(path))
    back = previewed(path, asyncio.run(planned(path, plan_undo, done.id)))
    assert back.tokens == Tokens(
        first.tokens.after,
        first.tokens.before,
        leaving=first.tokens.entering,
        entering=first.tokens.leaving,
        made_of_before=first.tokens.made_of_after,
        made_of_after=first.tokens.made_of_before,
    )
    for made_of, tokens in (
        (back.tokens.made_of_before, back.tokens.before),
        (back.tokens.made_of_after, back.tokens.after),
    ):
        assert sum(group.tokens for group in made_of) == tokens > 0
    assert {(one.ref, one.new) for one in back.entering} == {(one.ref, one.old) for one in first.leaving}
    assert back.plan.kind == "undo"


def test_a_step_in_words_names_the_row_and_no_text(database_copy):
    path = database_copy("0.15.3")
    row = summary_row(path, "sum_x", content="a text")
    changed = update(path, "conversations", "conversation_id", 1, title="a text")
    [gone] = delete(path, "conversations", conversation_id=2)
    said = [word for edit in (insertion("summaries", row), changed, gone) for word in words_of(Step(edit))]
    assert said == [
        "add to summaries: sum_x",
        "change in conversations: 1: title",
        "delete from conversations: 2",
    ]


NUMBERS = [None, 0, -(2**63), 2**63 - 1, 0.1, -1e-300, float("inf"), float("-inf")]


@pytest.mark.parametrize("cell", [*NUMBERS, "", "it's", "a\nb", "\udcff", "\0", b"", b"\x00'"])
def test_a_value_in_sql_is_that_value(cell, tmp_path):
    with connect(tmp_path / "empty.db") as connection:
        [(found,)] = connection.execute(f"SELECT {literal(cell)}")
    assert repr(found) == repr(cell)
    assert Cells.of({"cell": found}) == Cells.of({"cell": cell})


# -- how long the host waits ---------------------------------------------------------------------------------


def test_a_plan_that_keeps_the_host_waiting_says_so(database_copy):
    path = database_copy("0.15.3")
    template = row_of(path, "large_files", "rowid", 1)

    def files(count: int, first: int = 0):
        rows = [
            template.but(file_id=f"file_{number:016x}", exploration_summary=" " * 1_000_000)
            for number in range(first, first + count)
        ]
        return plan_of(*(insertion("large_files", row) for row in rows))

    def said_of(plan) -> list[str]:
        return [one for one in previewed(path, plan).warnings if "wait" in one]

    assert said_of(files(4)) == []
    assert said_of(files(40)) == ["The host will wait about 0.2 s while this is written"]
    # A batch is committed plan by plan, so the host waits for one of them at a time.
    assert said_of(as_one_plan([files(4, number * 4) for number in range(10)])) == []
    assert said_of(as_one_plan([files(4), files(20, 4)])) != []


def test_the_rule_of_waiting_counts_rows_bytes_and_search_tables(database_copy):
    path = database_copy("0.15.3")
    schema = Schema(
        {"summaries": frozenset(), "summaries_fts": frozenset(), "summaries_fts_cjk": frozenset()}
    )
    row = summary_row(path, "sum_x", content="")
    long = row.but(content="x" * 1_000_000)
    short, large = (lock_seconds([Step(insertion("summaries", one))], schema) for one in (row, long))
    assert short < 0.0002
    assert 0.1 < large - short < 1
    bare = lock_seconds([Step(insertion("summaries", long))], Schema({"summaries": frozenset()}))
    assert bare < 0.02
    changed = RowChange("summaries", key_of("summaries", row), Cells.of({"depth": 0}), Cells.of({"depth": 1}))
    assert lock_seconds([Step(changed)], schema) < 0.0001
    few, more = (lock_seconds([Step(splice(path, 1, 0, count))], schema) for count in (1, 11))
    assert more - few == pytest.approx(10 * 4e-6)
    shifts = tuple((number, number + 1) for number in range(10_000))
    twice = [Step(splice(path, 1, 0, 0), shifts)] * 2
    assert lock_seconds(twice, schema) == lock_seconds(twice[:1], schema) > 0.02


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0999, None),
        (0.1, "about 0.1 s"),
        (1.24, "about 1.2 s"),
        (9.96, "about 10.0 s"),
        (1234.5, "about 1,234 s"),
    ],
)
def test_the_wait_in_words(seconds, words):
    said = lock_warning(seconds)
    assert said is None if words is None else words in said
