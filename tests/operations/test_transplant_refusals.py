"""What a transplant refuses and says, and what the checks find after it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from lcm_core.api import Database, Folders, LcmError, NotFoundError, RefusedError, plan_transplant
from lcm_core.change.commit import commit
from lcm_core.checks.running import run_checks

from tests.change.oracle import Whole
from tests.change.support import dump, search_faults, undo
from tests.databases import column, run, value
from tests.operations.copies import Shape, below, context_summaries, plan, transplant

# -- refusals --------------------------------------------------------------------------------------------

DAMAGE: dict[str, tuple[list[str], str]] = {
    "an item dangles": (
        ["DELETE FROM summaries WHERE summary_id = '{root}'"],
        "Summary {root} is referenced",
    ),
    "a source is gone": (
        ["DELETE FROM summaries WHERE summary_id = '{source}'"],
        "Summary {source} is referenced",
    ),
    "a message is gone": (
        ["DELETE FROM messages WHERE message_id = {message}"],
        "Message {message} is referenced",
    ),
    "a source is another's": (
        ["UPDATE summaries SET conversation_id = 1 WHERE summary_id = '{source}'"],
        "belongs to conversation 1",
    ),
    "a message is another's": (
        ["UPDATE messages SET conversation_id = 1, seq = 9999 WHERE message_id = {message}"],
        "belongs to conversation 1",
    ),
    "a leaf has no messages": (
        ["DELETE FROM summary_messages WHERE summary_id = '{leaf}'"],
        "Leaf {leaf} has no source messages",
    ),
    "a condensed one has no sources": (
        ["DELETE FROM summary_parents WHERE summary_id = '{root}'"],
        "Condensed summary {root} has no sources",
    ),
    "a cycle": (["INSERT INTO summary_parents VALUES ('{below}', '{source}', 9)"], "cycle"),
    "it is its own source": (
        ["INSERT INTO summary_parents VALUES ('{source}', '{source}', 9)"],
        "cycle",
    ),
    "covered twice": (
        ["INSERT INTO context_items VALUES (2, 900, 'summary', NULL, '{source}', '2026-03-06')"],
        "are both in the source's context",
    ),
    "no summary": (["DELETE FROM context_items WHERE summary_id IS NOT NULL"], "contains no summary"),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("case", DAMAGE)
def test_what_cannot_be_copied_whole_is_refused(database_copy, case):
    path = database_copy("0.15.3")
    root = context_summaries(path, 2)[0]
    source, *_ = column(path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?", root)
    under = below(path, [source])
    leaf = next(
        one for one in under if value(path, "SELECT kind FROM summaries WHERE summary_id = ?", one) == "leaf"
    )
    names = {
        "root": root,
        "source": source,
        "below": under[-1],
        "leaf": leaf,
        "message": value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf),
    }
    statements, expected = DAMAGE[case]
    run(path, *(statement.format(**names) for statement in statements))
    before = dump(path)
    with pytest.raises(RefusedError) as caught:
        plan(path, 2, 3)
    assert expected.format(**names) in caught.value.message
    assert caught.value.message.endswith(".")
    assert dump(path) == before


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [(1, 1, RefusedError), (1, 999, NotFoundError), (999, 1, NotFoundError), (7, 1, RefusedError)],
)
def test_what_is_not_there_is_told(database_file, source, target, kind):
    with pytest.raises(kind) as caught:
        plan(database_file("0.15.3"), source, target)
    assert caught.value.message.endswith(".")


@pytest.mark.long
@pytest.mark.parametrize(
    "table", ["message_parts", "large_files", "focus_briefs", "summary_messages", "summary_parents"]
)
def test_a_schema_without_a_table_is_copied_as_far_as_it_goes_or_refused(database_copy, table):
    path = database_copy("0.15.3")
    run(path, f"DROP TABLE {table}")
    if table.startswith("summary_"):
        with pytest.raises(LcmError) as caught:
            plan(path, 2, 3)
        assert caught.value.exit_code.value == 9
    else:
        before = dump(path)
        undo(path, transplant(path, 2, 3))
        assert dump(path) == before


@pytest.mark.long
def test_depths_that_lie_do_not_matter(database_copy):
    """The Go tool trusts them and fails; the copy is as odd as the original, and no more."""
    path = database_copy("0.15.3")
    run(path, "UPDATE summaries SET depth = 1 - (kind = 'leaf') * 3 WHERE conversation_id = 2")
    before, errors = dump(path), Whole(path).errors()
    operation = transplant(path, 2, 7)
    depths = "SELECT depth FROM summaries WHERE conversation_id = ? ORDER BY content"
    assert column(path, depths, 7) == [
        depth
        for one, depth in zip(
            column(path, "SELECT summary_id FROM summaries WHERE conversation_id = 2 ORDER BY content"),
            column(path, depths, 2),
            strict=True,
        )
        if one in below(path, context_summaries(path, 2))
    ]
    assert len(Whole(path).errors()) <= 2 * len(errors)
    undo(path, operation)
    assert dump(path) == before


@pytest.mark.long
def test_a_diamond_is_copied_once(database_copy):
    """W17: a source of two summaries is one row."""
    path = database_copy("0.15.3")
    root = context_summaries(path, 2)[0]
    first, second = column(path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?", root)
    [shared, *_] = column(path, "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?", first)
    run(path, f"INSERT INTO summary_parents VALUES ('{second}', '{shared}', 9)")
    original = Shape(path, below(path, [root]))
    transplant(path, 2, 7)
    assert Shape(path, below(path, context_summaries(path, 7))).same(original)


@pytest.mark.long
def test_a_message_of_two_leaves_is_copied_once(database_copy):
    """The copy tells it twice, as the source does (B15): that is no damage of the copy's own."""
    path = database_copy("0.15.3")
    first, second = column(
        path,
        "SELECT summary_id FROM summaries WHERE conversation_id = 2 AND depth = 0 ORDER BY rowid LIMIT 2",
    )
    shared = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", first)
    run(path, f"INSERT INTO summary_messages VALUES ('{second}', {shared}, 99)")
    original = Shape(path, below(path, context_summaries(path, 2)))
    before = dump(path)
    operation = transplant(path, 2, 7)
    assert Shape(path, below(path, context_summaries(path, 7))).same(original)
    undo(path, operation)
    assert dump(path) == before


