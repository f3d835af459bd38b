"""The recall cue before an assembled context: when it stands there, and when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core import api
from lcm_core.api import Database, EngineSettings
from lcm_core.engine.messages import OriginKind
from lcm_core.engine.rules import NAMED, engine_rules
from lcm_core.operations.assembly import assemble_context, settings_for
from lcm_core.store.listing import Window, snapshot_page
from lcm_host.appending import Session
from lcm_host.engine import Engine
from lcm_recall.cue import with_cue

from tests.cli.support import run
from tests.core.recalling import NOW
from tests.databases import building, new_database

PROMPT = "What is LEASE_TTL_MS now?"
ONE = 1


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A conversation whose context has a summary that lost an identifier."""
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(1, session_key="agent:main:main")
        old = rows.message(owner, "We set it. LEASE_TTL_MS is 45000.", in_context=False)
        rows.summary(owner, "sum_a", "The lease was set.", messages=[old], in_context=True)
        rows.message(owner, "Thanks.")
        rows.execute("INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages")
    return path


async def assembled(path: Path, prompt: str | None, budget: int = 4_000, rules: str | None = None):
    async def load(reader):
        how = engine_rules(reader.schema) if rules is None else NAMED[rules]
        settings = settings_for(EngineSettings(), budget, prompt)
        plain = await assemble_context(reader, ONE, settings, rules=how, now=NOW)
        return plain, await with_cue(reader, ONE, plain, prompt, how, NOW)

    async with await Database.open(path) as database:
        return await database.read(load)


async def test_what_history_says_of_an_identifier_stands_first_and_is_counted(memory: Path) -> None:
    plain, cued = await assembled(memory, PROMPT)
    cue, *others = cued.messages
    assert tuple(others) == plain.messages
    assert (str(cue.role), cue.origin.kind) == ("user", OriginKind.CUE)
    assert cue.text.splitlines()[2] == '- user matched LEASE_TTL_MS: "LEASE_TTL_MS is 45000."'
    assert cued.sent_tokens == sum(cued.weights) == plain.sent_tokens + cued.weights[0]
    assert cued.metadata.estimated_tokens == cued.sent_tokens
    assert cued.messages_hash != plain.messages_hash


async def test_a_program_that_passes_it_sees_it_first(memory: Path) -> None:
    async with api.open(memory) as database:
        plain = await api.assemble(database, ONE, budget=4_000, prompt=PROMPT)
        cued = await api.assemble(database, ONE, budget=4_000, prompt=PROMPT, cue=with_cue)
    assert cued.messages[0].origin.kind is OriginKind.CUE
    assert cued.messages[1:] == plain.messages


async def test_there_is_no_cue_without_a_reason_or_without_room(memory: Path) -> None:
    plain, cued = await assembled(memory, PROMPT)
    for prompt in (None, "What is the lease?", "What is LEASE_TTL?", "What is SECRET_TTL_MS?"):
        same, found = await assembled(memory, prompt)
        assert found is same
    exact = cued.sent_tokens
    assert (await assembled(memory, PROMPT, exact))[1].messages[0].origin.kind is OriginKind.CUE
    tight, found = await assembled(memory, PROMPT, exact - 1)
    assert found is tight
    assert tight.messages == plain.messages
    old, found = await assembled(memory, PROMPT, rules="0.1")
    assert found is old
    with building(memory) as rows:
        rows.message(ONE, "LEASE_TTL_MS was it.")
    there, found = await assembled(memory, PROMPT)
    assert found is there


async def test_an_engine_sends_it_and_its_snapshot_is_of_the_context(memory: Path) -> None:
    session = Session("session-1", "agent:main:main")
    async with await Engine.open(memory, large_files=memory.parent / "files") as engine:
        cued = await engine.assemble(session, budget=4_000, prompt=PROMPT)
        await engine.noted()
        assert engine.snapshot_problem is None
    assert cued.messages[0].origin.kind is OriginKind.CUE
    async with await Database.open(memory) as database:
        page = await database.read(snapshot_page, ONE, Window(9))
    assert page.items[0].messages_hash != cued.messages_hash


def test_the_command_line_names_it(memory: Path) -> None:
    asked = ("context", "1", "--assembled", "--budget", "4000", "--prompt", PROMPT, "--db", memory)
    data = run(*asked, "--json").data
    assert [one["origin"] for one in data["items"]] == ["recall cue", "summary", "message"]
    shown = run(*asked).out
    assert "The first message is the recall cue" in shown
    assert "no effect" not in shown
