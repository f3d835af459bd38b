"""What the engine of a file does follows from its schema, and what an operator set stands above that."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import Database, EngineSettings
from lcm_core.base.engine_settings import KEYS
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.tokens import Estimator
from lcm_core.base.values import Record, replace
from lcm_core.engine.rules import (
    NAMED,
    RULES_0_1,
    RULES_PRESENT,
    configured,
    engine_rules,
    fresh_tail,
)
from lcm_core.operations.compact_pass import load_for_compaction
from lcm_core.operations.selection import tail_start
from lcm_core.store.context import context_entries, context_items
from lcm_core.store.schema import FEATURES, MARKS_OF_1X, NOT_IN_1X, Schema
from lcm_core.writers.source import Rendering

from tests.conftest import DatabaseFactory
from tests.support import ROOT, rules_since

VERSIONS = ("0.1.2", "0.3.0", "0.8.2", "0.15.3")


async def test_the_recorded_versions(database_file: DatabaseFactory) -> None:
    found = {}
    for version in VERSIONS:
        async with await Database.open(database_file(version)) as database:
            found[version] = engine_rules(database.schema)
    assert found["0.1.2"] == RULES_0_1
    assert found["0.3.0"] == RULES_0_1
    assert found["0.15.3"] == RULES_PRESENT
    between = found["0.8.2"]
    assert (between.name, between.estimator) == ("0.8", Estimator.WEIGHTED)
    passes = between.compaction
    assert (passes.leaf_trigger, passes.has_prefix_target, passes.bounded) == (
        True,
        False,
        False,
    )
    assert (between.source.names_role, between.source.reads_structure) == (False, False)
    assert (between.tail.fresh_tail_count, between.source.strip_injected_context_tags) == (64, ())


def test_what_the_rules_of_a_file_are_called() -> None:
    tables: dict[str, frozenset[str]] = {}
    names = {}
    for tag, table, column in FEATURES:
        tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
        names[tag] = engine_rules(Schema(tables)).name  # the last of a tag stands for it
    assert (names["0.5.0"], names["0.7.0"], names["0.9.0"], names["0.9.2"]) == ("0.1", "0.6", "0.8", "0.9")
    assert (names["0.12.0"], names["0.13.0"], names["0.15.2"]) == ("0.13", "0.13", "0.15")
    newer = {table: frozenset[str]() for table in MARKS_OF_1X}
    assert engine_rules(Schema(tables | newer)).name == "1.1"  # with the column of 0.15.2 that 1.0.0 has
    without_sender = tables | {"messages": tables["messages"] - {"openclaw_sender_metadata"}}
    assert engine_rules(Schema(without_sender | newer)).name == "1.0-beta"


#: What hangs on each table and column: the values that are others where it alone is missing.
TOLD_BY = {
    "conversation_bootstrap_state": "waits indexes_blank",
    "lcm_migration_state": "name estimator tail_of_items",
    "conversation_compaction_telemetry": "name",
    "conversation_compaction_telemetry.last_observed_prompt_token_count": "name",
    "conversation_compaction_maintenance": "name clamp counts_serialized follows_forks recall_cue"
    " omits_directives escapes has_trust strip_injected_context_tags notes_compactions",
    "conversation_compaction_maintenance.retry_attempts": "name clamp counts_serialized follows_forks"
    " recall_cue omits_directives escapes has_trust strip_injected_context_tags",
    "messages.large_content": "name stubs_payloads has_prefix_target leaf_trigger sweeps_only"
    " shortens_references reads_structure",
    "focus_briefs": "name bounded",
    "conversations.archive_cause": "name meaningful_fanout keeps_turn_whole",
    "messages.openclaw_sender_metadata": "signatures_need_identity names_role names_sender",
    "messages.identity_hash": "as_present trims_references",
    "messages.transcript_entry_id": "as_present trims_references",
    "messages.stable_event_key": "as_present trims_references",
}


def rules_without(*gone: str):
    """The rules of a file of the newest engine without some tables and columns."""
    tables: dict[str, frozenset[str]] = {}
    for _, table, column in FEATURES:
        if not {table, f"{table}.{column}"}.intersection(gone):
            tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
    return engine_rules(Schema(tables))


@pytest.mark.parametrize(("table", "column"), [one[1:] for one in FEATURES])
def test_what_hangs_on_each_table_and_column(table: str, column: str | None) -> None:
    """docs/spec/versions.md: "Rules of assembly" and the headings behind it."""
    gone = table if column is None else f"{table}.{column}"
    newest, found = values_of(RULES_PRESENT), values_of(rules_without(gone))
    changed = {name for name in newest if newest[name] != found[name]}
    if gone == "conversations.active":  # what is younger does not count then
        assert rules_without(gone) == rules_since("0.5.0")
    else:
        assert changed == set(TOLD_BY.get(gone, "").split())


def test_the_beta_line_has_the_present_rules_but_for_what_it_never_had() -> None:
    tables = {table: frozenset[str]() for table in MARKS_OF_1X}
    for _, table, column in FEATURES:
        if (table, column) not in NOT_IN_1X:
            tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
    newest, found = values_of(RULES_PRESENT), values_of(engine_rules(Schema(tables)))
    assert {name for name in newest if newest[name] != found[name]} == {
        "name",
        "signatures_need_identity",
        "names_sender",
        "clamp",
        "weighs_results",
        "follows_forks",
    }
    assert RULES_PRESENT.is_migrated
    assert not engine_rules(Schema(tables)).is_migrated


def test_nothing_but_the_rules_asks_which_line_wrote_a_file() -> None:
    asking = {
        path.relative_to(ROOT).as_posix()
        for folder in ("core", "lcm_tui")
        for path in (ROOT / folder).rglob("*.py")
        if "is_1x" in path.read_text()
    }
    assert asking == {"core/lcm_core/store/schema.py", "core/lcm_core/engine/rules.py"}


@pytest.mark.long
@given(st.sets(st.sampled_from([one[1:] for one in FEATURES])), st.booleans())
def test_any_mix_of_tables_and_columns_has_rules(kept: set[tuple[str, str | None]], beta: bool) -> None:
    tables = {table: frozenset[str]() for table in (MARKS_OF_1X if beta else ())}
    for table, column in kept:
        tables[table] = tables.get(table, frozenset()) | ({column} if column else set())
    rules = engine_rules(Schema(tables))
    assert rules.estimator is rules.assembly.estimator
    for name, named in NAMED.items():
        asked = engine_rules(Schema(tables), name)
        assert asked == replace(named, estimator=rules.estimator)
    if ("conversations", "active") not in kept:
        assert rules.name == "0.1"


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_tail_is_that_of_the_context_screen(version: str, database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file(version)) as database:
        rules = engine_rules(database.schema)

        async def compare(reader) -> list[tuple[int | None, int | None]]:
            pairs = []
            for row in await reader.rows("SELECT DISTINCT conversation_id FROM context_items"):
                loaded = await load_for_compaction(reader, row[0], Rendering(rules))
                entries = await context_entries(reader, list(await context_items(reader, row[0])))
                items = [_Item(one.item.ordinal, one.role, one.tokens or 0) for one in entries]
                for count in (1, 7, 64):
                    start = tail_start(loaded, count, rules.tail)
                    ours = loaded.ordinals[start] if start < len(loaded) else None
                    pairs.append(
                        (ours, fresh_tail(items, replace(rules.tail, fresh_tail_count=count)).first_ordinal)
                    )
            return pairs

        pairs = await database.read(compare)
    assert pairs
    assert all(ours == theirs for ours, theirs in pairs)


class _Item:
    """A context item as the rule of the context screen sees it."""

    def __init__(self, ordinal: int, role: str | None, tokens: int) -> None:
        self.ordinal, self.role, self.tokens = ordinal, role, tokens
        self.is_message = role is not None


# -- settings ------------------------------------------------------------------------------------------------

#: Settings that stand in no rule, each with a file that goes by it.
READ_ELSEWHERE = {
    "context_threshold_overrides": "core/lcm_core/engine/sessions.py",
    "timezone": "core/lcm_host/engine.py",
    "max_assembly_token_budget": "core/lcm_core/operations/assembly.py",
    "stub_large_tool_payloads": "core/lcm_core/operations/assembly.py",
    "ignore_session_patterns": "core/lcm_core/engine/sessions.py",
    "stateless_session_patterns": "core/lcm_core/engine/sessions.py",
    "skip_stateless_sessions": "core/lcm_core/engine/sessions.py",
    "replay_flood_threshold_external": "core/lcm_host/engine.py",
    "replay_flood_threshold_internal": "core/lcm_host/engine.py",
    "new_session_retain_depth": "core/lcm_core/checks/check.py",
    "summary_provider": "core/lcm_core/base/settings.py",
    "summary_model": "core/lcm_core/base/settings.py",
    "summary_timeout_ms": "core/lcm_core/base/settings.py",
    "max_expand_tokens": "core/lcm_recall/queries.py",
    "delegation_timeout_ms": "core/lcm_recall/queries.py",
}
#: Handed to the model that a program brings for `expand_query`; no command asks one: no effect here.
FOR_A_PROGRAM = {"expansion_provider", "expansion_model"}


def values_of(rules) -> dict[str, object]:
    """Every value of every group by its name."""
    groups = (getattr(rules, name) for name in rules.__struct_fields__)
    grouped = {
        name: getattr(group, name)
        for group in groups
        if isinstance(group, Record)
        for name in group.__struct_fields__
    }
    return {"name": rules.name, "estimator": rules.estimator, **grouped}


@pytest.mark.cases(23)
@pytest.mark.parametrize("attribute", KEYS)
def test_every_setting_is_a_rule_or_read_elsewhere_or_named_as_without_effect(attribute: str) -> None:
    """And where it is a rule, it has the same name there."""
    before = values_of(RULES_PRESENT)
    given = {attribute: Sourced(("another",), SettingSource.ENVIRONMENT)}
    if attribute == "leaf_chunk_tokens":  # which the first import is derived from
        given = {attribute: Sourced(before[attribute], SettingSource.ENVIRONMENT)}
        before |= {attribute: None}
    after = values_of(configured(RULES_PRESENT, replace(EngineSettings(), **given)))
    changed = {name for name in before if after[name] != before[name]}
    assert changed <= {attribute}
    ways = [bool(changed), attribute in READ_ELSEWHERE, not KEYS[attribute].has_effect]
    assert sum(ways) == 1, f"{attribute}: a rule, read elsewhere, without effect: {ways}"


@pytest.mark.long
def test_what_goes_by_a_setting_is_there_and_nothing_goes_by_those_without_effect() -> None:
    code = {
        path.relative_to(ROOT).as_posix(): re.sub(r'"[^"\n]*"', "", path.read_text(encoding="utf-8"))
        for folder in ("core", "lcm_tui")
        for path in (ROOT / folder).rglob("*.py")
    }
    unread = [name for name, file in READ_ELSEWHERE.items() if not re.search(rf"\.{name}\b", code[file])]
    assert unread == []
    for attribute in {name for name, key in KEYS.items() if not key.has_effect} - FOR_A_PROGRAM:
        assert [file for file, text in code.items() if re.search(rf"\.{attribute}\b", text)] == []
    for name in values_of(RULES_PRESENT):  # and every rule is asked somewhere
        assert any(
            re.search(rf"\.{name}\b", text)
            for file, text in code.items()
            if not file.endswith("engine_rules.py") or name == "summary_prefix_target_tokens"
        ), name
