"""The queue: a failure costs nothing that was paid for, and nothing is held while drafts are made."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database, RefusedError, UsageError
from lcm_core.base.files import drafts_folder
from lcm_core.base.records import SummaryId
from lcm_core.base.values import replace
from lcm_core.change.plan import DiskFullError
from lcm_core.operations import drafting as drafts
from lcm_core.operations.batch import Batch
from lcm_core.operations.drafting import Draft, ItemState, retention_of, select_items
from lcm_core.operations.drafts import (
    AcceptanceRule,
    DraftsHeader,
    DraftsWriter,
    forget_drafts,
    measured,
    parse_rule,
    read_saved,
    unfinished,
)
from lcm_core.operations.rewrite import ChangedMeanwhileError, SourceChangedError
from lcm_core.store import summaries as summary_store
from lcm_core.writers.cost import LimitReachedError, Spent
from lcm_core.writers.request import ProviderAuthError, SummarizerError, SummaryReply, Usage
from lcm_core.writers.source import source_of_messages

from tests.change.support import dump
from tests.conftest import DatabaseFactory
from tests.databases import column, run, value
from tests.operations.drafting import CONVERSATION, Writer, batch_of, good, repair_of, setting_of, states

DEFAULT = "nothing invented, no rule lost, no worse"

EVERY = AcceptanceRule()


class Killed(BaseException):
    """What nobody catches."""


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


async def leaves(database: Database, count: int = 4):
    return (await database.read(select_items, CONVERSATION, depth=0))[:count]


@pytest.mark.long
async def test_drafts_wait_for_a_decision_and_nothing_is_changed(path: Path) -> None:
    before = dump(path)
    async with await Database.open(path) as database:
        batch = batch_of(database, await leaves(database), Writer(), in_flight=2)
        await batch.run()
        assert set(states(batch).values()) == {ItemState.REVIEW}
        assert [item.draft.number for item in batch.items if item.draft] == [1, 1, 1, 1]
        progress = batch.progress()
        assert (progress.total, progress.done, progress.drafted) == (4, 4, 4)
        assert (progress.usage.input_tokens, progress.usage.cost_usd) == (400, 0.04)
    assert dump(path) == before


@pytest.mark.long
async def test_the_history_has_the_order_of_the_batch(path: Path) -> None:
    """Whichever answer comes first; a draft that waits for its turn takes no place from a call."""
    async with await Database.open(path) as database:
        items = await leaves(database, 5)
        later = asyncio.Event()

        async def first_waits(request) -> None:
            if len(writer.calls) == len(items):
                later.set()
            if request is writer.calls[0]:
                await later.wait()

        writer = Writer(meanwhile=first_waits)
        batch = batch_of(database, items, writer, in_flight=2, rule=EVERY)
        await batch.run()
        assert batch.finished
        wanted = [item.summary_id for item in items]
        titles = column(path, "SELECT title FROM lcm_tui_operations ORDER BY rowid")
        assert [next(one for one in wanted if one in title) for title in titles] == wanted


@pytest.mark.long
async def test_no_more_calls_in_flight_than_agreed(path: Path) -> None:
    async with await Database.open(path) as database:
        writer = Writer()

        async def slow(_) -> None:
            while writer.flying < 3 and len(writer.calls) < 8:
                await asyncio.sleep(0)

        writer.meanwhile = slow
        await batch_of(database, await leaves(database, 8), writer, in_flight=3).run()
    assert (len(writer.calls), writer.most) == (8, 3)


@pytest.mark.long
async def test_a_writer_is_never_blocked_while_drafts_are_made(path: Path) -> None:
    written: list[int] = []

    async def host(_) -> None:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")  # nobody reads or writes at this moment
            other.execute("UPDATE conversations SET title = 'host' WHERE conversation_id = 2")
            written.append(other.total_changes)
            other.execute("COMMIT")

    run(path, "PRAGMA journal_mode = DELETE")
    async with await Database.open(path) as database:
        batch = batch_of(database, await leaves(database), Writer(meanwhile=host), in_flight=1, rule=EVERY)
        await batch.run()
    assert set(states(batch).values()) == {ItemState.COMMITTED}
    assert written == [1] * 4


@pytest.mark.long
async def test_one_failure_fails_one_item(path: Path) -> None:
    async with await Database.open(path) as database:
        script: list[Any] = [good("One."), SummarizerError("the model is overloaded"), good("Three.")]
        batch = batch_of(database, await leaves(database, 3), Writer(script), in_flight=1, rule=EVERY)
        await batch.run()
        assert list(states(batch).values()) == [ItemState.COMMITTED, ItemState.FAILED, ItemState.COMMITTED]
        assert batch.items[1].why == "the model is overloaded"
        assert batch.failed is None
        assert not batch.finished
        again = batch_of(database, batch.items, Writer([good("Two.")]), rule=EVERY)
        await again.run()
        assert set(states(again).values()) == {ItemState.COMMITTED}


@pytest.mark.long
@pytest.mark.parametrize("error", [ProviderAuthError("refused the key"), LimitReachedError("the limit")])
async def test_a_refused_key_and_a_limit_end_the_run_and_keep_what_is_done(
    path: Path, error: SummarizerError
) -> None:
    async with await Database.open(path) as database:
        writer = Writer([good("One."), error])
        batch = batch_of(database, await leaves(database), writer, in_flight=1, rule=EVERY)
        await batch.run()
        assert list(states(batch).values()) == [ItemState.COMMITTED] + [ItemState.WAITING] * 3
        assert batch.failed is error
        assert len(writer.calls) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (SummaryReply("", "m"), "empty"),
        (good("Cut off in the mid", finished=False, stop_reason="max_tokens"), "cut off"),
        (good("Kept it. [Truncated from 900 tokens]"), "marker"),
        (good("<think>hm</think>"), "reasoning"),
        (SummaryReply("I'm sorry, but I can't help with that.", "m"), "refused"),
        (SummaryReply('{"error": {"message": "overloaded"}}', "m"), "error"),
        (good("far too long " * 4000), "not smaller"),
    ],
)
async def test_what_cannot_stand_is_asked_again_and_then_shown_but_never_taken(
    path: Path, reply: SummaryReply, fault
) -> None:
    before = dump(path)
    async with await Database.open(path) as database:
        writer = Writer([reply])
        batch = batch_of(database, await leaves(database, 1), writer, rule=EVERY)
        await batch.run()
        [item] = batch.items
        assert item.state is ItemState.REVIEW
        assert [call.aggressive for call in writer.calls] == [False, True]
        assert [one.origin for one in item.drafts] == [
            "normal",
            "aggressive",
            "fallback",
        ]
        assert all(fault in one.faults for one in item.drafts[:2])
        assert item.draft is None
        with pytest.raises(RefusedError):
            await batch.take(item.summary_id)
        assert dump(path) == before
        await batch.take(item.summary_id, 3)  # somebody chose the cut of the source by its number
        assert batch.item(item.summary_id).state is ItemState.COMMITTED
    stored = value(path, "SELECT content FROM summaries WHERE summary_id = ?", item.summary_id)
    assert stored.rstrip().endswith("tokens]")


async def test_the_second_answer_may_stand_when_the_first_cannot(path: Path) -> None:
    async with await Database.open(path) as database:
        batch = batch_of(database, await leaves(database, 1), Writer([SummaryReply(""), good("Second.")]))
        await batch.run()
        [item] = batch.items
        assert [one.origin for one in item.drafts] == ["normal", "aggressive"]
        assert item.chosen == 2


async def test_what_a_call_gave_stays_when_the_next_one_fails(path: Path) -> None:
    async with await Database.open(path) as database:
        script: list[Any] = [good("x " * 9000), SummarizerError("gone")]
        batch = batch_of(database, await leaves(database, 1), Writer(script))
        await batch.run()
        [item] = batch.items
        assert (item.state, len(item.drafts), item.usage.input_tokens) == (ItemState.FAILED, 1, 100)


async def by_hand(batch: Batch, summary_id: SummaryId, text: str) -> Draft:
    """Over what is stored now."""
    return await batch.write(summary_id, text, (await batch.material(summary_id)).base.content)


class TestDecisions:
    """What the operator does with drafts."""

    async def drafted(self, database: Database, count: int = 1):
        batch = batch_of(database, await leaves(database, count), Writer())
        await batch.run()
        return batch, batch.items[0].summary_id

    async def test_take_skip_and_history(self, path: Path) -> None:
        async with await Database.open(path) as database:
            batch, one = await self.drafted(database, 2)
            done = await batch.take(one)
            assert done is not None
            assert batch.item(one).operation == done.id
            assert done.operation is not None
            assert (done.operation.kind, done.operation.batch) == ("rewrite", batch.id)
            batch.skip(batch.items[1].summary_id, "good as it is")
            assert batch.finished

    @pytest.mark.long
    async def test_again_and_by_hand_beside_the_others(self, path: Path) -> None:
        async with await Database.open(path) as database:
            batch, one = await self.drafted(database)
            await batch.again(one, Writer([good("Another model.", model="other")]))
            draft = await by_hand(batch, one, "By hand.\nExpand for details about: it")
            item = batch.item(one)
            assert [(d.number, d.model) for d in item.drafts] == [
                (1, "test-model"),
                (2, "other"),
                (3, "manual"),
            ]
            assert (item.chosen, draft.origin, draft.faults) == (3, "manual", ())
            with pytest.raises(SummarizerError):
                await batch.again(one, Writer([SummarizerError("no")]))
            assert batch.item(one) == item
            batch.choose(one, 2)
            await batch.take(one)
        assert value(path, "SELECT model FROM summaries WHERE summary_id = ?", one) == "other"

    async def test_a_node_that_changed_meanwhile_is_shown_three_way(self, path: Path) -> None:
        async with await Database.open(path) as database:
            batch, one = await self.drafted(database)
            run(path, f"UPDATE summaries SET content = 'theirs' WHERE summary_id = '{one}'")
            await database.refresh()
            with pytest.raises(ChangedMeanwhileError):
                await batch.take(one)
            item = batch.item(one)
            assert (item.state, item.theirs, len(item.drafts)) == (ItemState.REVIEW, "theirs", 1)
            assert "changed since" in item.why
            await batch.again(one)
            await batch.take(one)
            assert batch.item(one).state is ItemState.COMMITTED

    async def test_a_consumer_of_a_source_that_changed_is_drafted_again(self, path: Path) -> None:
        async with await Database.open(path) as database:
            items = await database.read(select_items, CONVERSATION)
            consumer = next(item for item in items if item.after)
            batch = batch_of(database, [replace(consumer, after=())], Writer())
            await batch.run()
            run(path, f"UPDATE summaries SET content = 'new' WHERE summary_id = '{consumer.after[0]}'")
            await database.refresh()
            with pytest.raises(SourceChangedError):
                await batch.take(consumer.summary_id)
            await batch.again(consumer.summary_id)
            await batch.take(consumer.summary_id)

    async def test_consumers_wait_until_their_sources_are_decided(self, path: Path) -> None:
        async with await Database.open(path) as database:
            items = (await repair_of(database)).all_items
            consumer = next(item for item in items if item.after)
            batch = batch_of(database, items, Writer())
            await batch.run()
            assert batch.item(consumer.summary_id).state is ItemState.WAITING
            why = f"Source undecided: accept or skip {consumer.after[0]}."
            assert batch.item(consumer.summary_id).why == why
            for one in consumer.after:
                batch.skip(one)
            await batch.run()
            assert batch.item(consumer.summary_id).state is ItemState.REVIEW

    @pytest.mark.long
    async def test_ahead_consumers_are_drafted_from_drafts_and_committed_after_them(self, path: Path) -> None:
        before = dump(path)
        async with await Database.open(path) as database:
            items = (await repair_of(database)).all_items
            writer = Writer()
            batch = batch_of(database, items, writer, ahead=True, in_flight=1)
            await batch.run()
            assert set(states(batch).values()) == {ItemState.REVIEW}
            assert dump(path) == before
            consumer = next(item for item in batch.items if item.after)
            source = batch.item(consumer.after[0])
            asked = writer.calls[[item.summary_id for item in batch.items].index(consumer.summary_id)]
            assert source.draft is not None
            assert source.draft.text in asked.text
            with pytest.raises(SourceChangedError):
                await batch.take(consumer.summary_id)
            for item in batch.items:
                await batch.take(item.summary_id)
            assert batch.finished


@pytest.mark.long
async def test_a_draft_that_says_what_stands_there_holds_nobody_up(path: Path) -> None:
    async with await Database.open(path) as database:
        repair = await repair_of(database)
        consumer = next(item for item in repair.items if item.after)
        items = [item for item in repair.items if item.summary_id in (*consumer.after, consumer.summary_id)]
        await batch_of(database, items, Writer([good()]), rule=EVERY).run()
        before = dump(path)
        again = batch_of(database, items, Writer([good()]), rule=EVERY)
        await again.run()
        assert set(states(again).values()) == {ItemState.SKIPPED}
        assert "identical to the current text" in again.items[0].why
        await by_hand(again, again.items[0].summary_id, good("Another text.").text)
        assert states(again)[again.items[0].summary_id] is ItemState.REVIEW
    assert dump(path) == before


async def test_cancelling_breaks_the_calls_off_and_they_wait_again(path: Path) -> None:
    broken, begun, writer = 0, asyncio.Event(), Writer()

    async def forever(_) -> None:
        nonlocal broken
        if writer.flying == 2:
            begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            broken += 1
            raise

    writer.meanwhile = forever
    async with await Database.open(path) as database:
        batch = batch_of(database, await leaves(database), writer, in_flight=2)
        work = asyncio.create_task(batch.run())
        await begun.wait()
        await batch.cancel()
        assert work.cancelled()
        assert (broken, set(states(batch).values()), batch.running) == (2, {ItemState.WAITING}, False)
        batch.writer = Writer()
        await batch.run()
        assert set(states(batch).values()) == {ItemState.REVIEW}


async def test_stopping_lets_the_calls_in_flight_end(path: Path) -> None:
    async with await Database.open(path) as database:
        writer = Writer()
        batch = batch_of(database, await leaves(database), writer, in_flight=1)

        async def stop(_) -> None:
            batch.stop()

        writer.meanwhile = stop
        await batch.run()
        assert list(states(batch).values()) == [ItemState.REVIEW] + [ItemState.WAITING] * 3


class TestRules:
    """What is taken by itself, said in words."""

    @pytest.mark.parametrize(
        ("words", "rule"),
        [
            ("every", AcceptanceRule()),
            ("nothing invented, names 80", AcceptanceRule(nothing_invented=True, retention=0.8)),
            (
                "accept when nothing is invented and it keeps at least 80 % of the names",
                AcceptanceRule(nothing_invented=True, retention=0.8),
            ),
            ("retention is at least 62.5 %, no worse, no caution", AcceptanceRule(False, 0.625, True, True)),
            (DEFAULT, AcceptanceRule(nothing_invented=True, better_retention=True, no_rule_lost=True)),
        ],
    )
    def test_words(self, words: str, rule: AcceptanceRule) -> None:
        assert parse_rule(words) == rule
        assert parse_rule(rule.words) == rule

    @pytest.mark.parametrize("words", ["", "whatever", "retention 180", "nothing invented or else"])
    def test_other_words(self, words: str) -> None:
        with pytest.raises(UsageError):
            parse_rule(words)

    async def test_what_the_rule_refuses_says_why_and_is_paid_for_once(self, path: Path) -> None:
        async with await Database.open(path) as database:
            writer = Writer([good("Deployed to /etc/invented.conf on https://made.up/ today.")])
            strict = AcceptanceRule(nothing_invented=True)
            batch = batch_of(database, await leaves(database, 1), writer, rule=strict)
            await batch.run()
            [item] = batch.items
            assert item.state is ItemState.REVIEW
            assert " invented: " in item.why
            later = batch_of(database, batch.items, writer, rule=EVERY)
            await later.run()
            assert (states(later)[item.summary_id], len(writer.calls)) == (ItemState.COMMITTED, 1)

    @pytest.mark.long
    @pytest.mark.parametrize("words", ["every", "retention 0", DEFAULT])
    async def test_no_rule_accepts_a_reversed_rule(self, path: Path, words: str) -> None:
        run(path, "UPDATE messages SET content = content || '\n\nYou must not re-index the orders table.'")
        run(path, "DELETE FROM message_parts")
        async with await Database.open(path) as database:
            writer = Writer([good("The team must re-index the orders table.")])
            batch = batch_of(database, await leaves(database, 1), writer, rule=parse_rule(words))
            await batch.run()
            [item] = batch.items
            assert item.state is ItemState.REVIEW
            assert [draft.faults for draft in item.drafts[:2]] == [("reversed",)] * 2
            assert "“You must not re-index the orders table.” became" in item.drafts[0].sentences[0]
            assert not any(draft.may_be_taken for draft in item.drafts)
            kept = replace(item.drafts[0], faults=(), sentences=())
            found = await measured(kept, await batch.material(item.summary_id), batch.setting)
            refused = found.objections(parse_rule(words))
            assert any(one.startswith("It reverses a rule of the source: ") for one in refused)

    @pytest.mark.cases(1)
    @pytest.mark.parametrize(("broken", "refused"), [(False, True), (True, False)])
    async def test_a_draft_may_keep_less_than_a_broken_text(
        self, path: Path, broken: bool, refused: bool
    ) -> None:
        async with await Database.open(path) as database:
            batch = batch_of(
                database,
                await leaves(database, 1),
                Writer([good("All is well.")]),
                rule=AcceptanceRule(nothing_invented=True, no_caution=True, retention=1.0),
            )
            await batch.run()
            [item] = batch.items
            material = await batch.material(item.summary_id)
            found = await measured(item.drafts[0], material, batch.setting)
            cut = await retention_of(material, material.source.text, batch.setting)
            found = replace(found, old=cut, broken=broken)
            why = found.objections(parse_rule("no worse"))
            assert any(one.endswith(" of the names (now 100 %)") for one in why) is refused

    async def test_a_lost_rule_is_named_by_the_condition_that_refuses_it(self, path: Path) -> None:
        run(path, "UPDATE messages SET content = content || '\n\nYou must not re-index the orders table.'")
        run(path, "DELETE FROM message_parts")
        async with await Database.open(path) as database:
            wanted = parse_rule("no rule lost")
            batch = batch_of(database, await leaves(database, 1), Writer([good("All is well.")]), rule=wanted)
            await batch.run()
            [item] = batch.items
            assert item.state is ItemState.REVIEW
            assert "You must not re-index the orders table." in item.why

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("Нельзя удалять таблицу заказов.", "Rules not checked"),
            ("All went as the plan said. {}", "Some rules not checked"),
        ],
    )
    async def test_a_rule_that_was_not_checked_is_not_taken_for_kept(
        self, path: Path, content: str, words: str
    ) -> None:
        said = (content.format("Нельзя удалять таблицу заказов.") + "\n") * 30
        run(path, f"UPDATE messages SET content = '{said}'")
        run(path, "DELETE FROM message_parts")
        async with await Database.open(path) as database:
            wanted, writer = parse_rule("no rule lost"), Writer([good("All of it is as it was.")])
            batch = batch_of(database, await leaves(database, 1), writer, rule=wanted)
            await batch.run()
            [item] = batch.items
            assert item.state is ItemState.REVIEW
            assert item.why.startswith(words)

    @pytest.mark.long
    async def test_the_rule_ends_with_its_batch(self, path: Path) -> None:
        async with await Database.open(path) as database:
            items = await leaves(database, 2)
            await batch_of(database, items[:1], Writer(), rule=EVERY).run()
            after = batch_of(database, items[1:], Writer())
            await after.run()
            assert set(states(after).values()) == {ItemState.REVIEW}


class TestKeeping:
    """Drafts on disk."""

    def header(self, database: Path) -> DraftsHeader:
        return DraftsHeader("batch_0123456789abcdef", "rewrite", str(database), "2026-11-21T12:00:00.000Z")

    @pytest.mark.long
    async def test_a_crash_costs_nothing_that_was_paid_for(self, path: Path, tmp_path: Path) -> None:
        folder = tmp_path / "drafts"
        async with await Database.open(path) as database:
            items = await leaves(database)
            keeper = DraftsWriter.create(folder, self.header(path), items)
            script: list[Any] = [good("\u202eone\udcff 漢字"), good("Two."), Killed()]
            writer = Writer(script)

            def keep(item) -> None:
                keeper.keep(item, Spent(len(writer.calls), Usage(cost_usd=0.25)))

            batch = batch_of(database, items, writer, in_flight=1, keep=keep)
            with pytest.raises(Killed):
                await batch.run()
            keeper._file.close()  # the process is gone
        assert [one.stat().st_mode & 0o777 for one in (folder, keeper.path)] == [0o700, 0o600]
        with keeper.path.open("ab") as file:
            file.write(b'{"summaryId": "sum_cut')
        [kept] = unfinished(folder, path)
        assert kept.header.spent == Spent(2, Usage(cost_usd=0.25)), "limits of the batch go on counting"
        assert kept.items == tuple(
            replace(one, state=ItemState.WAITING) if one.state is ItemState.DRAFTING else one
            for one in batch.items
        )
        async with await Database.open(path) as database:
            keeper = DraftsWriter.reopen(kept)
            writer = Writer()
            later = batch_of(database, kept.items, writer, keep=keeper.keep, rule=EVERY)
            await later.run()
            assert set(states(later).values()) == {ItemState.COMMITTED}
            assert len(writer.calls) == 2
            assert len(read_saved(keeper.path).items) == 4
            keeper.close(finished=later.finished)
        assert unfinished(folder, path) == []
        assert not keeper.path.exists()

    async def test_a_crash_between_commit_and_note(self, path: Path, tmp_path: Path) -> None:
        async with await Database.open(path) as database:
            batch = batch_of(database, await leaves(database, 1), Writer())
            await batch.run()
            noted = batch.items
            await batch.take(noted[0].summary_id)
            later = batch_of(database, noted, Writer(), rule=EVERY)
            await later.run()
            assert set(states(later).values()) == {ItemState.COMMITTED}
        assert value(path, "SELECT count(*) FROM lcm_tui_operations") == 1

    @pytest.mark.long
    async def test_drafts_from_sources_that_say_something_else_are_made_again(self, path: Path) -> None:
        async with await Database.open(path) as database:
            items = (await repair_of(database)).all_items
            consumer = next(item for item in items if item.after)
            first = batch_of(database, items, Writer(), ahead=True)
            await first.run()
            await by_hand(first, consumer.after[0], "By hand.\nExpand for details about: it")
            writer = Writer([good("Made again.")])
            later = batch_of(database, first.items, writer, rule=EVERY)
            await later.run()
            assert set(states(later).values()) == {ItemState.COMMITTED}
            above = {item.summary_id for item in items if consumer.after[0] in item.after}
            assert 0 < len(writer.calls) < len(items)
            assert all("Made again." in d.text for one in above if (d := later.item(one).draft) is not None)

    async def test_conversations_that_are_forgotten_leave_no_drafts(self, path: Path, tmp_path: Path) -> None:
        folder = tmp_path / "drafts"
        async with await Database.open(path) as database:
            batch = batch_of(database, await leaves(database, 2), Writer([good("A secret.")]))
            await batch.run()
        one, two = batch.items
        other = replace(two, conversation_id=2)
        first = replace(self.header(path), batch="batch_1")
        for header, items in ((first, [one]), (replace(first, batch="batch_2"), [one, other])):
            DraftsWriter.create(folder, header, items).close(finished=False)
        DraftsWriter.create(folder, replace(first, batch="batch_3", database="/elsewhere"), [one]).close(
            finished=False
        )
        assert [one.name for one in forget_drafts(folder, path, {1})] == ["batch_1.drafts", "batch_2.drafts"]
        [left] = unfinished(folder, path)
        assert left.items == (other,)
        assert forget_drafts(folder, path, {1}) == []
        assert len(list(folder.iterdir())) == 2

    async def test_two_processes_do_not_work_on_the_same_drafts(self, path: Path, tmp_path: Path) -> None:
        keeper = DraftsWriter.create(tmp_path, self.header(path), [])
        with pytest.raises(RefusedError):
            DraftsWriter.reopen(read_saved(keeper.path))
        keeper.close(finished=False)
        DraftsWriter.reopen(read_saved(keeper.path)).close(finished=True)

    async def test_drafts_that_cannot_be_kept_are_not_asked_for(self, path: Path, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(DiskFullError):
            DraftsWriter.create(tmp_path / "file" / "drafts", self.header(path), [])

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "batch_1.drafts").write_text("{}\n")
        with pytest.raises(RefusedError):
            read_saved(tmp_path / "batch_1.drafts")
        assert unfinished(tmp_path, tmp_path / "lcm.db") == []
        assert drafts_folder().name == "drafts"


# -- what a condensed summary rests on in the end --------------------------------------------------------


BELOW = """
WITH RECURSIVE tree(id) AS (SELECT ? UNION
    SELECT edge.parent_summary_id FROM summary_parents AS edge JOIN tree ON edge.summary_id = tree.id)
SELECT DISTINCT link.message_id FROM summary_messages AS link JOIN tree ON link.summary_id = tree.id
"""


async def test_all_messages_below_each_once_and_none_when_there_are_too_many(
    database_copy: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database_copy("0.15.3")
    [top] = column(path, "SELECT summary_id FROM summaries WHERE depth = 2 ORDER BY summary_id LIMIT 1")
    ids = sorted(column(path, BELOW, top))
    async with await Database.open(path) as database:
        rendering = setting_of(database.schema).rendering
        summary = (await database.read(summary_store.get_summary, top)).summary
        text = await database.read(drafts.text_below, summary, rendering)
        whole = await database.read(source_of_messages, ids, rendering)
        assert text == whole.text
        assert len(ids) > 1
        monkeypatch.setattr(drafts, "MOST_MESSAGES", len(ids) - 1)
        assert await database.read(drafts.text_below, summary, rendering) is None
        monkeypatch.undo()
        monkeypatch.setattr(drafts, "MOST_TOKENS", 10)
        assert await database.read(drafts.text_below, summary, rendering) is None