# -- what else a copy could break ------------------------------------------------------------------------


@pytest.mark.long
def test_entries_that_the_target_has_are_not_claimed_twice(database_copy):
    """The host finds them by these columns, of which each value stands once in a conversation."""
    path = database_copy("0.15.3")
    leaf = context_summaries(path, 8)[0]
    message = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf)
    entry = value(path, "SELECT transcript_entry_id FROM messages WHERE message_id = ?", message)
    own = value(path, "SELECT max(message_id) FROM messages WHERE conversation_id = 7")
    assert entry
    run(
        path,
        f"UPDATE messages SET transcript_entry_id = '{entry}' WHERE message_id = {own}",
        f"UPDATE messages SET stable_event_key = 'key' WHERE message_id IN ({own}, {message})",
    )
    made = plan(path, 8, 7)
    assert sum("1 copied message loses the" in one for one in made.warnings) == 2
    before = dump(path)
    operation = commit(path, made).id
    count = "SELECT count(*) FROM messages WHERE conversation_id = 7 AND {} IS NOT NULL AND seq < 1"
    copied = value(path, "SELECT count(*) FROM messages WHERE conversation_id = 7 AND seq < 1")
    assert value(path, count.format("transcript_entry_id")) == copied - 1 - value(
        path, "SELECT count(*) FROM messages WHERE conversation_id = 8 AND transcript_entry_id IS NULL"
    )
    keys = "SELECT count(*) FROM messages AS m JOIN summary_messages USING (message_id) WHERE {} AND {}"
    events = keys.format("conversation_id = 8", "stable_event_key IS NOT NULL")
    assert value(path, count.format("stable_event_key")) == value(path, events) - 1
    undo(path, operation)
    assert dump(path) == before


