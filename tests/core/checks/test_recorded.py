"""What the checks say of the recorded databases: no false errors, all damages, the decoys left alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.api import Confidence, Database, Folders
from lcm_core.base.findings import FixId, RowRef
from lcm_core.checks.check import Limits
from lcm_host.checks import CHECKS, run_checks
from lcm_host.engine import Engine, Session

from tests.databases import building
from tests.support import ROOT, recorded

BROKEN, SUSPICIOUS, BY_DESIGN = Confidence.BROKEN, Confidence.SUSPICIOUS, Confidence.BY_DESIGN
LIMITS = Limits(datetime(2026, 3, 20, tzinfo=UTC))
HEALTHY = ("0.1.2", "0.3.0", "0.8.2", "0.15.3")
#: Bad summaries of the recorded databases by the engine's rules, and copies cut off without a mark.
BAD = {"0.1.2": (18, 3), "0.3.0": (18, 3), "0.8.2": (13, 2), "0.15.3": (16, 0)}

DatabaseFactory = Callable[[str], Path]


async def report_of(path: Path, *, only: set[str] | None = None, folders: Folders | None = None):
    async with await Database.open(path) as database:
        return await run_checks(database, limits=LIMITS, only=only, folders=folders)


def rows_of(report, *checks: str) -> set[RowRef]:
    return {row for check in checks for finding in report.result(check).findings for row in finding.rows}


def summary(name: str) -> RowRef:
    return RowRef("summaries", (name,))


@pytest.mark.long
@pytest.mark.parametrize("version", HEALTHY)
async def test_nothing_but_bad_summaries_is_broken_in_a_healthy_database(
    version: str, database_file: DatabaseFactory
) -> None:
    report = await report_of(database_file(version))
    broken = list(report.findings(BROKEN))
    marked = [one for one in broken if one.check in {"C1", "C2", "C3", "C4", "C7"}]
    copies = [one for one in broken if one.check == "C9"]
    assert (len(marked), len(copies)) == BAD[version]
    assert len(broken) == len(marked) + len(copies)


@pytest.mark.long
@pytest.mark.parametrize("version", HEALTHY)
async def test_a_healthy_database_is_suspicious_only_where_it_should_be(
    version: str, database_file: DatabaseFactory
) -> None:
    suspicious = {one.check for one in (await report_of(database_file(version))).findings(SUSPICIOUS)}
    about_texts = {check for check in suspicious if check.startswith("C")}
    assert suspicious - about_texts == {"0.8.2": {"G4"}, "0.15.3": {"E4"}}.get(version, set())


async def test_a_result_of_plain_text_needs_no_tool_columns(tmp_path: Path) -> None:
    call = [{"type": "toolCall", "id": "call_1", "name": "exec", "arguments": {}}]
    result = {"role": "toolResult", "toolCallId": "call_1", "toolName": "exec", "content": "12 files"}
    session = Session("s1", "agent:main:one")
    async with await Engine.open(tmp_path / "lcm.db", large_files=tmp_path / "files") as engine:
        await engine.ingest(session, {"role": "assistant", "content": call})
        await engine.ingest(session, result)
    report = await report_of(tmp_path / "lcm.db", only={"E7", "E11"})
    assert report.result("E7").findings == report.result("E11").findings == ()


async def test_what_new_left_out_is_by_design(database_file: DatabaseFactory) -> None:
    for version, hole in (("0.8.2", (75, 90, 16)), ("0.15.3", (67, 90, 24))):
        report = await report_of(database_file(version), only={"A8", "A11", "B13"})
        [finding] = report.result("A11").findings
        assert (finding.confidence, finding.conversation_id, finding.fix) == (BY_DESIGN, 2, None)
        assert f"seq {hole[0]}-{hole[1]}" in finding.sentence
        assert finding.row_count == hole[2]
        assert {one.confidence for one in report.findings()} == {BY_DESIGN}
        assert not report.result("A8").findings


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", ["0.8.2", "0.15.3"])
@pytest.mark.parametrize("conversation", [1, 8])
async def test_a_new_session_that_was_just_begun_is_no_damage(
    version: str, conversation: int, database_copy: DatabaseFactory
) -> None:
    """`/new` takes raw messages and summaries below depth 2 out of the context and closes no gaps."""
    path = database_copy(version)
    with building(path) as rows:
        rows.execute(
            """DELETE FROM context_items WHERE conversation_id = ?
            AND (message_id IS NOT NULL OR summary_id IN
            (SELECT summary_id FROM summaries WHERE depth < 2))""",
            conversation,
        )
        if version == "0.15.3":
            rows.execute(
                """UPDATE conversation_bootstrap_state SET soft_reset_pruned_at = '2026-03-10 09:00:00'
                WHERE conversation_id = ?""",
                conversation,
            )
        written = {"seq": 900, "created_at": "2026-03-11 09:00:00"}
        new = rows.message(conversation, "Good morning, what is next?", in_context=False, **written)
        rows.item(conversation, new, 50)
    report = await report_of(path, only={"A", "B"})
    found = [one for one in report.findings() if one.conversation_id == conversation]
    assert {"A8", "A11"} & {one.check for one in found}
    assert {one.confidence for one in found} == {BY_DESIGN}


@pytest.fixture
async def damaged(database_file: DatabaseFactory):
    return await report_of(database_file("0.15.3-damaged"))


@pytest.mark.long
async def test_the_thirteen_damages_are_found_with_their_ids(damaged) -> None:
    assert summary("sum_3917e17da30c1e9d") in rows_of(damaged, "C3")
    assert summary("sum_4a8fbb53db7819c7") in rows_of(damaged, "C3")
    assert summary("sum_214b4d6011b8425c") in rows_of(damaged, "C3")
    assert rows_of(damaged, "C4") == {summary("sum_82669a9ec5345a8c")}
    assert summary("sum_06d84ef9c70348dc") in rows_of(damaged, "C1")
    assert rows_of(damaged, "C7") == {summary("sum_7e76ac8feeba6650")}
    assert rows_of(damaged, "C2") == {summary("sum_8c65416cc08d24a7")}
    assert rows_of(damaged, "A8") == {RowRef("context_items", (3, 3))}
    assert rows_of(damaged, "A1") == {RowRef("context_items", (4, 13))}
    assert rows_of(damaged, "D2", "D3", "D4", "D7") == {summary("sum_05660d30c47ebf7c")}
    assert rows_of(damaged, "B1") == {summary("sum_150d597631f19e3a")}
    assert [one.conversation_id for one in damaged.result("E1").findings] == [7]
    assert rows_of(damaged, "D14") == {summary("sum_dd9ec54d9e5e07ab")}


@pytest.mark.long
async def test_what_follows_from_the_damages_is_found(damaged) -> None:
    orphans = damaged.result("B13").findings
    assert [one.confidence for one in orphans] == [BROKEN, BY_DESIGN]
    assert orphans[0].rows == (summary("sum_9960da692838a8de"),)
    assert [one.row_count for one in damaged.result("F4").findings] == [10]
    assert [one.row_count for one in damaged.result("F5").findings] == [10]
    assert rows_of(damaged, "F2") == {RowRef("messages_fts", (286,))}
    assert [one.conversation_id for one in damaged.result("E13").findings] == [4]
    holes = {one.conversation_id: one for one in damaged.result("A11").findings}
    assert (holes[3].confidence, holes[3].rows) == (
        BROKEN,
        (RowRef("messages", (521,)),),
    )
    assert {row.table for row in rows_of(damaged, "G13")} == {"context_items", "message_parts"}


@pytest.mark.long
async def test_the_decoys_are_not_broken(damaged) -> None:
    decoys = {summary(f"sum_{name}") for name in ("9e5806c818acab6b", "cae2105a57ab383d", "da6d8a6c3e853863")}
    assert decoys <= rows_of(damaged, "C11")
    assert not [one for one in damaged.findings(BROKEN) if decoys & set(one.rows)]
    assert {one.confidence for one in damaged.result("C11").findings if decoys & set(one.rows)} == {BY_DESIGN}


@pytest.mark.long
async def test_every_edit_of_the_damaged_database_is_accounted_for(
    damaged, database_file: DatabaseFactory
) -> None:
    edits = recorded("lcm-0.15.3-damaged.changes.json")
    assert len(edits) == 16
    named = {row for finding in damaged.findings() for row in finding.rows}
    assert {summary(edit["summary_id"]) for edit in edits if "summary_id" in edit} <= named
    healthy = set((await report_of(database_file("0.15.3"))).findings(BROKEN))
    fresh = {one.check for one in damaged.findings(BROKEN) if one not in healthy}
    structure = {"A1", "A8", "A11", "B1", "B13", "D2", "D3", "D4", "D14", "E13", "F2", "F4", "F5", "G13"}
    assert fresh == structure | {"C1", "C2", "C3", "C4", "C7"}


@pytest.mark.long
async def test_lost_sources_that_the_counters_prove_can_be_linked_again(damaged) -> None:
    proven = {row for one in damaged.findings() if one.fix is FixId.RELINK for row in one.rows}
    assert proven == {
        summary("sum_150d597631f19e3a"),
        summary("sum_05660d30c47ebf7c"),
        summary("sum_9960da692838a8de"),
    }
    assert "made from seq 59-66" in damaged.result("B1").findings[0].sentence


@pytest.mark.long
async def test_a_gap_whose_message_is_still_there_is_not_merely_closed(damaged) -> None:
    [gap] = damaged.result("A8").findings
    assert (gap.confidence, gap.fix) == (BROKEN, FixId.RESTORE_MESSAGES)
    assert "seq 111" in gap.sentence


@pytest.mark.long
async def test_the_state_folder_answers_the_checks_of_files(
    openclaw_home: Path, database_file: DatabaseFactory
) -> None:
    folders = Folders(openclaw_home / "lcm-files", openclaw_home, openclaw_home / "agents")
    report = await report_of(openclaw_home / "lcm.db", only={"E", "G"}, folders=folders)
    assert {result.check.id for result in report.not_run} == {"G16", "G17", "G21"}
    assert not [
        one for one in report.findings() if one.check in {"E16", "E17", "E18", "E19", "G6", "G7", "G8"}
    ]


async def test_a_lost_a_changed_and_a_stray_file(openclaw_home: Path) -> None:
    files = openclaw_home / "lcm-files"
    (files / "3" / "file_0d4e9cd9791444c6.json").unlink()
    with (files / "3" / "file_9bcd3a4617dc4952.py").open("a") as changed:
        changed.write("\n# more\n")
    (files / "8" / "file_0123456789abcdef.txt").write_text("stray")
    (files / "²").mkdir()  # a digit, but no number
    (files / "²" / "file_0123456789abcdef.txt").write_text("not of a conversation")
    folders = Folders(files, openclaw_home)
    report = await report_of(openclaw_home / "lcm.db", only={"E16", "E17", "E19"}, folders=folders)
    [lost], [changed_size], [stray] = (report.result(check).findings for check in ("E16", "E17", "E19"))
    assert (lost.confidence, lost.rows) == (BROKEN, (RowRef("large_files", ("file_0d4e9cd9791444c6",)),))
    assert changed_size.rows == (RowRef("large_files", ("file_9bcd3a4617dc4952",)),)
    assert (stray.confidence, stray.rows) == (BY_DESIGN, (RowRef("disk", ("8/file_0123456789abcdef.txt",)),))


async def test_no_file_at_all_is_more_likely_the_wrong_folder(openclaw_home: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folders = Folders(tmp_path / "empty", tmp_path)
    report = await report_of(openclaw_home / "lcm.db", only={"E16"}, folders=folders)
    assert {one.confidence for one in report.findings()} == {SUSPICIOUS}
    assert "is this the right folder?" in report.result("E16").findings[0].sentence


async def test_a_transcript_that_grew_and_one_that_is_gone(openclaw_home: Path) -> None:
    sessions = openclaw_home / "agents" / "ops" / "sessions"
    with (sessions / "d029fad2-116d-483f-a14f-4b687e0df1b3.jsonl").open("a") as grown:
        grown.write('{"type":"message"}\n')
    agent = openclaw_home / "agents" / "main" / "sessions"
    (agent / "34904ebd-bc37-4a66-a7f0-18a94dd1c57a.jsonl").unlink()
    (agent / "27046938-a735-4a93-a971-f4fe747bb833.jsonl").write_text("")
    folders = Folders(state=openclaw_home, sessions=openclaw_home / "agents")
    report = await report_of(openclaw_home / "lcm.db", only={"G6", "G7", "G8"}, folders=folders)
    assert rows_of(report, "G7") == {RowRef("conversation_bootstrap_state", (7,))}
    assert rows_of(report, "G6") == {RowRef("conversations", (4,))}
    found = {(one.confidence, one.conversation_id) for one in report.result("G8").findings}
    assert found == {(SUSPICIOUS, 1), (BY_DESIGN, 4)}


def test_each_check_has_a_question_of_its_own() -> None:
    assert all(check.question.endswith("?") and check.title for check in CHECKS.values())
    assert len({check.question for check in CHECKS.values()}) == len(CHECKS)


def test_the_pages_say_how_many_checks_there_are() -> None:
    pages = ("README.md", "docs/how-to.md", "docs/faq.md")
    number = re.compile(r"(\d+)(?=, with fixes| checks| read-only checks)")
    stated = {page: {*number.findall((ROOT / page).read_text())} for page in pages}
    assert stated == {page: {str(len(CHECKS))} for page in pages}


async def test_transcripts_are_not_missed_where_the_host_keeps_them_in_its_database(
    openclaw_home: Path, database_file: DatabaseFactory
) -> None:
    held = openclaw_home / "agents" / "main" / "agent"
    held.mkdir()
    (held / "openclaw-agent.sqlite").touch()
    folders = Folders(openclaw_home / "lcm-files", openclaw_home, openclaw_home / "agents")
    report = await report_of(database_file("0.15.3"), only={"G6", "G7"}, folders=folders)
    said = {(one.check.id, one.reason) for one in report.not_run}
    assert said == {(one, "sessions are in OpenClaw's database: lcm-tui sessions") for one in ("G6", "G7")}


async def test_no_checkpoint_is_missed_where_the_host_keeps_its_sessions_in_its_database(
    openclaw_home: Path, database_copy: DatabaseFactory
) -> None:
    path = database_copy("0.15.3")
    with building(path) as builder:
        builder.connection.execute("DELETE FROM conversation_bootstrap_state WHERE conversation_id = 8")
        builder.connection.execute("UPDATE conversations SET bootstrapped_at = '2099-01-01T00:00:00.000Z'")
    folders = Folders(openclaw_home / "lcm-files", openclaw_home, openclaw_home / "agents")
    in_files = await report_of(path, only={"G8"}, folders=folders)
    held = openclaw_home / "agents" / "main" / "agent"
    held.mkdir()
    (held / "openclaw-agent.sqlite").touch()
    in_database = await report_of(path, only={"G8"}, folders=folders)
    sentence = "1 conversation was imported without a checkpoint."
    said = [
        next(one.confidence for one in report.findings() if one.sentence == sentence)
        for report in (in_files, in_database)
    ]
    assert said == [Confidence.SUSPICIOUS, Confidence.BY_DESIGN]
