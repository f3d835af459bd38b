"""What we do not know of a schema stops the changes that it refers to, and no others."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import RefusedError, plan_dissolve
from lcm_core.change.commit import commit
from lcm_core.change.preview import preview_plan

from tests.change.support import (
    allowed,
    changed,
    context_of,
    dissolvable,
    dump,
    planned,
    reading,
    sources,
    undo,
)
from tests.databases import run, value

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def plan(path: Path, conversation: int, summary: str):
    return asyncio.run(planned(path, plan_dissolve, conversation, (summary,), now=NOW))


#: Statements that add something unknown; {summary} is dissolved, {other} and {message} are not touched,
#: {ordinal} is its place in conversation {owner}.
BESIDE = {
    "a table of its own": [
        "CREATE TABLE metrics (name TEXT, sum REAL)",
        "INSERT INTO metrics VALUES ('x', 1)",
    ],
    "an empty table that could refer": [
        "CREATE TABLE notes (summary_id TEXT REFERENCES summaries(summary_id))",
    ],
    "a table about another summary": [
        "CREATE TABLE notes (summary_id TEXT)",
        "INSERT INTO notes VALUES ('{other}')",
    ],
    "a table about the conversation": [
        "CREATE TABLE pins (conversation_id INTEGER REFERENCES conversations ON DELETE CASCADE)",
        "INSERT INTO pins VALUES ({owner})",
    ],
    "a table about its messages": [
        "CREATE TABLE stars (message_id INTEGER)",
        "INSERT INTO stars VALUES ({message})",
    ],
    "a plain column": ["ALTER TABLE summaries ADD COLUMN mood TEXT DEFAULT 'calm'"],
    "a column that must be given": ["ALTER TABLE context_items ADD COLUMN weight INTEGER NOT NULL DEFAULT 7"],
    "a column about a message": ["ALTER TABLE large_files ADD COLUMN origin_message_id INTEGER"],
    "an odd name": [
        """CREATE TABLE "o'dd table" ("message_id" BLOB)""",
        """INSERT INTO "o'dd table" VALUES (x'00'), (NULL), (1e300)""",
    ],
    "a place in another context": [
        "CREATE TABLE marks (conversation_id INTEGER, ordinal INTEGER)",
        "INSERT INTO marks VALUES ({owner} + 100, {ordinal})",
    ],
}
NOTE = "INSERT INTO notes VALUES ('{summary}')"
REFERRING = {
    "by a declared key": (
        ["CREATE TABLE notes (about TEXT REFERENCES Summaries(SUMMARY_ID))", NOTE],
        "notes.about",
    ),
    "by a declared key without columns": (
        ["CREATE TABLE notes (about TEXT REFERENCES summaries)", NOTE],
        "notes.about",
    ),
    "by name": (["CREATE TABLE notes (summary_id TEXT)", NOTE], "notes.summary_id"),
    "by a name with a role": (
        ["CREATE TABLE notes (Source_Summary_Id TEXT)", "INSERT INTO notes VALUES ('{other}')", NOTE],
        "notes.Source_Summary_Id",
    ),
    "by a column of a known table": (
        [
            "ALTER TABLE conversations ADD COLUMN pinned_summary_id TEXT",
            "UPDATE conversations SET pinned_summary_id = '{summary}' WHERE conversation_id = {owner}",
        ],
        "conversations.pinned_summary_id",
    ),
    "by its place": (
        [
            "CREATE TABLE marks (conversation_id INTEGER, last_ordinal INTEGER)",
            "INSERT INTO marks VALUES ({owner}, {ordinal})",
        ],
        "marks.conversation_id, last_ordinal",
    ),
    "by a declared place": (
        [
            "CREATE TABLE marks (c INTEGER, o INTEGER, FOREIGN KEY (c, o) "
            "REFERENCES context_items (conversation_id, ordinal))",
            "INSERT INTO marks VALUES ({owner}, {ordinal})",
        ],
        "marks.c, o",
    ),
}


def add(path: Path, statements: list[str]) -> tuple[int, str]:
    """Add something unknown to a file, and return the summary that is to be dissolved."""
    owner, summary = dissolvable(path)[0]
    ordinal = next(at for at, ref in context_of(path, owner) if ref == summary)
    other = value(
        path,
        "SELECT summary_id FROM summaries WHERE summary_id <> ? AND conversation_id <> ?",
        summary,
        owner,
    )
    message = next(iter(one for one in sources(path, summary) if isinstance(one, int)), 1)
    run(
        path,
        *(
            one.format(summary=summary, owner=owner, ordinal=ordinal, other=other, message=message)
            for one in statements
        ),
    )
    return owner, summary


@pytest.mark.cases(1)
@pytest.mark.parametrize("statements", BESIDE.values(), ids=BESIDE)
def test_what_refers_to_nothing_that_changes_stops_no_change(database_copy, statements: list[str]) -> None:
    path = database_copy("0.15.3")
    owner, summary = add(path, statements)
    before = dump(path)
    done = commit(path, plan(path, owner, summary))
    undo(path, done.id)
    assert changed(before, dump(path)) == set()


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["0.15.3", "1.1-later"])
@pytest.mark.parametrize(("statements", "named"), REFERRING.values(), ids=REFERRING)
def test_what_refers_to_a_row_that_changes_is_named_by_preview_and_commit(
    database_copy, version: str, statements: list[str], named: str
) -> None:
    path = database_copy(version)
    owner, summary = dissolvable(path)[0]
    made = plan(path, owner, summary)
    add(path, statements)
    before = dump(path)
    with pytest.raises(RefusedError, match=f"{named}, which lcm-tui does not know") as shown:
        asyncio.run(reading(path, lambda reader: preview_plan(reader, made)))
    with pytest.raises(RefusedError, match=named) as tried:
        commit(path, made)
    assert str(shown.value) == str(tried.value)
    assert shown.value.details == {"unknown": named}
    assert dump(path) == before
    allowed(lambda: undo(path, commit(path, made).id))
    assert dump(path) == before


def test_a_reference_is_found_among_more_rows_than_one_query_takes(database_copy) -> None:
    path = database_copy("0.15.3")
    owner, summary = dissolvable(path)[0]
    made = plan(path, owner, summary)
    last = max(ordinal for ordinal, _ in context_of(path, owner))
    run(
        path,
        "CREATE TABLE marks (conversation_id INTEGER, ordinal INTEGER)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        f"INSERT INTO marks SELECT {owner}, i + {last} FROM n",
    )
    asyncio.run(reading(path, lambda reader: preview_plan(reader, made)))  # nothing is at those places
    run(path, f"INSERT INTO marks VALUES ({owner}, {last})")
    with pytest.raises(RefusedError, match=rf"context_items {owner} {last}, and marks"):
        commit(path, made)
