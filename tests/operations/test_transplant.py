"""A transplant copies everything under a context, changes nothing that was there, and is undone whole."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from pathlib import Path

import pytest
from lcm_core.api import RefusedError, StalePlanError, plan_dissolve
from lcm_core.change.commit import commit
from lcm_core.change.plan import insertions
from lcm_core.operations.transplant import DuplicatesError

from tests.change.host import Host
from tests.change.oracle import Whole
from tests.change.support import REAL, context_of, dump, planned, search_faults, undo
from tests.databases import column, connect, run, value
from tests.operations.copies import Row, Shape, below, context_summaries, plan, rows, transplant
from tests.operations.fixing import findings_of
from tests.support import sampled

#: From, to: into a context with summaries, into one without, and where files lie.
PAIRS = ((2, 3), (5, 7), (3, 1))
# -- what it does ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "source", "target"),
    [*((version, *PAIRS[0]) for version in REAL[:-1]), *((REAL[-1], *pair) for pair in PAIRS)],
)
def test_everything_under_the_context_is_copied(database_copy, version, source, target):
    """W13: every column that the file has, in front, and undone to the same rows."""
    path = database_copy(version)
    before, whole = dump(path), Whole(path)
    roots, standing = context_summaries(path, source), context_of(path, target)
    original = Shape(path, below(path, roots))
    first = value(path, "SELECT min(seq) FROM messages WHERE conversation_id = ?", target)
    largest = value(path, "SELECT max(message_id) FROM messages")
    made = plan(path, source, target)
    done = commit(path, made)
    items = context_of(path, target)
    copies = [str(ref) for _, ref in items[: len(roots)]]
    assert made.select == copies[0]
    assert [ref for _, ref in items[len(roots) :]] == [ref for _, ref in standing]
    assert [ordinal for ordinal, _ in items][: len(roots)] == list(range(len(roots)))
    copy = Shape(path, below(path, copies))
    assert copy.same(original)
    assert (
        len(copy.summaries) == len(original.summaries) == len(set(copy.summaries) - set(original.summaries))
    )
    seqs = [row["seq"] for row in copy.rows.values()]
    assert seqs == list(range(first - len(seqs), first))
    assert {row["conversation_id"] for row in copy.rows.values()} == {target}
    assert min(copy.rows) > largest
    session = value(path, "SELECT session_id FROM conversations WHERE conversation_id = ?", target)
    assert set(
        column(path, "SELECT DISTINCT session_id FROM message_parts WHERE message_id > ?", largest)
    ) <= {session}
    assert all(re.fullmatch(r"sum_[0-9a-f]{16}", one) for one in copy.summaries)
    assert Whole(path).errors() == whole.errors()
    assert search_faults(path) == []
    assert done.search is None
    undo(path, done.id)
    assert dump(path) == before


def test_what_is_sound_may_add_no_error(database_copy):
    """Only what is odd in the source may be odd in the copy, where the commit looks for it."""
    path = database_copy("0.15.3")
    assert plan(path, 2, 7).allows == frozenset()
    run(
        path,
        """INSERT INTO summary_messages SELECT max(summary_id), min(message_id), 99 FROM summary_messages
        JOIN summaries USING (summary_id) WHERE conversation_id = 2 AND kind = 'leaf'""",
    )
    [allowed] = plan(path, 2, 7).allows
    assert allowed.startswith("B15:7:")


def test_new_items_bear_the_time_of_the_plan_and_all_else_its_own(database_copy):
    path = database_copy("0.15.3")
    transplant(path, 2, 3)
    stamps = column(path, "SELECT created_at FROM context_items WHERE conversation_id = 3 ORDER BY ordinal")
    assert stamps[0] == "2026-03-06 12:00:00"
    assert value(path, "SELECT count(*) FROM summaries WHERE created_at >= '2026-03-06'") == 0
    assert value(path, "SELECT count(*) FROM messages WHERE created_at >= '2026-03-06'") == 0


def test_raw_messages_of_the_source_stay_where_they_are(database_copy):
    path = database_copy("0.15.3")
    source = context_of(path, 5)
    warnings = plan(path, 5, 8).warnings
    transplant(path, 5, 8)
    assert context_of(path, 5) == source
    raw = sum(isinstance(ref, int) for _, ref in source)
    assert any(f"{raw} raw messages of conversation 5 are not copied" in one for one in warnings)


# -- order -----------------------------------------------------------------------------------------------


def spans(path: Path, conversation: int, count: int) -> list[str]:
    sql = """SELECT coalesce(s.earliest_at, '') FROM context_items AS c JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = ? ORDER BY c.ordinal LIMIT ?"""
    return column(path, sql, conversation, count)


def said(path: Path, conversation: int, count: int) -> list[str]:
    sql = """SELECT s.content FROM context_items AS c JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = ? ORDER BY c.ordinal LIMIT ?"""
    return column(path, sql, conversation, count)


REVERSED = (
    "UPDATE context_items SET ordinal = -1 - ordinal WHERE conversation_id = {0}",
    "UPDATE context_items SET ordinal = ordinal + 1000 WHERE conversation_id = {0}",
)


@pytest.mark.long
@pytest.mark.parametrize("version", sampled(REAL, ("0.1.2", "0.15.3")))
@pytest.mark.parametrize("recorded_times", sampled([True, False], [False]))
def test_copies_stand_in_order_of_time(database_copy, version, recorded_times):
    """By coverage and not by depth, whatever the order of the source; else by what lies below."""
    path = database_copy(version)
    count = len(context_summaries(path, 1))
    expected = said(path, 1, count)
    assert spans(path, 1, count) == sorted(spans(path, 1, count))
    run(path, *(one.format(1) for one in REVERSED))
    if not recorded_times:
        run(path, "UPDATE summaries SET earliest_at = NULL, latest_at = 'now' WHERE conversation_id = 1")
    assert said(path, 1, count) == expected[::-1]
    transplant(path, 1, 7)
    times = [re.findall(r"20\d\d-\d\d-\d\d \d\d:\d\d", one)[:1] for one in said(path, 7, count)]
    assert times == [re.findall(r"20\d\d-\d\d-\d\d \d\d:\d\d", one)[:1] for one in expected]


def test_a_context_of_several_depths_is_not_sorted_by_depth(database_copy):
    path = database_copy("0.1.2")
    run(path, "UPDATE summaries SET earliest_at = '2020-01-01 00:00:00' WHERE depth = 0")
    transplant(path, 3, 7)
    sql = """SELECT s.depth FROM context_items AS c JOIN summaries AS s USING (summary_id)
        WHERE c.conversation_id = 7 ORDER BY c.ordinal"""
    depths = column(path, sql)
    assert depths[0] == 0
    assert depths != sorted(depths, reverse=True)


def test_both_formats_of_time_are_compared_as_times(database_copy):
    path = database_copy("0.15.3")
    first, *_, last = context_summaries(path, 8)
    run(
        path,
        f"UPDATE summaries SET earliest_at = '2026-01-01T00:00:00.000Z' WHERE summary_id = '{last}'",
        f"UPDATE summaries SET earliest_at = '2026-01-01 09:00:00' WHERE summary_id = '{first}'",
    )
    [wanted] = column(path, "SELECT content FROM summaries WHERE summary_id = ?", last)
    transplant(path, 8, 7)
    assert said(path, 7, 1) == [wanted]


# -- the tail stays the target's own ---------------------------------------------------------------------


def tail(path: Path, conversation: int) -> list[Row]:
    """What a host reads to find where it was."""
    sql = "SELECT * FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT 16"
    return rows(path, sql, conversation)


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_a_host_that_reads_its_tail_by_seq_sees_its_own(database_copy, version):
    path = database_copy(version)
    before, newest = tail(path, 2), value(path, "SELECT max(seq) FROM messages WHERE conversation_id = 2")
    end = context_of(path, 2)[-1]
    operation = transplant(path, 3, 2)
    assert tail(path, 2) == before
    host = Host(str(path), 2, seed=1)
    host.append()
    host.connection.close()
    assert tail(path, 2)[1:] == before[:-1]
    assert tail(path, 2)[0]["seq"] == newest + 1
    assert context_of(path, 2)[-1][0] == end[0] + len(context_summaries(path, 3)) + 1
    undo(path, operation)
    assert tail(path, 2)[1:] == before[:-1]


@pytest.mark.long
def test_a_conversation_without_messages_begins_at_one_all_the_same(database_copy):
    path = database_copy("0.15.3")
    run(path, "INSERT INTO conversations (conversation_id, session_id) VALUES (50, 'fresh')")
    before = dump(path)
    operation = transplant(path, 5, 50)
    seqs = column(path, "SELECT seq FROM messages WHERE conversation_id = 50 ORDER BY seq")
    assert seqs == list(range(1 - len(seqs), 1))
    assert [ordinal for ordinal, _ in context_of(path, 50)] == [0, 1]
    undo(path, operation)
    assert dump(path) == before


def test_numbers_follow_on_what_is_left_of_a_pruned_conversation(database_copy):
    path = database_copy("0.15.3")
    run(path, "UPDATE messages SET seq = seq + 1000 WHERE conversation_id = 7")
    transplant(path, 5, 7)
    seqs = column(path, "SELECT seq FROM messages WHERE conversation_id = 7 ORDER BY seq")
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert value(path, "SELECT seq FROM messages WHERE conversation_id = 7 AND seq > 1000 LIMIT 1") == 1001


def test_what_the_host_does_between_plan_and_commit_is_in_its_place(database_copy):
    path = database_copy("0.15.3")
    made = plan(path, 5, 8)
    host = Host(str(path), 8, seed=2)
    for _ in range(40):
        host.append()
    host.compact()
    host.connection.close()
    own = [ref for _, ref in context_of(path, 8)]
    commit(path, made)
    assert [ref for _, ref in context_of(path, 8)][2:] == own


@pytest.mark.long
def test_two_plans_for_the_same_numbers_exclude_each_other(database_copy):
    """W18: the second one is planned again, not written beside the first."""
    path = database_copy("0.15.3")
    first, second = plan(path, 5, 7), plan(path, 8, 7)
    commit(path, first)
    before = dump(path)
    with pytest.raises(StalePlanError):
        commit(path, second)
    assert dump(path) == before
    transplant(path, 8, 7)


# -- duplicates ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("source", "target"), [(5, 8), (3, 1)])
def test_a_second_time_everything_is_a_duplicate(database_copy, source, target):
    """Also where texts name files, of which the copies have other ids."""
    path = database_copy("0.15.3")
    transplant(path, source, target)
    before = dump(path)
    with pytest.raises(DuplicatesError) as caught:
        plan(path, source, target)
    originals = below(path, context_summaries(path, source))
    assert {one.summary_id for one in caught.value.duplicates} == set(originals)
    assert {one.summary_id for one in caught.value.duplicates if one.in_context} == set(
        context_summaries(path, source)
    )
    owner = "SELECT conversation_id FROM summaries WHERE summary_id = ?"
    assert {value(path, owner, one.present_id) for one in caught.value.duplicates} == {target}
    assert caught.value.exit_code.value == 9
    with pytest.raises(RefusedError, match="nothing left to transplant"):
        plan(path, source, target, skip_duplicates=True)
    assert dump(path) == before


def lose(path: Path, leaf: str) -> None:
    """Take a leaf and its messages out of a file, as if they had never come."""
    messages = "(SELECT message_id FROM summary_messages WHERE summary_id = ?)"
    with connect(path) as connection:
        for sql in (
            f"DELETE FROM message_parts WHERE message_id IN {messages}",
            f"DELETE FROM messages WHERE message_id IN {messages}",
            "DELETE FROM context_items WHERE summary_id = ?",
            "DELETE FROM summary_parents WHERE parent_summary_id = ?",
            "DELETE FROM summary_messages WHERE summary_id = ?",
            "DELETE FROM summaries WHERE summary_id = ?",
        ):
            connection.execute(sql, (leaf,))


def stored_again(path: Path, conversation: int) -> list[str]:
    found = asyncio.run(findings_of(path, whole_file=False))
    return [one.check for one in found if one.check in ("E3", "E4") and one.conversation_id == conversation]


@pytest.mark.long
def test_only_what_the_target_lacks_is_copied(database_copy):
    path = database_copy("0.15.3")
    before = stored_again(path, 7)
    transplant(path, 8, 7)
    first, *others = context_summaries(path, 7)
    lose(path, first)
    made = plan(path, 8, 7, skip_duplicates=True)
    assert any("3 summaries are skipped" in one for one in made.warnings)
    assert sum(one.table == "summaries" for one in insertions(made.edits)) == 1
    commit(path, made)
    assert context_summaries(path, 7)[1:] == others
    assert stored_again(path, 7) == before


@pytest.mark.long
def test_a_text_that_stands_below_a_new_summary_comes_with_it(database_copy):
    """It would be a summary of nothing without its sources; that was said another time."""
    path = database_copy("0.15.3")
    transplant(path, 2, 3)
    copy = context_summaries(path, 3)[0]
    run(
        path,
        f"UPDATE summaries SET content = 'other words' WHERE summary_id = '{copy}'",
        "UPDATE messages SET created_at = '2026-03-01 00:00:00' WHERE conversation_id = 3",
    )
    with pytest.raises(DuplicatesError) as caught:
        plan(path, 2, 3)
    assert not any(one.in_context for one in caught.value.duplicates)
    made = plan(path, 2, 3, skip_duplicates=True)
    assert any("8 summaries below have a text that the target also has" in one for one in made.warnings)
    assert sum(one.table == "summaries" for one in insertions(made.edits)) == 9
    commit(path, made)
    assert not Whole(path).errors()


def dissolve_first(path: Path, conversation: int, levels: int = 1) -> None:
    first = context_summaries(path, conversation)[0]
    commit(path, asyncio.run(planned(path, plan_dissolve, conversation, [first], levels=levels)))


@pytest.mark.long
@pytest.mark.parametrize("version", REAL)
def test_what_was_dissolved_in_the_target_is_not_stored_again(database_copy, version):
    """The text of the summary is gone there, and all that it was made from is in sight."""
    path = database_copy(version)
    transplant(path, 2, 3)
    [original, *_] = context_summaries(path, 2)
    dissolve_first(path, 3)
    with pytest.raises(DuplicatesError) as caught:
        plan(path, 2, 3)
    [gone] = [one for one in caught.value.duplicates if one.summary_id == original]
    assert gone.in_context
    assert gone.present_id.startswith("message ")
    with pytest.raises(RefusedError, match="nothing left to transplant"):
        plan(path, 2, 3, skip_duplicates=True)


def test_what_was_written_again_in_the_target_is_not_stored_again(database_copy):
    path = database_copy("0.15.3")
    transplant(path, 8, 7)
    run(path, "UPDATE summaries SET content = 'other words ' || rowid WHERE conversation_id = 7")
    with pytest.raises(DuplicatesError):
        plan(path, 8, 7)
    with pytest.raises(RefusedError, match="nothing left to transplant"):
        plan(path, 8, 7, skip_duplicates=True)


@pytest.mark.long
def test_a_summary_that_the_target_has_in_part_gives_way_to_the_rest(database_copy):
    """Copied whole it would tell again what stands there in finer form."""
    path = database_copy("0.15.3")
    before = stored_again(path, 3)
    transplant(path, 2, 3)
    dissolve_first(path, 3, levels=2)
    leaf = context_summaries(path, 3)[1]
    text = value(path, "SELECT content FROM summaries WHERE summary_id = ?", leaf)
    lose(path, leaf)
    made = plan(path, 2, 3, skip_duplicates=True)
    assert any("1 summary is replaced by the sources that the target lacks" in one for one in made.warnings)
    commit(path, made)
    back = context_summaries(path, 3)[0]
    assert value(path, "SELECT content FROM summaries WHERE summary_id = ?", back) == text
    assert stored_again(path, 3) == before
    assert not Whole(path).errors()


def test_blank_texts_are_nobodys_duplicates(database_copy):
    path = database_copy("0.15.3")
    ids = (context_summaries(path, 5)[0], context_summaries(path, 8)[0])
    run(path, *(f"UPDATE summaries SET content = ' ' WHERE summary_id = '{one}'" for one in ids))
    assert plan(path, 5, 8)


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_large_files_come_along_and_are_referred_to(database_copy):
    path = database_copy("0.15.3")
    stored = {
        row["file_id"]: row for row in rows(path, "SELECT * FROM large_files WHERE conversation_id = 3")
    }
    transplant(path, 3, 7)
    copied = {
        row["file_id"]: row for row in rows(path, "SELECT * FROM large_files WHERE conversation_id = 7")
    }
    assert 0 < len(copied) <= len(stored)
    assert not set(copied) & set(stored)
    plain = [
        {name: cell for name, cell in row.items() if name not in ("file_id", "conversation_id")}
        for row in stored.values()
    ]
    for row in copied.values():
        assert {
            name: cell for name, cell in row.items() if name not in ("file_id", "conversation_id")
        } in plain
    texts = [
        *rows(path, "SELECT * FROM messages WHERE conversation_id = 7"),
        *rows(path, "SELECT * FROM summaries WHERE conversation_id = 7"),
        *rows(
            path,
            "SELECT p.* FROM message_parts AS p JOIN messages USING (message_id) WHERE conversation_id = 7",
        ),
    ]
    named = {
        found
        for row in texts
        for cell in row.values()
        for found in re.findall(r"(?<![\w/])file_[a-f0-9]{16}", cell if isinstance(cell, str) else "")
    }
    assert set(copied) <= named
    assert not named & set(stored)
    for row in rows(path, "SELECT * FROM messages WHERE conversation_id = 7"):
        digest = hashlib.sha256(f"{row['role']}\0{row['content']}".encode()).hexdigest()
        assert row["identity_hash"] == digest or "file_" not in row["content"]
    assert value(path, "SELECT count(*) FROM summaries WHERE conversation_id = 7 AND file_ids <> '[]'")
    for ids in column(path, "SELECT file_ids FROM summaries WHERE conversation_id = 7"):
        assert set(json.loads(ids)) <= set(copied)


@pytest.mark.long
def test_names_in_paths_stay_and_those_behind_escapes_do_not(database_copy):
    path = database_copy("0.15.3")
    file = value(path, "SELECT file_id FROM large_files WHERE conversation_id = 3")
    leaf = below(path, context_summaries(path, 3))[-1]
    message = value(path, "SELECT message_id FROM summary_messages WHERE summary_id = ?", leaf)
    text = rf"/var/lcm-files/3/{file}.txt and {file.upper()} or \n{file}, x{file} {file}0"
    with connect(path) as connection:
        connection.execute("UPDATE messages SET content = ? WHERE message_id = ?", (text, message))
    transplant(path, 3, 7)
    [copy] = column(path, "SELECT content FROM messages WHERE conversation_id = 7 AND content LIKE '/var/%'")
    new = re.findall(r"file_[a-f0-9]{16}", copy)[1]
    assert new != file
    assert copy == rf"/var/lcm-files/3/{file}.txt and {new} or \n{new}, x{file} {file}0"
