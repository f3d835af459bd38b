"""How a run behaves: what it leaves out and says so, progress, cancelling, damage, a host that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Confidence, Database, DatabaseError, Folders, NotFoundError, UsageError
from lcm_core.base.findings import CheckState
from lcm_core.base.values import replace
from lcm_core.checks import context, running, search, summaries
from lcm_core.checks.check import Limits, hit
from lcm_core.checks.messages import repetitions_of
from lcm_host.checks import CHECKS, run_checks

from tests.core.checks.every_damage import DAMAGES
from tests.databases import building, connect, damage_table, new_database, run

LIMITS = Limits(datetime(2026, 3, 20, tzinfo=UTC))
DatabaseFactory = Callable[[str], Path]


@pytest.mark.long
async def test_a_check_that_this_version_cannot_answer_says_why(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.1.2")) as database:
        report = await run_checks(database, limits=LIMITS)
    reasons = {result.check.id: result.reason for result in report.not_run}
    assert (
        reasons["D4"] == "this file does not record summaries.source_message_token_count (it came with 0.3.0)"
    )
    assert reasons["G9"] == "this file has no table conversation_compaction_maintenance (it came with 0.9.0)"
    assert reasons["E16"] == "no folder of large files is known"
    assert reasons["F5"] == "this file has no table summaries_fts_cjk"
    assert all(not result.findings for result in report.not_run)
    assert {result.check.id for result in report.results} == set(CHECKS)


@pytest.mark.cases(1)
@pytest.mark.parametrize("version", ["1.0-next", "1.1-later"])
async def test_a_check_of_what_another_line_of_engines_keeps_does_not_say_when_that_came(
    version: str, database_file: DatabaseFactory
) -> None:
    async with await Database.open(database_file(version)) as database:
        report = await run_checks(database, whole_file=False, limits=LIMITS)
    reasons = {result.check.id: result.reason for result in report.not_run}
    assert {reasons[check] for check in ("G6", "G7", "G8")} == {
        "the engine of this file keeps no conversation_bootstrap_state"
    }


async def test_whole_file_checks_can_be_left_out(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        report = await run_checks(database, whole_file=False, limits=LIMITS)
    left_out = {result.check.id for result in report.not_run if "runs only on request" in result.reason}
    assert left_out == {"F1", "F2", "F3", "F4", "F5", "F6", "G13"}


@pytest.mark.long
async def test_one_conversation_gets_its_own_findings_only(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        whole = await run_checks(database, limits=LIMITS)
        report = await run_checks(database, conversation=3, limits=LIMITS)
    assert {one.conversation_id for one in report.findings()} == {3}
    inside = {one for one in whole.findings() if one.conversation_id == 3}
    assert inside == set(report.findings())
    assert "not one conversation" in report.result("G13").reason


async def test_stale_search_rows_of_one_conversation(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        report = await run_checks(database, conversation=1, only={"F"}, limits=LIMITS)
        other = await run_checks(database, conversation=3, only={"F"}, limits=LIMITS)
    assert [one.row_count for one in report.result("F4").findings] == [10]
    assert not list(other.findings())


async def test_only_what_was_asked_for_is_reported(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        report = await run_checks(database, only={"d14", "B"}, limits=LIMITS)
        asked = {name for name in CHECKS if name == "D14" or name.startswith("B")}
        assert {result.check.id for result in report.results} == asked
        assert "D14" in {one.check for one in report.findings()}
        with pytest.raises(UsageError, match=r"no check Z9; ids go from A1 to H3, .* from A to H means"):
            await run_checks(database, only={"Z9"})
        with pytest.raises(UsageError, match=r"no check H; ids go from A1 to G20, .* from A to G means"):
            await running.run_checks(database, only={"H"})


async def test_an_unknown_conversation_is_an_error(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3")) as database:
        with pytest.raises(NotFoundError, match="999"):
            await run_checks(database, conversation=999)


@pytest.mark.long
async def test_clean_means_nothing_but_by_design(database_file: DatabaseFactory) -> None:
    async with await Database.open(database_file("0.15.3")) as database:
        assert not (await run_checks(database, limits=LIMITS)).clean
        by_design = await run_checks(database, only={"A", "B"}, limits=LIMITS)
    assert {one.confidence for one in by_design.findings()} == {Confidence.BY_DESIGN}
    assert by_design.clean


@pytest.mark.long
async def test_progress_goes_on_and_ends(database_file: DatabaseFactory) -> None:
    seen = []
    async with await Database.open(database_file("0.15.3")) as database:
        await run_checks(database, limits=LIMITS, progress=seen.append)
    numbers = [one.stage_number for one in seen]
    assert numbers == sorted(numbers)
    assert {one.stages for one in seen} == {max(numbers)}
    assert seen[-1].fraction == 1.0
    assert seen[0].stage == "conversations"
    assert seen[-1].stage == "pages of the file"


@pytest.mark.long
async def test_a_run_reads_in_many_short_transactions(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    read = Database.read

    async def counting(self: Database, *arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(self, *arguments, **options)

    monkeypatch.setattr(Database, "read", counting)
    async with await Database.open(database_file("0.15.3")) as database:
        await run_checks(database, limits=LIMITS)
    assert reads > 8 * 3 + 16 * 2


async def test_cancelling_stops_a_run_and_leaves_the_database_usable(database_file: DatabaseFactory) -> None:
    started = asyncio.Event()
    async with await Database.open(database_file("0.15.3")) as database:
        task = asyncio.create_task(
            run_checks(database, limits=LIMITS, progress=lambda progress: started.set())
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await run_checks(database, only={"A1"}, limits=LIMITS)).clean


@pytest.mark.long
async def test_a_finding_names_no_more_rows_than_allowed_and_counts_all(
    database_file: DatabaseFactory,
) -> None:
    limits = Limits(LIMITS.now, rows=4, findings=2)
    async with await Database.open(database_file("0.15.3-damaged")) as database:
        report = await run_checks(database, limits=limits)
    [stale] = report.result("F4").findings
    assert (len(stale.rows), stale.row_count) == (4, 10)
    assert (len(report.result("C3").findings), report.result("C3").finding_count) == (2, 15)


@pytest.mark.long
async def test_a_damaged_page_stops_a_stage_and_not_the_run(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    damage_table(path, "message_parts")
    async with await Database.open(path) as database:
        report = await run_checks(database, limits=LIMITS)
        named = await run_checks(database, only=["E7"], limits=LIMITS)
    for one in (report, named):
        damage = one.result("G13").findings[0]
        assert damage.confidence is Confidence.BROKEN
        assert damage.sentence.startswith(
            "The file itself is damaged: message_parts cannot be read in full (of conversation 1). "
            "Copy it with its -wal, "
        )
    assert report.result("E7").state is CheckState.NOT_RUN
    assert report.result("E7").reason.startswith("it stopped halfway: ")
    assert report.result("G4").state is CheckState.RAN
    assert report.result("F4").state is CheckState.RAN


async def test_a_check_that_gets_no_further_gives_up_and_leaves_the_others_their_turn(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of texts, a rule and a stage that never end, each with the checks that wait for it."""

    def endless(structure, limits: Limits):
        while True:
            yield hit(Confidence.BROKEN, "Again.")

    async def bodies(reader, ids: object) -> object:
        return await reader.value(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
        )

    async def probe(database: Database, table: str) -> None:
        await asyncio.Event().wait()

    rules = [replace(rule, find=endless) if rule.id == "A4" else rule for rule in context.CHECKS]
    monkeypatch.setattr(running, "OF_STRUCTURE", rules)
    monkeypatch.setattr(summaries, "bodies_of", bodies)
    monkeypatch.setattr(search, "probe", probe)
    limits = replace(LIMITS, seconds=0.1, findings=10**9)
    stages_seen: list[str] = []
    async with await Database.open(database_file("0.15.3")) as database:
        report = await run_checks(
            database,
            conversation=1,
            only={"A", "C", "F", "E3"},
            limits=limits,
            progress=lambda progress: stages_seen.append(progress.stage),
        )
    gave_up = "it made no progress for 0.1 s"
    for check, where in (("A4", " in conversation 1"), ("C1", " in conversation 1"), ("F1", "")):
        assert report.result(check).state is CheckState.NOT_RUN
        assert report.result(check).reason == f"{gave_up}{where} and gave up (check_seconds)"
    assert stages_seen[-1] == "search tables"


