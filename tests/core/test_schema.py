"""Every mix of old and new columns can be read, and tells what it does not record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lcm_core.api import Database
from lcm_core.base.tokens import Estimator
from lcm_core.change.schema import unknown_parts
from lcm_core.engine.rules import engine_rules
from lcm_core.store import context, conversations, listing, messages, state, statistics, summaries
from lcm_core.store import focus as briefs
from lcm_core.store import messages as files
from lcm_core.store.schema import FEATURES, FEATURES_OF_1X, MARKS_OF_1X, NOT_IN_1X, Schema
from lcm_core.writers.source import previous_of

from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.support import VERSIONS, sampled

MAIN = 1
Feature = tuple[str, str | None]
#: All of them stand in the newest recorded database.
PRESENT: tuple[Feature, ...] = tuple((table, column) for _, table, column in FEATURES)
#: Tables that the oldest engine made; only conversations and messages must be there.
TABLES = ("summaries", "summary_parents", "summary_messages", "context_items", "message_parts", "large_files")


def name_of(feature: Feature) -> str:
    table, column = feature
    return table if column is None else f"{table}.{column}"


def without(path: Path, features: Iterable[Feature]) -> Path:
    """Take tables and columns away from a database, and what depends on them."""
    with connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for table, column in features:
            listed = connection.execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('index', 'trigger', 'view')"
                " AND sql IS NOT NULL AND (? IS NULL OR sql LIKE '%' || ? || '%')",
                (column, column),
            ).fetchall()
            for kind, name in listed if column is not None else ():
                connection.execute(f'DROP {kind} "{name}"')
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                connection.execute(
                    f"DROP TABLE {table}" if column is None else f"ALTER TABLE {table} DROP COLUMN {column}"
                )
    return path


#: Everything that the store can be asked of conversation 1, which has all there is.
QUESTIONS = {
    "list": conversations.list_conversations,
    "counts": lambda reader: conversations.count_rows(reader, [MAIN]),
    "conversation": lambda reader: conversations.get_conversation(reader, MAIN),
    "sums": lambda reader: statistics.sums_of(reader, MAIN),
    "newest": lambda reader: messages.newest_page(reader, MAIN, 50),
    "oldest": lambda reader: messages.oldest_page(reader, MAIN, 50),
    "message": lambda reader: messages.get_message(reader, 1),
    "find": lambda reader: messages.find_text(reader, MAIN, "lock", start=0, forward=True),
    "time": lambda reader: messages.seq_at_time(reader, MAIN, "2026-03-01"),
    "graph": lambda reader: summaries.load_graph(reader, MAIN),
    "broken": lambda reader: summaries.broken_in(reader, MAIN),
    "tree": lambda reader: summaries.whole_tree(reader, MAIN),
    "search": lambda reader: summaries.summaries_with(reader, MAIN, "lock"),
    "items": lambda reader: context.context_items(reader, MAIN),
    "files": lambda reader: files.list_files(reader, MAIN),
    "briefs": lambda reader: briefs.list_briefs(reader, MAIN),
    "overlay": lambda reader: briefs.focus_overlay(reader, MAIN, None),
    "state": lambda reader: state.engine_state(reader, MAIN),
    "statistics": lambda reader: statistics.statistics_of(reader, MAIN),
    "whole": statistics.database_statistics,
    "totals": lambda reader: statistics.item_totals(reader, MAIN),
    "page": lambda reader: listing.conversation_page(reader, listing.Window(5)),
    "messages": lambda reader: listing.message_page(reader, MAIN, listing.Window(5)),
    "summaries": lambda reader: listing.summary_page(reader, MAIN, listing.Window(5)),
}


async def ask_everything(reader) -> dict[str, object]:
    """The answers to all questions, and to those about what was found."""
    answers = {name: await question(reader) for name, question in QUESTIONS.items()}
    items = await context.context_items(reader, MAIN)
    answers["entries"] = await context.context_entries(reader, list(items))
    raw = await messages.context_messages(reader, [MAIN])
    answers["weights"] = [(one.role, one.tokens) for one in raw[MAIN]]
    if reader.schema.has("summaries"):
        ids = [row["summary_id"] for row in await reader.rows("SELECT summary_id FROM summaries")]
        answers["summary entries"] = await summaries.summary_entries(reader, ids)
        for summary_id in ids[:5]:
            answers[f"detail {summary_id}"] = await summaries.summary_detail(reader, summary_id)
            answers[f"previous {summary_id}"] = await previous_of(reader, summary_id)
            answers[f"tokens {summary_id}"] = await context.check_tokens(reader, summary_id)
    for file in await files.list_files(reader):
        answers[f"uses of {file.file_id}"] = await files.references_to(reader, file)
    return answers


async def answers_of(path: Path) -> tuple[Schema, dict[str, object]]:
    async with await Database.open(path) as database:
        return database.schema, await database.read(ask_everything)


# -- what a file has ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("0.1.2", "0.1.2 or later, before 0.3.0"),
        ("0.3.0", "0.3.0 or later, before 0.4.0"),
        ("0.8.2", "0.8.1 or later, before 0.9.0"),
        ("0.15.3", "0.15.3+main or later"),
    ],
)
async def test_a_recorded_database_is_taken_for_what_wrote_it(
    database_file: DatabaseFactory, version: str, label: str
):
    async with await Database.open(database_file(version)) as database:
        assert database.schema.version == label
        assert database.schema.missing == ()
        assert not database.schema.is_1x
        weighted = engine_rules(database.schema).estimator is Estimator.WEIGHTED
        assert weighted == (version not in ("0.1.2", "0.3.0"))


@pytest.mark.cases(6)
@pytest.mark.parametrize("feature", PRESENT, ids=name_of)
async def test_a_feature_that_is_taken_away_is_missed_and_nothing_else(
    database_copy: DatabaseFactory, feature: Feature
):
    path = without(database_copy("0.15.3"), [feature])
    async with await Database.open(path) as database:
        schema = database.schema
    assert not schema.has(*feature)
    gone = [found for found in PRESENT if found == feature or (feature[1] is None and found[0] == feature[0])]
    # What was added last cannot be missed: nothing newer is there.
    assert list(schema.missing) == [name_of(found) for found in gone if found != PRESENT[-1]]
    assert schema.version.startswith("0.15.2 or later" if PRESENT[-1] in gone else "0.15.3+main or later")


@pytest.mark.long
async def test_a_file_of_the_first_beta_is_recognised_by_its_tables(database_copy: DatabaseFactory):
    path = without(database_copy("0.15.3"), NOT_IN_1X)
    with connect(path) as connection:
        for table in MARKS_OF_1X:
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    schema, _ = await answers_of(path)
    assert schema.is_1x
    assert schema.version == "1.0.0-beta"
    assert schema.missing == ()
    assert engine_rules(schema).estimator is Estimator.WEIGHTED


@pytest.mark.parametrize(
    ("version", "label", "rules"),
    [
        ("1.0-next", "1.0.0-beta", "1.0-beta"),
        ("1.1.0-shapes", "1.0.0 or 1.1.0", "1.1"),
        ("1.1.0-upgraded", "1.0.0 or 1.1.0", "1.1"),  # with conversation_bootstrap_state of 0.15.3
        ("1.1.1-next", "1.1.1 or later", "1.1"),
        ("1.1-later", "1.1.1 or later, with transcript cursors and gaps", "1.1"),
        ("1.1-later-empty", "1.1.1 or later, with transcript cursors and gaps", "1.1"),
    ],
)
async def test_a_file_of_the_1x_line_names_the_engine_that_opened_it_last(
    database_file: DatabaseFactory, version: str, label: str, rules: str
):
    async with await Database.open(database_file(version)) as database:
        schema = database.schema
    assert schema.is_1x
    assert (schema.version, schema.missing, unknown_parts(schema)) == (label, (), ())
    assert engine_rules(schema).name == rules


@pytest.mark.parametrize("feature", [one[1:] for one in FEATURES_OF_1X], ids=name_of)
async def test_a_1x_feature_that_is_taken_away_is_missed_and_nothing_else(
    database_copy: DatabaseFactory, feature: Feature
):
    async with await Database.open(without(database_copy("1.1-later"), [feature])) as database:
        schema = database.schema
    newest = FEATURES_OF_1X[-1][1:]
    assert list(schema.missing) == ([] if feature == newest else [name_of(feature)])


def test_a_schema_older_than_all_is_told_so():
    schema = Schema({"conversations": frozenset({"conversation_id", "session_id"}), "messages": frozenset()})
    assert schema.version == "before 0.1.2"
    assert schema.missing[:3] == ("summaries", "summary_messages", "summary_parents")  # no engine left it so
    assert "messages.token_count" in schema.missing
    assert "summaries.earliest_at" not in schema.missing


def test_absent_columns_are_null_and_others_have_their_type():
    schema = Schema({"messages": frozenset({"message_id", "seq", "content"})})
    assert schema.select("messages", ("message_id", "seq", "content", "large_content"), "m") == (
        "m.message_id AS message_id, m.seq AS seq, CAST(m.content AS TEXT) AS content, NULL AS large_content"
    )
    assert schema.select("nowhere", ("a",)) == "NULL AS a"
    assert schema.has("messages")
    assert not schema.has("messages", "model")
    assert not schema.has("nowhere", "a")


# -- every mix ---------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
async def test_everything_can_be_asked_of_every_version(database_file: DatabaseFactory, version: str):
    _, answers = await answers_of(database_file(version))
    assert len(answers["newest"].entries) == 50
    assert answers["items"]


@pytest.mark.cases(6)
@pytest.mark.parametrize("version", ["0.1.2", "0.15.3"])
@pytest.mark.parametrize(
    "lost", [(table, None) for table in TABLES] + [("messages", "token_count")], ids=name_of
)
async def test_what_every_version_has_is_missed(database_copy: DatabaseFactory, version: str, lost: Feature):
    async with await Database.open(without(database_copy(version), [lost])) as database:
        assert database.schema.missing == (name_of(lost),)


FEATURES_LOST = [*PRESENT, *((table, None) for table in TABLES)]


@pytest.mark.long
@pytest.mark.parametrize("feature", sampled(FEATURES_LOST, FEATURES_LOST[::4]), ids=name_of)
async def test_what_a_file_does_not_record_is_none_and_the_rest_is_as_ever(
    database_file: DatabaseFactory, database_copy: DatabaseFactory, feature: Feature
):
    _, expected = await answers_of(database_file("0.15.3"))
    _, answers = await answers_of(without(database_copy("0.15.3"), [feature]))
    record, field = RECORDED.get(feature, (None, None))
    if record is not None and field is not None:
        found = answers[record]
        first = found[0] if isinstance(found, list) else found
        for step in field.split("."):
            first = getattr(first, step)
        assert first is None
    for name in UNTOUCHED.get(feature[0], ()):
        assert answers[name] == expected[name]


#: The answer that shows a column, and where in it.
RECORDED: Mapping[Feature, tuple[str, str]] = {
    ("conversations", "session_key"): ("conversation", "session_key"),
    ("conversations", "active"): ("conversation", "active"),
    ("conversations", "archived_at"): ("conversation", "archived_at"),
    ("conversations", "archive_cause"): ("conversation", "archive_cause"),
    ("messages", "large_content"): ("message", "message.large_content"),
    ("messages", "openclaw_sender_metadata"): ("message", "message.sender"),
    ("summaries", "model"): ("summary entries", "summary.model"),
    ("summaries", "earliest_at"): ("summary entries", "summary.earliest_at"),
    ("summaries", "descendant_count"): ("summary entries", "summary.descendant_count"),
    ("summaries", "descendant_token_count"): ("summary entries", "summary.descendant_tokens"),
    ("summaries", "source_message_token_count"): ("summary entries", "summary.source_message_tokens"),
    ("large_files", "line_count"): ("files", "line_count"),
    ("conversation_bootstrap_state", None): ("state", "bootstrap"),
    ("conversation_compaction_telemetry", None): ("state", "telemetry"),
    ("conversation_compaction_maintenance", None): ("state", "maintenance"),
}
#: Answers that have nothing to do with a table.
UNTOUCHED: Mapping[str, tuple[str, ...]] = {
    "conversations": ("newest", "graph", "items", "files"),
    "summaries": ("newest", "items", "files", "list"),
    "summary_parents": ("newest", "items", "files", "list"),
    "summary_messages": ("items", "files", "list", "graph"),
    "context_items": ("files", "list", "find"),
    "message_parts": ("items", "files", "list", "graph"),
    "large_files": ("newest", "items", "graph", "list"),
}


@pytest.mark.long
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(features=st.sets(st.sampled_from([*PRESENT, *((table, None) for table in TABLES)])))
async def test_everything_can_be_asked_of_every_mix(database_copy: DatabaseFactory, features: set[Feature]):
    ordered = sorted(features, key=lambda feature: (feature[1] is None, name_of(feature)))
    _, answers = await answers_of(without(database_copy("0.15.3"), ordered))
    assert len(answers["newest"].entries) == 50


async def test_an_old_file_with_some_new_columns_is_read(database_copy: DatabaseFactory):
    path = database_copy("0.1.2")
    with connect(path) as connection:
        connection.execute("ALTER TABLE conversations ADD COLUMN archive_cause TEXT")
        connection.execute("ALTER TABLE summaries ADD COLUMN model TEXT")
        connection.execute("UPDATE conversations SET archive_cause = 'manual-reset'")
        connection.execute("UPDATE summaries SET model = 'unknown'")
    schema, answers = await answers_of(path)
    assert schema.version == "0.14.0 or later, before 0.15.2"
    assert "conversations.session_key" in schema.missing
    assert "conversations.archive_cause" not in schema.missing
    assert answers["conversation"].archive_cause == "manual-reset"
    assert answers["summary entries"][0].summary.model == "unknown"


async def test_a_search_table_whose_module_is_missing_breaks_nothing(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'fts5', 'no_such_module') WHERE name LIKE '%_fts%'"
        )
    schema, answers = await answers_of(path)
    assert schema.has("messages_fts")
    assert answers["list"]


@pytest.mark.long
async def test_columns_may_stand_in_any_order(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    _, expected = await answers_of(path)
    with connect(path) as connection:
        for table in ("conversations", "context_items", "summary_parents"):
            rows = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
            backward = [name for name, _ in reversed(rows)]
            typed = ", ".join(f"{name} {kind}" for name, kind in reversed(rows))
            connection.execute(f"CREATE TABLE turned ({typed})")
            names = ", ".join(backward)
            connection.execute(f"INSERT INTO turned ({names}) SELECT {names} FROM {table} ORDER BY rowid")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE turned RENAME TO {table}")
    _, answers = await answers_of(path)
    for name in ("list", "graph", "items", "newest", "conversation"):
        assert answers[name] == expected[name]