def test_it_says_when_the_model_would_not_see_the_copy(database_copy):
    path = database_copy("0.15.3")
    brief = value(path, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'")
    assert any(brief in one for one in plan(path, 5, 2).warnings)
    run(path, "UPDATE focus_briefs SET status = 'inactive'")
    assert not any(brief in one for one in plan(path, 5, 2).warnings)


def test_it_says_when_the_context_outgrows_the_budget(database_copy):
    path = database_copy("0.15.3")
    assert not any("budget" in one for one in plan(path, 5, 8, budget=100_000).warnings)
    [warning] = [one for one in plan(path, 5, 8, budget=1_000).warnings if "budget" in one]
    sql = """SELECT sum(coalesce(s.token_count, m.token_count)) FROM context_items AS c
        LEFT JOIN summaries AS s USING (summary_id) LEFT JOIN messages AS m ON m.message_id = c.message_id
        WHERE c.conversation_id = 8 OR (c.conversation_id = 5 AND c.summary_id IS NOT NULL)"""
    assert f"{value(path, sql):,} tokens" in warning


def test_it_says_when_the_copy_is_newer_than_what_it_comes_before(database_copy):
    path = database_copy("0.15.3")
    assert any("before older messages" in one for one in plan(path, 8, 1).warnings)
    assert not any("before older messages" in one for one in plan(path, 5, 8).warnings)


def test_texts_that_are_no_text_are_copied_byte_for_byte(database_copy):
    path = database_copy("0.15.3")
    leaf = context_summaries(path, 8)[0]
    message = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf)
    run(
        path,
        f"UPDATE messages SET content = CAST(x'61FF00FE62' AS TEXT) WHERE message_id = {message}",
        f"UPDATE summaries SET content = CAST(x'C3286162' AS TEXT) WHERE summary_id = '{leaf}'",
    )
    transplant(path, 8, 7)
    raw = "SELECT count(*) FROM {} WHERE conversation_id = 7 AND CAST(content AS BLOB) = x'{}'"
    assert value(path, raw.format("messages", "61FF00FE62")) == 1
    assert value(path, raw.format("summaries", "C3286162")) == 1


@pytest.mark.cases(1)
@pytest.mark.parametrize("count", [1, 40])
def test_statements_do_not_grow_with_the_source(database_copy, count):
    """Rows are read by the hundred: a conversation of 12,000 summaries takes some hundred statements."""
    path = database_copy("0.1.2")
    run(path, f"DELETE FROM context_items WHERE conversation_id = 1 AND ordinal > {count}")

    async def statements() -> int:
        async with await Database.open(path) as database:
            await database.read(plan_transplant, 1, 7)
            return database.statements

    assert asyncio.run(statements()) < 60


Found = set[tuple[str, str, int | None]]


def found(path: Path, folders: Folders | None = None) -> Found:
    """The findings of a file: check, confidence, conversation."""

    async def ask() -> Found:
        async with await Database.open(path) as database:
            report = await run_checks(database, folders=folders)
            return {(one.check, one.confidence.value, one.conversation_id) for one in report.findings()}

    return asyncio.run(ask())


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "source", "target"), [("0.1.2", 3, 7), ("0.8.2", 4, 5), ("0.15.3", 4, 5), ("0.15.3", 3, 7)]
)
def test_the_checks_find_nothing_new_but_copies_of_what_they_found(database_copy, version, source, target):
    """What is bad in the source is bad in the copy; what is newer than the target's own is out of order."""
    path = database_copy(version)
    before = found(path)
    newer = any("newer" in one for one in plan(path, source, target).warnings)
    transplant(path, source, target)
    new = {(check, how, owner) for check, how, owner in found(path) - before if how != "by design"}
    copied = {check for check, _, owner in before if owner == source}
    # E7: a call whose result was not yet summarised stays without it.
    expected = copied | {"E7"} | ({"A10", "E2"} if newer else set())
    assert {check for check, _, _ in new} <= expected
    assert {owner for _, _, owner in new} <= {target}
    assert not {check for check, _, _ in new} & {"B1", "B2", "B7", "D2", "D3", "D4", "D5", "F1", "F3", "F5"}


@pytest.mark.long
def test_copied_files_are_where_they_were(openclaw_home):
    """The row is copied and not the file: nothing is missing, misplaced or unused."""
    path = openclaw_home / "lcm.db"
    folders = Folders(large_files=openclaw_home / "lcm-files", state=openclaw_home)
    before = found(path, folders)
    transplant(path, 3, 7)
    assert value(path, "SELECT count(*) FROM large_files WHERE conversation_id = 7") > 0
    assert not {one for one in found(path, folders) - before if one[0] in ("E16", "E17", "E18", "E19", "D12")}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_any_sequence_of_transplants_is_taken_back(database_copy, seed):
    """Into and out of one another, copies of copies too."""
    path = database_copy("0.15.3")
    chance, done = random.Random(seed), []
    before, errors = dump(path), Whole(path).errors()
    for _ in range(5):
        source, target = chance.sample([2, 4, 5, 6, 7, 8], 2)
        try:
            done.append(transplant(path, source, target, skip_duplicates=chance.random() < 0.7))
        except RefusedError:
            continue
        assert Whole(path).errors() == errors
    assert len(done) >= 2
    assert search_faults(path) == []
    for operation in reversed(done):
        undo(path, operation)
    assert dump(path) == before