@pytest.mark.long
async def test_values_of_the_wrong_type_are_read_and_not_stumbled_over(
    database_copy: DatabaseFactory,
) -> None:
    path = database_copy("0.15.3")
    run(
        path,
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE messages SET content = x'ff00fe', token_count = 'many', created_at = x'00' WHERE "
        "message_id % 7 = 0",
        "UPDATE messages SET token_count = 1e300, identity_hash = 5 WHERE message_id % 11 = 0",
        "UPDATE summaries SET content = x'80', depth = 'deep', descendant_count = 2.5, model = 7, kind = 3"
        " WHERE rowid % 5 = 0",
        "UPDATE summaries SET earliest_at = 5, latest_at = x'41', file_ids = 9 WHERE rowid % 6 = 0",
        "UPDATE summary_messages SET ordinal = 'x' WHERE rowid % 9 = 0",
        "UPDATE OR IGNORE context_items SET ordinal = 'y' WHERE rowid % 9 = 0",
        "UPDATE message_parts SET metadata = x'7b7d', tool_call_id = 3, text_content = 1.5 WHERE rowid % 9 "
        "= 0",
        "UPDATE conversation_bootstrap_state SET last_seen_size = 'big', session_file_path = x'00'",
        "UPDATE large_files SET byte_size = 'big', storage_uri = ''",
        "UPDATE conversation_compaction_maintenance SET token_budget = 'x', retry_attempts = 'y', pending "
        "= 'z'",
    )
    async with await Database.open(path) as database:
        report = await run_checks(
            database, limits=LIMITS, folders=Folders(path.parent, path.parent, path.parent)
        )
    assert {result.check.id for result in report.not_run} == {"G16", "G17", "G21", "H2"}
    assert list(report.findings(Confidence.BROKEN))


