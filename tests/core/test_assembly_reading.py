"""How much of a database an assembly reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ContextItem, Database, EngineSettings
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.values import replace
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.items import LoadedMessage, resolve_items
from lcm_core.engine.rules import NAMED, RULES_0_1, engine_rules
from lcm_core.operations.assembly import assemble_context, assembly_basis, settings_for
from lcm_core.store.context import present_sources, stored_items
from lcm_core.store.search import RecalledRows
from lcm_core.store.summaries import edges_of, load_columns

from tests.databases import building, column, reading, run, value

DatabaseFactory = Callable[[str], Path]
NEVER = ""
CONTEXT = 3_000  #: raw messages in the context of the conversation that `long_conversation` makes


@pytest.fixture
def long_conversation(database_copy: DatabaseFactory) -> Path:
    """A database whose conversation 99 was never compacted; its messages weigh 100 tokens each."""
    path = database_copy("0.15.3")
    with building(path) as rows:
        rows.conversation(99)
        for at in range(CONTEXT):
            role = "assistant" if at % 2 else "user"
            rows.message(99, f"{at:x>392}", role=role, message_id=90_000 + at, token_count=100)
    return path


async def read(path: Path, number: int, budget: int, **settings: Any):
    """An assembly and how many statements it took."""
    async with await Database.open(path) as database:
        asked = AssemblySettings(budget, **settings)
        found = await database.read(assemble_context, number, asked, zone=UTC)
        return found, database.statements


@pytest.mark.parametrize(
    ("version", "number", "most"), [("0.1.2", 1, 6), ("0.3.0", 1, 6), ("0.8.2", 1, 7), ("0.15.3", 1, 8)]
)
async def test_a_usual_context_takes_few_statements(
    version: str, number: int, most: int, database_file: DatabaseFactory
):
    found, statements = await read(database_file(version), number, 128_000)
    assert found.messages
    assert statements <= most


@pytest.mark.long
async def test_of_a_long_context_only_what_may_fit_is_read(long_conversation: Path):
    small, few = await read(long_conversation, 99, 5_000, fresh_tail_count=4)
    assert small.unread is not None
    assert small.unread.items == CONTEXT - 200  # one page
    assert small.metadata.raw_messages == small.metadata.context_items == CONTEXT
    assert len(small.messages) + small.evicted_items == CONTEXT
    assert few <= 6
    large, more = await read(long_conversation, 99, 128_000, fresh_tail_count=4)
    assert large.unread is not None
    assert 1_000 < len(large.messages) < 1_400
    assert more <= 13
    everything, _ = await read(long_conversation, 99, 1_000_000, fresh_tail_count=4)
    assert everything.unread is None
    assert (everything.selection, len(everything.messages)) == ("full-fit", CONTEXT)


@pytest.mark.long
async def test_choosing_by_the_prompt_reads_everything(long_conversation: Path):
    found, _ = await read(long_conversation, 99, 1_000, fresh_tail_count=1, prompt="x1234")
    assert found.unread is None
    assert found.selection == "prompt-aware"


@pytest.mark.long
async def test_a_tail_longer_than_the_budget_is_read_whole(long_conversation: Path):
    found, _ = await read(long_conversation, 99, 1_000, fresh_tail_count=700)
    assert (len(found.messages), found.tail.items) == (700, 700)


@pytest.mark.long
@pytest.mark.parametrize("answered", [False, True])
async def test_a_result_that_is_not_read_takes_its_call_from_the_tail(
    long_conversation: Path, answered: bool
):
    last = 90_000 + CONTEXT - 1
    with building(long_conversation) as rows:
        rows.execute("UPDATE messages SET role = 'tool' WHERE message_id = 90000")
        result = {"tool_call_id": "x" if answered else "y", "metadata": '{"originalRole":"toolResult"}'}
        rows.part(90_000, "tool", "so", **result)
        rows.part(last, "text", "so", tool_call_id="")
        rows.part(last, "tool", "so", tool_call_id="x")
    found, _ = await read(long_conversation, 99, 5_000, fresh_tail_count=2)
    whole, _ = await read(long_conversation, 99, 1_000_000, fresh_tail_count=2)
    assert found.unread is not None
    assert whole.unread is None
    expected = (
        "tool call without a result removed"
        if answered
        else "tool call without a result answered with an error"
    )
    for one in (found, whole):
        mended = [repair for repair in one.repairs if repair.origin.message_id == last]
        assert [(repair.what, repair.call_id) for repair in mended] == [(expected, "x")]
    assert [one.document() for one in found.messages[-2:]] == [one.document() for one in whole.messages[-2:]]


@pytest.mark.long
async def test_what_was_read_serves_smaller_budgets(long_conversation: Path):
    async with await Database.open(long_conversation) as database:
        asked = AssemblySettings(20_000, fresh_tail_count=4)
        basis = await database.read(assembly_basis, 99, asked, zone=UTC)
        before = database.statements
        assert basis.serves(AssemblySettings(10_000, fresh_tail_count=4, clamp=True))
        assert len(basis.assembled(AssemblySettings(10_000, fresh_tail_count=4)).messages) < 110
        for other in (
            AssemblySettings(20_001, fresh_tail_count=4),
            AssemblySettings(20_000, fresh_tail_count=400),
            AssemblySettings(20_000, fresh_tail_count=4, prompt="x"),
            AssemblySettings(20_000, fresh_tail_count=4, stub_large_tool_payloads=True),
        ):
            assert not basis.serves(other)
        assert database.statements == before


@pytest.mark.cases(1)
@pytest.mark.parametrize("stubs", [False, True])
async def test_messages_that_read_as_before_are_not_resolved_again(
    stubs: bool, database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
):
    path, resolved = database_copy("0.15.3"), list[int]()

    def counted(items: Any, *how: Any) -> Any:
        resolved.extend(item.ordinal for item in items if isinstance(item, LoadedMessage))
        return resolve_items(items, *how)

    monkeypatch.setattr("lcm_core.operations.assembly.resolve_items", counted)
    asked = AssemblySettings(128_000, stub_large_tool_payloads=stubs)

    async def read_anew(known):
        resolved.clear()
        async with await Database.open(path) as database:
            basis = await database.read(assembly_basis, 3, asked, zone=UTC, known=known)
        return basis, list(resolved)

    first, all_of_them = await read_anew(None)
    again, none = await read_anew(first)
    assert len(all_of_them) > 5
    assert none == []
    assert again.context == first.context
    one, other, third, fourth = all_of_them[1:5]
    message = "(SELECT message_id FROM context_items WHERE conversation_id = 3 AND ordinal = {})"
    run(
        path,
        f"UPDATE messages SET content = 'another' WHERE message_id = {message.format(one)}",
        f"UPDATE messages SET token_count = 7 WHERE message_id = {message.format(other)}",
        f"DELETE FROM context_items WHERE conversation_id = 3 AND ordinal = {third}",
        f"UPDATE message_parts SET text_content = 'else' WHERE message_id = {message.format(fourth)}",
    )
    with building(path) as rows:
        rows.item(3, value(path, "SELECT max(message_id) FROM context_items WHERE conversation_id = 3"))
    new, few = await read_anew(again)
    assert few == [one, other, fourth, all_of_them[-1] + 1]
    assert new.context == (await read_anew(None))[0].context
    other_rules = replace(new, rules=replace(new.rules, name="others"))
    assert len((await read_anew(other_rules))[1]) == len(all_of_them)


async def test_history_and_debt_are_summed_when_asked(database_file: DatabaseFactory):
    path = database_file("0.15.3")
    with reading(path) as connection:
        [(said,)] = connection.execute("SELECT sum(token_count) FROM messages WHERE conversation_id = 3")
        [(raw,)] = connection.execute(
            """SELECT sum(m.token_count) FROM context_items AS c JOIN messages AS m USING (message_id)
            WHERE c.conversation_id = 3 AND c.ordinal < 18"""
        )
    async with await Database.open(path) as database:
        asked = AssemblySettings(6_000, fresh_tail_count=10)
        found = await database.read(assemble_context, 3, asked, zone=UTC, with_history=True)
    assert found.metadata.raw_history_tokens == said
    assert found.metadata.raw_history_debt_tokens == raw


async def test_the_cache_is_judged_by_telemetry(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(
        path,
        """UPDATE conversation_compaction_telemetry SET provider = 'openai-codex', cache_state = 'hot',
        retention = 'long', last_observed_cache_read = 59904, last_observed_cache_break_at = NULL,
        last_cache_touch_at = '2026-03-06T11:50:00.000Z' WHERE conversation_id = 1""",
    )
    async with await Database.open(path) as database:
        states = []
        for hour in (12, 14):
            found = await database.read(
                assemble_context,
                1,
                AssemblySettings(6_000),
                zone=UTC,
                now=datetime(2026, 3, 6, hour, tzinfo=UTC),
            )
            states.append((found.metadata.cache.state, found.metadata.cache.mutation_sensitive))
    assert states == [("hot", True), ("cold", False)]


async def test_items_without_a_row_are_told(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        gone = []
        for number in range(1, 9):
            found = await database.read(assemble_context, number, AssemblySettings(128_000), zone=UTC)
            gone += [one for one in found.evicted if one.step == "resolve"]
        assert [one.origin for one in gone] == [None]


async def test_a_conversation_without_a_context_is_empty(database_file: DatabaseFactory):
    found, _ = await read(database_file("0.15.3"), 4_711, 1_000)
    assert found.messages == ()
    assert str(found.metadata.source) == "fallback-empty"


@pytest.mark.parametrize(
    ("version", "name", "escapes", "turn", "items"),
    [
        ("0.1.2", "0.1", False, False, True),
        ("0.3.0", "0.1", False, False, True),
        ("0.8.2", "0.8", False, False, False),
        ("0.15.3", "0.15", True, True, False),
    ],
)
async def test_the_rules_follow_from_the_schema(
    version: str, name: str, escapes: bool, turn: bool, items: bool, database_file: DatabaseFactory
):
    async with await Database.open(database_file(version)) as database:
        rules = engine_rules(database.schema)
        assert (rules.name, rules.wrapper.escapes, rules.wrapper.has_trust) == (name, escapes, escapes)
        assert (rules.tail.keeps_turn_whole, rules.assembly.tail_of_items) == (turn, items)
        old = await database.read(
            assemble_context, 1, AssemblySettings(128_000), zone=UTC, rules=NAMED["0.1"]
        )
    assert old.rules == RULES_0_1.name
    assert not any("trust=" in message.text[:200] for message in old.messages)


def test_settings_of_an_operator():
    plain = settings_for(EngineSettings(), 9_000)
    assert plain == AssemblySettings(9_000, clamp=True), "what a host gets is cut last"
    assert settings_for(EngineSettings(), 9_000, clamp=False) == AssemblySettings(9_000)
    told = EngineSettings(
        fresh_tail_count=Sourced(10, SettingSource.ENVIRONMENT),
        max_assembly_token_budget=Sourced(5_000),
        prompt_aware_eviction=Sourced(False, SettingSource.ENVIRONMENT),
    )
    found = settings_for(told, 9_000)
    assert (found.budget, found.fresh_tail_count, found.prompt) == (5_000, 10, None)
    assert settings_for(told, 9_000, "why").prompt_aware


def counting(rules):
    """The same rules, with everything counted anew."""
    return replace(rules, assembly=replace(rules.assembly, trusts_stored_tokens=False))


#: Messages by version: all, and those that cannot be rebuilt: bulk imports up to 0.9.3 stored no parts.
REBUILT = {"0.1.2": (899, 14), "0.3.0": (899, 14), "0.8.2": (897, 12), "0.15.3": (865, 0)}


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", REBUILT)
async def test_every_stored_message_is_rebuilt_to_what_was_counted(
    version: str, database_file: DatabaseFactory
):
    """The engine counts a message when it stores it, in the very form in which the assembler sends it."""
    async with await Database.open(database_file(version)) as database:
        rules = engine_rules(database.schema)

        async def rebuilt(reader):
            ids = await reader.rows("SELECT message_id FROM messages WHERE role <> 'system'")
            items = [ContextItem(at, "message", row[0], None, NEVER) for at, row in enumerate(ids)]
            return list(resolve_items(await stored_items(reader, items), None, counting(rules), UTC).items)

        found = await database.read(rebuilt)
    differing = [item for item in found if item.tokens != item.stored_tokens]
    assert (len(found), len(differing)) == REBUILT[version]


async def test_what_is_neither_sent_nor_in_a_summary_that_is_sent_is_said(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    found, _ = await read(path, 3, 1_500, fresh_tail_count=10, clamp=True)
    sent = {one.origin.message_id for one in found.messages}
    raw = value(path, "SELECT group_concat(message_id) FROM context_items WHERE conversation_id = 3")
    gone = {int(one) for one in raw.split(",")} - sent
    assert found.unseen.messages == len(gone) > 5
    assert found.unseen.unread == 0
    lost = [one for one in found.evicted if one.ordinal in found.unseen.tokens]
    assert {one.origin.message_id for one in lost if one.origin} == gone
    assert sum(found.unseen.tokens.values()) == sum(one.tokens for one in lost)
    one = lost[0].origin
    assert one is not None
    # A summary of the context was made from it, too: it counts as seen where that summary is sent.
    link = f"INSERT INTO summary_messages VALUES ('sum_c6b4721207b8f215', {one.message_id}, 99)"
    run(path, link)
    small, large = [(await read(path, 3, tokens, fresh_tail_count=2))[0] for tokens in (1_500, 2**20)]
    assert "sum_c6b4721207b8f215" not in {message.origin.summary_id for message in small.messages}
    assert lost[0].ordinal in small.unseen.tokens
    assert large.unseen.messages == 0
    above = (await basis_of(path, 3)).context.above
    assert above == {one.message_id: {"sum_c6b4721207b8f215"}}


async def basis_of(path: Path, number: int):
    async with await Database.open(path) as database:
        return await database.read(assembly_basis, number, AssemblySettings(2**20), zone=UTC)


@pytest.mark.long
async def test_older_messages_that_were_not_read_are_seen_in_no_form(long_conversation: Path):
    found, _ = await read(long_conversation, 99, 5_000, fresh_tail_count=4)
    assert found.unread is not None
    assert found.unseen.unread == found.unread.items == CONTEXT - 200
    assert found.unseen.messages == CONTEXT - len(found.messages)


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("said", "named"),
    [
        (
            "see [LCM File: file_00000000000000aa | a.txt | text/plain | 90,000 bytes]\n\nExploration",
            1,
        ),
        ("[LCM Raw Payload: FILE_00000000000000AA | role=user | reason=large_raw_message | 9 bytes]", 1),
        ("[User image: user-image.png (image/png, 49 bytes) | LCM file: file_00000000000000aa]", 1),
        ("看 [LCM File: file_00000000000000aa | a] [LCM File: file_00000000000000ab | b]", 2),
        ("what is file_00000000000000aa?", 0),
        ("[LCM File: file_00000000000000ff | somebody wrote this]", 0),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_a_note_in_place_of_what_a_user_pasted_is_known(
    said: str, named: int, role: str, database_copy: DatabaseFactory
):
    path = database_copy("0.15.3")
    with building(path) as rows:
        rows.conversation(99)
        rows.message(99, "go", message_id=90_000)
        rows.message(99, said, role=role, message_id=90_001)
    for name in ("aa", "ab"):
        run(
            path,
            f"""INSERT INTO large_files (file_id, conversation_id, file_name, byte_size, storage_uri)
            VALUES ('file_00000000000000{name}', 99, 'a.txt', 90000, '/x')""",
        )
    found, _ = await read(path, 99, 128_000)
    files = [file.file_id for held in found.pasted.values() for file in held]
    assert len(files) == (named if role == "user" else 0)
    assert set(found.pasted) <= {1}


async def test_sources_of_equal_ordinals_come_by_id(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    run(path, "UPDATE summary_parents SET ordinal = 3")
    consumers = list(column(path, "SELECT DISTINCT summary_id FROM summary_parents"))

    async def load(reader):
        wrapped = await present_sources(reader, consumers)
        edges = await edges_of(reader, consumers)
        columns = [await load_columns(reader, number) for number in range(1, 9)]
        pairs = [pair for one in columns for pair in zip(one.consumers, one.sources, strict=True)]
        recalled = await reader.run(
            lambda rows: {one: RecalledRows(rows, reader.schema).links(one).sources for one in consumers}
        )
        found = [list(wrapped[one]) for one in consumers]
        found += [[edge.source for edge in edges if edge.consumer == one] for one in consumers]
        found += [[source for consumer, source in pairs if consumer == one] for one in consumers]
        return [*found, *map(list, recalled.values())]

    async with await Database.open(path) as database:
        found = await database.read(load)
    assert max(map(len, found)) > 2
    assert found == [sorted(one) for one in found]
