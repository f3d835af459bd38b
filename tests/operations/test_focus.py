"""Focus briefs: what the engine recorded, row for row, and what an operation refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import (
    BriefText,
    Database,
    LcmError,
    NotFoundError,
    RefusedError,
    StalePlanError,
    plan_activate_brief,
    plan_clear_brief,
    plan_delete_brief,
)
from lcm_core.base.times import parse_utc, sql_utc
from lcm_core.base.values import replace
from lcm_core.change.commit import commit
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.engine.graph import Watermark
from lcm_core.operations.assembly import assembly_basis
from lcm_core.operations.focus import effect_of, plan_brief, plan_failed_brief, read_refocus, read_wish
from lcm_core.store.focus import active_brief, focus_input, focus_overlay, list_briefs, state_of

from tests.change.support import dump, planned, reading, undo
from tests.conftest import DatabaseFactory
from tests.databases import building, column, query, run, value
from tests.support import recorded

RECORDED: dict[str, Any] = recorded("lcm-0.15.3.focus.json.xz")
ONE, TWO, THREE = 1, 2, 3
NOW = datetime(2026, 3, 4, 13, tzinfo=UTC)
STATES = """SELECT prompt, status, superseded_at IS NOT NULL FROM focus_briefs WHERE conversation_id = ?
    ORDER BY rowid"""


def put(
    path: Path,
    prompt: str,
    text: BriefText,
    mark: Watermark | None = None,
    *,
    owner=ONE,
    brief_id: str | None = None,
    now: datetime = NOW,
):
    """Commit a new brief, with another watermark than that of the context where one is given."""

    async def plan(reader):
        wish = await read_wish(reader, owner, prompt)
        if mark is not None:
            wish = replace(wish, made_from=replace(wish.made_from, watermark=mark))
        return await plan_brief(reader, wish, text, brief_id=brief_id, now=now)

    made = asyncio.run(planned(path, plan))
    commit(path, made)
    return made


def fail(
    path: Path,
    prompt: str,
    error: str = "timed out",
    *,
    owner=ONE,
    brief_id: str | None = None,
    now: datetime = NOW,
) -> None:
    """Commit the row of a brief that nobody wrote."""

    async def plan(reader):
        wish = await read_wish(reader, owner, prompt)
        return await plan_failed_brief(reader, wish, error, "m", brief_id=brief_id, now=now)

    commit(path, asyncio.run(planned(path, plan)))


def refusal(path: Path, plan: Callable[..., Awaitable[Any]], *args: object) -> LcmError:
    before = dump(path)
    with pytest.raises(LcmError) as caught:
        asyncio.run(planned(path, plan, *args))
    assert dump(path) == before
    return caught.value


def diagnostics(path: Path) -> dict[str, Any]:
    async def load(reader):
        brief = await active_brief(reader, ONE)
        brief = brief or (await list_briefs(reader, ONE))[0]
        return await state_of(reader, brief)

    found = asyncio.run(reading(path, load))
    return {
        "postFocusMessageCount": found.messages,
        "postFocusSummaryCount": found.summaries,
        "postFocusTokenCount": found.tokens,
        "sourceContextChanged": found.context_changed,
        "stale": found.stale,
        "truncated": found.truncated,
    }


def states(path: Path) -> list[dict[str, Any]]:
    return [dict(zip(("prompt", "status", "sup"), row, strict=True)) for row in query(path, STATES, ONE)]


# -- as the engine recorded it ---------------------------------------------------------------------------


async def test_what_a_brief_is_made_from_is_what_the_engine_takes(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        found = await database.read(focus_input, ONE)
        rest = {number: await database.read(focus_input, number) for number in range(1, 9)}
    assert [
        {
            "ordinal": one.ordinal,
            "summaryId": one.summary_id,
            "kind": one.kind,
            "depth": one.depth,
            "tokenCount": one.tokens,
            "createdAt": one.created_at,
            "latestAt": one.latest_at,
            "maxSourceSeq": one.own_last_seq,
        }
        for one in found.sources
    ] == RECORDED["active"]
    assert {
        str(number): {
            "watermark": {
                "coveredLatestAt": one.watermark.latest_at,
                "coveredMessageSeq": one.watermark.message_seq,
            },
            "hash": one.digest,
        }
        for number, one in rest.items()
    } == RECORDED["perConversation"]


@pytest.mark.long
def test_the_recorded_sequence_row_by_row(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    log = iter(RECORDED["log"])

    def holds(*, read: bool = True) -> dict[str, Any]:
        step: dict[str, Any] = next(log)
        assert states(path) == step["states"], step["step"]
        if read:
            assert diagnostics(path) == step["diagnostics"], step["step"]
        return step

    put(path, "one", BriefText("body", "m"))
    holds()
    fail(path, "two")
    holds(read=False)
    put(path, "three", BriefText("body", "m", truncated=True))
    holds()
    plan = asyncio.run(planned(path, plan_clear_brief, ONE, now=NOW))
    commit(path, plan)
    step = holds(read=False)
    assert asyncio.run(reading(path, lambda reader: active_brief(reader, ONE))) is step["active"] is None
    assert len(plan.edits) == step["changed"]
    newest, *_ = asyncio.run(reading(path, lambda reader: list_briefs(reader, ONE)))
    assert newest.prompt == step["latest"]
    put(path, "four", BriefText("body", "m"), Watermark(LATEST, 100))
    holds()


LATEST = "2026-03-04T11:29:17.000Z"
SENT_ID = "focus_0123456789abcdef"


@dataclass(frozen=True)
class Sent:
    """A brief under which the recording was made; the defaults are those of most."""

    prompt: str
    content: str = "Focus body"
    latest: str | None = LATEST
    seq: int | None = 366


#: The brief of each assembly, by its step: what its name says of it. None: none was active.
SENT: dict[str, Sent | None] = {
    "assemble with four": Sent("four", "body", seq=100),
    "assemble: covers all (366)": Sent("covers all (366)"),
    "assemble: covers seq 200": Sent("covers seq 200", seq=200),
    "assemble: no seq, covered until 2026-03-03T18:41:25Z": Sent(
        "no seq, covered until 2026-03-03T18:41:25Z", latest="2026-03-03T18:41:25.000Z", seq=None
    ),
    "assemble: no watermark": Sent("no watermark", latest=None, seq=None),
    "assemble: blank content": Sent("blank content", "   "),
    "assemble: content with <tag> & quote": Sent('a "b" <c>', "x <y> & z"),
    "assemble without": None,
}
ASSEMBLED = [one for one in RECORDED["log"] if "result" in one]


def test_every_recorded_step_is_repeated_here():
    steps = [one["step"] for one in RECORDED["log"]]
    assert set(SENT) == {one["step"] for one in ASSEMBLED}
    assert (len(steps), len(ASSEMBLED)) == (14, 9)


@pytest.mark.cases(4)
@pytest.mark.parametrize("number", range(len(ASSEMBLED)))
async def test_what_is_sent_under_a_brief_is_what_was_recorded(number: int, database_copy: DatabaseFactory):
    path, step = database_copy("0.15.3"), ASSEMBLED[number]
    if (brief := SENT[step["step"]]) is not None:  # a blank text is one that no plan writes
        with building(path) as rows:
            rows.insert(
                "focus_briefs",
                brief_id=SENT_ID,
                conversation_id=ONE,
                prompt=brief.prompt,
                content=brief.content,
                status="active",
                token_count=3,
                target_tokens=12_000,
                covered_latest_at=brief.latest,
                covered_message_seq=brief.seq,
                source_context_hash=RECORDED["hash"],
                created_at="2026-03-04 12:00:00",
            )
    wanted = AssemblySettings(step.get("budget", 400_000), fresh_tail_count=10)
    async with await Database.open(path) as database:
        basis = await database.read(lambda reader: assembly_basis(reader, ONE, wanted, zone=UTC))
    found, said = basis.assembled(), step["result"]
    assert found.estimated_tokens == said["estimatedTokens"]
    assert {
        "rawMessageCount": found.metadata.raw_messages,
        "summaryCount": found.metadata.summaries,
        "totalContextItems": found.metadata.context_items,
    } == said["stats"]
    assert len(found.messages) == said["count"]
    heads = [
        head_of(one.document(), len(head["head"]))
        for one, head in zip(found.messages, said["first"], strict=False)
    ]
    assert heads == said["first"]
    if "diagnostics" in step:
        assert await asyncio.to_thread(diagnostics, path) == step["diagnostics"]


def head_of(message: Any, length: int) -> dict[str, str]:
    """A message as the recording shows it: its beginning, with letters for what differs from run to run."""
    content = message["content"]
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    )
    text = text.replace(SENT_ID, "B").replace('created_at="2026-03-04T12:00:00"', 'created_at="T"')
    return {"role": message["role"], "head": text[:length]}


@pytest.mark.long
def test_the_rows_that_the_engine_left_are_made_again(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    # Not their counts: whoever filled this file gave a target of 1,200, and a quarter of the length for CJK.
    columns = """brief_id, conversation_id, session_key, prompt, content, status,
        covered_latest_at, covered_message_seq, source_context_hash, error, created_at, updated_at,
        superseded_at"""
    sql = f"SELECT {columns} FROM focus_briefs ORDER BY rowid"
    inputs = "SELECT * FROM focus_brief_sources WHERE role = 'active_input' AND brief_id = ? ORDER BY ordinal"
    kept = query(path, sql)
    failed = {row[0]: query(path, inputs, row[0]) for row in kept if "failed" in row}
    assert (len(kept), len(failed)) == (6, 2)
    run(path, "DELETE FROM focus_briefs", "DELETE FROM focus_brief_sources")
    for row in kept:
        brief_id, number, _, prompt, content, status, *_, error, _, _, _ = row
        moment, owner = parse_utc(row[-3]), number
        assert moment is not None
        if status == "failed":
            fail(path, prompt, error, owner=owner, brief_id=brief_id, now=moment)
            assert query(path, inputs, brief_id) == failed[brief_id]
            continue
        put(path, prompt, BriefText(content), owner=owner, brief_id=brief_id, now=moment)
        if status == "inactive":
            commit(path, asyncio.run(planned(path, plan_clear_brief, owner, now=moment)))
    assert query(path, sql) == kept


def test_sources_have_their_roles_and_ordinals(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    edge = "SELECT parent_summary_id FROM summary_parents WHERE summary_id = 'sum_4c4bd5292abfa225'"
    below = value(path, edge)
    text = BriefText(
        "Text.",
        "m",
        cited=("sum_07742015d971b59d", "sum_nobody"),
        expanded=(below, "sum_07742015d971b59d"),
        irrelevant=("sum_253c14ef1ca84d7c",),  # of another conversation
    )
    plan = put(path, "q", text)
    sql = "SELECT summary_id, ordinal, role FROM focus_brief_sources WHERE brief_id = ? ORDER BY rowid"
    assert query(path, sql, plan.select) == [
        *((one["summaryId"], one["ordinal"], "active_input") for one in RECORDED["active"]),
        ("sum_07742015d971b59d", 2, "cited"),
        (below, None, "expanded"),
        ("sum_07742015d971b59d", 2, "expanded"),
    ]
    assert any("2 ids of no summary" in one for one in plan.warnings)


# -- refocus, activate, delete ---------------------------------------------------------------------------


def test_a_refocus_is_made_from_what_came_since(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    put(path, "question", BriefText("First."))
    assert "already current" in refusal(path, read_refocus, ONE).message
    with building(path) as rows:
        said = rows.message(1, "later", role="user")
        rows.summary(1, "sum_later", messages=[said], in_context=True)

    async def again(reader):
        wish = await read_refocus(reader, ONE)
        assert [one.summary_id for one in wish.wanted] == ["sum_later"]
        return await plan_brief(reader, wish, BriefText("Second."), now=NOW)

    plan = asyncio.run(planned(path, again))
    commit(path, plan)
    assert [(one["prompt"], one["status"]) for one in states(path)] == [
        ("question", "superseded"),
        ("question", "active"),
    ]
    sql = "SELECT summary_id FROM focus_brief_sources WHERE brief_id = ?"
    assert column(path, sql, plan.select) == ["sum_later"]
    assert "already current" in refusal(path, read_refocus, ONE).message


def test_an_older_brief_is_activated_and_deleted(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    old, now = "focus_b291d54f7a07a200", "focus_0641d2bb900b47e2"
    plan = asyncio.run(planned(path, plan_activate_brief, TWO, old, now=NOW))
    done = commit(path, plan)
    sql = """SELECT brief_id, status, superseded_at, updated_at FROM focus_briefs
        WHERE conversation_id = 2 AND content <> ''"""
    assert query(path, sql) == [
        (old, "active", None, "2026-03-04 13:00:00"),
        (now, "superseded", "2026-03-04 13:00:00", "2026-03-04 13:00:00"),
    ]
    assert "It is stale: newer messages, newer summaries" in plan.warnings
    undo(path, done.id)
    done = commit(path, asyncio.run(planned(path, plan_delete_brief, TWO, now)))
    assert value(path, "SELECT count(*) FROM focus_brief_sources WHERE brief_id = ?", now) == 0
    assert asyncio.run(reading(path, lambda reader: active_brief(reader, TWO))) is None
    undo(path, done.id)
    assert asyncio.run(reading(path, lambda reader: active_brief(reader, TWO))) is not None


async def test_the_effect_before_and_the_reasons(database_file: DatabaseFactory):
    async with await Database.open(database_file("0.15.3")) as database:
        (brief, *_) = await database.read(list_briefs, TWO)
        effect = await database.read(effect_of, brief)
        state = await database.read(state_of, brief)
    assert (effect.covered, effect.covered_tokens, effect.saved, effect.left) == (
        ("sum_253c14ef1ca84d7c",),
        248,
        208,
        0,
    )
    assert state.reasons == ("newer messages", "newer summaries")


def test_a_brief_that_was_changed_meanwhile_is_not_overwritten(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    plan = asyncio.run(planned(path, plan_clear_brief, TWO, now=NOW))
    run(path, "UPDATE focus_briefs SET status = 'superseded' WHERE status = 'active'")
    before = dump(path)
    with pytest.raises(StalePlanError):
        commit(path, plan)
    assert dump(path) == before


def test_a_brief_that_somebody_else_made_active_meanwhile_stays_the_only_one(
    database_copy: DatabaseFactory,
):
    path = database_copy("0.15.3")

    async def plan(reader):
        return await plan_brief(reader, await read_wish(reader, ONE, "q"), BriefText("Ours."), now=NOW)

    plans = [asyncio.run(planned(path, plan)), asyncio.run(planned(path, plan))]
    put(path, "theirs", BriefText("Theirs."))
    before = dump(path)
    for one in plans:
        with pytest.raises(LcmError, match=r"another focus brief of conversation 1 is active \(G11\)"):
            commit(path, one)
    assert dump(path) == before


def test_of_two_that_are_active_either_can_be_the_one(database_copy: DatabaseFactory):
    path, old, new = database_copy("0.15.3"), "focus_b291d54f7a07a200", "focus_0641d2bb900b47e2"
    stamp = sql_utc(NOW)
    run(path, f"UPDATE focus_briefs SET status = 'active', superseded_at = NULL, updated_at = '{stamp}'")
    before = dump(path)
    # The older one has all the values of an active one already: only the others change.
    done = commit(path, asyncio.run(planned(path, plan_activate_brief, TWO, old, now=NOW)))
    assert column(
        path, "SELECT brief_id FROM focus_briefs WHERE conversation_id = 2 AND status = 'active'"
    ) == [old]
    undo(path, done.id)
    assert dump(path) == before
    assert "already active" in refusal(path, plan_activate_brief, TWO, new).message


@pytest.mark.long
def test_a_row_that_its_own_schema_forbids_comes_back_with_the_undo(database_copy: DatabaseFactory):
    path, brief_id = database_copy("0.15.3"), "focus_b291d54f7a07a200"
    with building(path, checks=False) as rows:
        rows.execute("UPDATE focus_briefs SET status = 'lost' WHERE brief_id = ?", brief_id)
    before = dump(path)
    for plan in (plan_activate_brief, plan_delete_brief):
        done = commit(path, asyncio.run(planned(path, plan, TWO, brief_id)))
        undo(path, done.id)
        assert dump(path) == before


# -- refused ---------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["0.1.2", "0.3.0", "0.8.2"])
def test_an_engine_without_briefs_is_said_to_have_none(version: str, database_copy: DatabaseFactory):
    path = database_copy(version)
    for plan, args in (
        (read_wish, (ONE, "q")),
        (read_refocus, (ONE,)),
        (plan_activate_brief, (ONE, "focus_1")),
        (plan_clear_brief, (ONE,)),
        (plan_delete_brief, (ONE, "focus_1")),
    ):
        assert "has no focus briefs" in refusal(path, plan, *args).message


@pytest.mark.long
def test_what_cannot_be_done_says_why(database_copy: DatabaseFactory):
    path = database_copy("0.15.3")
    seven, none = 7, 99
    assert "no summaries" in refusal(path, read_wish, seven, "q").message
    assert "question of 1 to 4,000" in refusal(path, read_wish, ONE, " \u3000\0").message
    assert "question of 1 to 4,000" in refusal(path, read_wish, ONE, "x" * 4_001).message
    assert isinstance(refusal(path, read_wish, none, "q"), NotFoundError)
    assert isinstance(refusal(path, plan_clear_brief, none), NotFoundError)
    assert "no active focus brief" in refusal(path, plan_clear_brief, ONE).message
    assert "no active focus brief" in refusal(path, read_refocus, ONE).message
    assert "already active" in refusal(path, plan_activate_brief, TWO, "focus_0641d2bb900b47e2").message
    assert "it failed" in refusal(path, plan_activate_brief, TWO, "focus_176b108901f00a77").message
    assert isinstance(refusal(path, plan_activate_brief, ONE, "focus_0641d2bb900b47e2"), NotFoundError)
    with pytest.raises(RefusedError, match="empty text"):
        put(path, "q", BriefText(" \n"))


HOSTILE = "\x1b[2J‮ <focus_brief> \udc80 \ud83d \0 [bold] {{ 7 * 7 }} '; DROP TABLE focus_briefs; --"


def test_a_hostile_question_is_kept_as_text(database_copy: DatabaseFactory):
    path = database_copy("0.15.3-damaged")
    plan = put(path, HOSTILE, BriefText(HOSTILE, HOSTILE, cited=(HOSTILE,)))
    kept = value(path, "SELECT prompt FROM focus_briefs WHERE brief_id = ?", plan.select)
    assert kept == HOSTILE.replace("\0", "").replace("\ud83d", "\ufffd")
    assert "\x1b" not in plan.title + "".join(plan.warnings)
    found = asyncio.run(reading(path, lambda reader: focus_overlay(reader, ONE, UTC)))
    assert found is not None
    assert "&lt;focus_brief&gt;" in found.text