@pytest.mark.long
async def test_a_host_that_writes_meanwhile_makes_no_errors(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    written = {"role": "assistant", "created_at": "2026-03-05 10:00:00"}

    def turn(_: object = None) -> None:
        """Appends a message as the engine does: row, part, search row and context item in one transaction."""
        with building(path) as rows:
            message_id = rows.message(1, "another word", **written)
            rows.part(message_id)
            rows.insert("messages_fts", rowid=message_id, content="another word")

    with connect(path) as host:  # as long as it is open its WAL stays
        host.execute("PRAGMA journal_mode = WAL")
        turn()
        async with await Database.open(path) as database:
            before = await run_checks(database, limits=LIMITS)
            during = await run_checks(database, limits=LIMITS, progress=turn)
    assert set(during.findings(Confidence.BROKEN)) == set(before.findings(Confidence.BROKEN))


async def test_the_fix_of_duplicates_gets_them_whole(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    run(
        path,
        """INSERT INTO messages (conversation_id, seq, role, content, token_count, identity_hash, created_at)
        SELECT conversation_id, seq + 19, role, content, token_count, identity_hash, created_at FROM messages
        WHERE conversation_id = 7 ORDER BY seq""",
    )
    async with await Database.open(path) as database:
        [block] = await repetitions_of(database, 7)
    assert (block.original_seqs, block.copy_seqs, len(block.copy_ids)) == ((1, 19), (20, 38), 19)
    assert (block.certain, block.tokens, block.in_context) == (True, 1480, ())


async def test_rows_of_a_table_that_is_gone_have_no_fix(database_copy: DatabaseFactory) -> None:
    path = database_copy("0.15.3")
    with connect(path) as connection:
        connection.execute("DROP TABLE summaries")
    async with await Database.open(path) as database:
        report = await run_checks(database, only=["G13"], limits=LIMITS)
        with pytest.raises(DatabaseError, match=r"no such table: summaries.*Restore a backup"):
            await database.read(lambda reader: reader.rows("SELECT * FROM summaries"))
    found = report.result("G13").findings
    assert found
    assert {one.fix for one in found} == {None}


def test_every_check_has_damage_that_it_finds() -> None:
    """Those of files and transcripts are held by `test_recorded.py`, that of space by `test_state.py`,
    that of the WAL by `tests/core/test_wal.py`.

    Those of the host and of gaps in its transcripts are held by `test_host_ingestion.py`.
    """
    elsewhere = {"E16", "E17", "E19", "G6", "G7", "G14", "G20", "G21", "H1", "H2", "H3"}
    assert {plant.check for plant in DAMAGES} | elsewhere == set(CHECKS)


async def test_a_pause_may_be_made_before_each_conversation(
    database_file: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_LONG_BESIDE", 0)  # none takes so little time that others are read with it
    done: list[int] = []

    async def pause() -> None:
        done.append(len(done))

    async with await Database.open(database_file("0.15.3")) as database:
        conversations = await database.read(running.conversation_ids)
        report = await run_checks(database, only=("A",), limits=LIMITS, pause=pause)
        assert report.results == (await run_checks(database, only=("A",), limits=LIMITS)).results
    assert len(done) == len(conversations) > 1


@pytest.mark.long
async def test_a_small_conversation_takes_few_statements(tmp_path: Path) -> None:
    """Five hundred more of them take as many times what one takes; the host's checks ask nothing more."""

    async def asked(conversations: int) -> int:
        path = new_database(tmp_path / f"{conversations}.db")
        with building(path) as builder:
            for _ in range(conversations):
                conversation = builder.conversation()
                builder.message(conversation, "a question")
                builder.message(conversation, "an answer", role="assistant")
        async with await Database.open(path) as database:
            await run_checks(database, limits=LIMITS)
            return database.statements

    assert (await asked(550) - await asked(50)) / 500 <= 8.1
