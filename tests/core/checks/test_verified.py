"""Texts that were verified before are not judged again, and nothing is missed for it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from pathlib import Path

import pytest
from lcm_core.api import Database
from lcm_core.base.files import VERIFIED, cache_path, forget_cache
from lcm_core.base.findings import Report
from lcm_core.checks import verified as keeping
from lcm_core.checks.messages import Messages
from lcm_core.checks.running import run_checks
from lcm_core.checks.verified import VerifiedTexts

from tests.core.checks.every_damage import DAMAGES
from tests.core.checks.planting import LIMITS
from tests.core.checks.test_running import DatabaseFactory
from tests.databases import building, connect, run

TICK = 0.03


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LEAST_BYTES", 0)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The messages whose texts are judged."""
    found: list[int] = []
    take = Messages.take

    def noted(self: Messages, bodies) -> None:
        bodies = list(bodies)
        found.extend(body.message_id for body in bodies)
        take(self, bodies)

    monkeypatch.setattr(Messages, "take", noted)
    return found


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3-damaged")


async def check(
    path: Path, folder: Path | None = None, *, anew: bool = False, statements: list[int] | None = None, **how
) -> Report:
    """Run the checks with what is kept in a folder, or alone."""
    time.sleep(TICK)  # the last write lies back further than a tick of the clock
    async with Database.open(path) as database:
        known = (
            None
            if folder is None
            else VerifiedTexts(path, database.access.value, judge_all=anew, folder=folder)
        )
        before = database.statements
        report = await run_checks(database, limits=LIMITS, verified=known, **how)
        if statements is not None:
            statements.append(database.statements - before)
    return report


def answers(report: Report):
    return [(one.check.id, one.reason, one.findings, one.finding_count) for one in report.results]


def messages(path: Path) -> int:
    with connect(path) as connection:
        return connection.execute("SELECT count(*) FROM messages").fetchone()[0]


def edit(path: Path, sql: str) -> None:
    run(path, sql)


@pytest.mark.long
async def test_an_unchanged_file_is_not_read_for_its_texts(path: Path, tmp_path: Path, judged: list[int]):
    statements: list[int] = []
    first = await check(path, tmp_path, statements=statements)
    assert len(judged) == messages(path)
    judged.clear()
    second = await check(path, tmp_path, statements=statements)
    assert judged == []
    assert second.verified_messages == messages(path)
    assert first.verified_messages == 0
    with connect(path) as connection:
        conversations = connection.execute("SELECT count(DISTINCT conversation_id) FROM messages").fetchone()[
            0
        ]
    assert second.verified_conversations == conversations
    # Two statements a conversation are saved: of messages, and of parts.
    assert statements[1] <= statements[0] - 2 * conversations
    assert answers(first) == answers(second) == answers(await check(path))


@pytest.mark.long
async def test_of_a_file_that_grew_only_what_differs_is_judged(path: Path, tmp_path: Path, judged: list[int]):
    await check(path, tmp_path)
    with building(path) as builder:
        owner = builder.connection.execute("SELECT min(conversation_id) FROM messages").fetchone()[0]
        [(seq,)] = builder.connection.execute(
            "SELECT max(seq) FROM messages WHERE conversation_id = ?", (owner,)
        ).fetchall()
        builder.connection.execute(
            "INSERT INTO messages (conversation_id, seq, role, content, token_count) "
            "VALUES (?, ?, 'user', 'What came since, and nobody has read so far.', 7)",
            (owner, seq + 1),
        )
    with connect(path) as connection:
        of_owner = connection.execute(
            "SELECT count(*) FROM messages WHERE conversation_id = ?", (owner,)
        ).fetchone()[0]
    judged.clear()
    report = await check(path, tmp_path)
    assert len(judged) == of_owner
    assert report.verified_messages == messages(path) - of_owner
    assert answers(report) == answers(await check(path))


SAME_LENGTH = (
    "UPDATE messages SET content = upper(content) WHERE message_id = (SELECT min(message_id) FROM messages)"
)
EDITS = {
    "a text as long as before": SAME_LENGTH,
    "a shorter text": SAME_LENGTH.replace("upper(content)", "substr(content, 2)"),
    "a role": SAME_LENGTH.replace("content = upper(content)", "role = 'system'"),
    "a count": SAME_LENGTH.replace("content = upper(content)", "token_count = token_count + 5"),
    "a time": SAME_LENGTH.replace("content = upper(content)", "created_at = '2020-01-01 00:00:00'"),
    "a hash": SAME_LENGTH.replace("content = upper(content)", "identity_hash = 'x'"),
    "metadata of a part": "UPDATE message_parts SET metadata = '{' WHERE rowid = 1",
    "a call id": "UPDATE message_parts SET tool_call_id = 'other' WHERE rowid = (SELECT min(rowid) FROM "
    "message_parts WHERE tool_call_id IS NOT NULL)",
    "a part that is gone": "DELETE FROM message_parts WHERE rowid = 2",
    "a message that is gone": "DELETE FROM messages WHERE message_id = (SELECT max(message_id) "
    "FROM messages)",
    "a session": "UPDATE conversations SET session_id = session_id || 'x'",
    "arguments of a tool, and a count": "UPDATE message_parts SET tool_input = '{\"a\": 1}'",
    "a context": "DELETE FROM context_items WHERE message_id IS NOT NULL",
    "links": "DELETE FROM summary_messages WHERE ordinal = 0",
}


@pytest.mark.long
@pytest.mark.parametrize("sql", EDITS.values(), ids=EDITS.keys())
async def test_an_edit_in_the_past_is_noticed(sql: str, path: Path, tmp_path: Path):
    await check(path, tmp_path)
    edit(path, sql)
    assert answers(await check(path, tmp_path)) == answers(await check(path))
    assert answers(await check(path, tmp_path)) == answers(await check(path))  # and what was remembered then


@pytest.mark.long
async def test_it_is_noticed_when_the_time_of_the_file_was_set_back(path: Path, tmp_path: Path, judged):
    await check(path, tmp_path)
    before = path.stat()
    edit(path, SAME_LENGTH)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    judged.clear()
    assert answers(await check(path, tmp_path)) == answers(await check(path))
    assert judged


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
async def test_every_damage_is_found_as_without(damage, database_copy: DatabaseFactory, tmp_path: Path):
    path = database_copy("0.15.3")
    await check(path, tmp_path)
    with building(path) as builder:
        damage.make(builder.connection)
    alone = answers(await check(path))
    assert answers(await check(path, tmp_path)) == alone
    assert answers(await check(path, tmp_path)) == alone


@pytest.mark.long
async def test_another_inode_of_the_same_contents_is_read_and_not_judged(path: Path, tmp_path: Path, judged):
    await check(path, tmp_path)
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    os.replace(copy, path)
    judged.clear()
    statements: list[int] = []
    report = await check(path, tmp_path, statements=statements)
    assert judged == []
    assert report.verified_messages == messages(path)
    again = [*statements]
    await check(path, tmp_path, statements=again)
    assert again[1] < statements[0]  # and from then on its texts are not read


@pytest.mark.long
async def test_all_judges_everything_and_keeps_it(path: Path, tmp_path: Path, judged: list[int]):
    await check(path, tmp_path)
    judged.clear()
    report = await check(path, tmp_path, anew=True)
    assert (len(judged), report.verified_messages) == (messages(path), 0)
    judged.clear()
    assert (await check(path, tmp_path)).verified_messages == messages(path)
    assert judged == []


@pytest.mark.long
async def test_fewer_checks_use_what_more_have_found_and_not_the_reverse(path: Path, tmp_path: Path, judged):
    few = await check(path, tmp_path, only=["E5"])
    judged.clear()
    whole = await check(path, tmp_path)
    assert len(judged) == messages(path)
    judged.clear()
    assert answers(await check(path, tmp_path, only=["E5"])) == answers(few)
    assert answers(whole) == answers(await check(path, tmp_path))
    assert judged == []


@pytest.mark.long
async def test_one_conversation_keeps_what_is_known_of_the_others(path: Path, tmp_path: Path, judged):
    await check(path, tmp_path)
    with connect(path) as connection:
        [owner, *_] = [row[0] for row in connection.execute("SELECT DISTINCT conversation_id FROM messages")]
    judged.clear()
    assert (await check(path, tmp_path, conversation=owner)).verified_conversations == 1
    assert (await check(path, tmp_path)).verified_messages == messages(path)
    assert judged == []


DAMAGED = {
    "empty": lambda _: b"",
    "cut": lambda text: text[: len(text) // 2],
    "one byte": lambda text: text.replace(b'"messages":', b'"messages":1', 1),
    "another version": lambda text: text.replace(b" ", b" 0", 1),
    "binary": lambda _: bytes(range(256)) * 9,
    "no records": lambda _: b"[1, 2]",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_file_is_as_good_as_none(kind: str, path: Path, tmp_path: Path, judged: list[int]):
    await check(path, tmp_path)
    kept = cache_path(path, VERIFIED, tmp_path)
    kept.write_bytes(DAMAGED[kind](kept.read_bytes()))
    judged.clear()
    assert answers(await check(path, tmp_path)) == answers(await check(path))
    assert len(judged) == 2 * messages(path)


async def test_it_is_private_and_holds_no_text(path: Path, tmp_path: Path):
    folder = tmp_path / "cache"
    await check(path, folder)
    [kept] = folder.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    stored = kept.read_bytes()
    with connect(path) as connection:
        for (text,) in connection.execute("SELECT content FROM messages WHERE length(content) > 12"):
            assert text.encode() not in stored
    assert forget_cache(path, folder) == 1


@pytest.mark.long
async def test_a_folder_that_cannot_be_written_is_no_error(path: Path, tmp_path: Path):
    folder = tmp_path / "a file"
    folder.write_text("")
    assert answers(await check(path, folder)) == answers(await check(path))


@pytest.mark.long
async def test_what_is_too_much_is_judged_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(keeping, "MOST_BYTES", 4_096)
    await check(path, tmp_path)
    kept = cache_path(path, VERIFIED, tmp_path)
    assert kept.stat().st_size <= 4_096
    assert answers(await check(path, tmp_path)) == answers(await check(path))


async def test_a_small_file_has_none(path: Path, monkeypatch: pytest.MonkeyPatch):
    async with Database.open(path) as database:
        assert VerifiedTexts.of(database, allowed=False) is None
        assert VerifiedTexts.of(database, allowed=True) is not None
        monkeypatch.setattr(keeping, "LEAST_BYTES", 2**40)
        assert VerifiedTexts.of(database, allowed=True) is None


@pytest.mark.long
async def test_a_host_that_writes_meanwhile_leaves_nothing_that_is_wrong(path: Path, tmp_path: Path, judged):
    """What it writes behind the texts that were read is noticed by the next run, in the WAL as well."""
    host = sqlite3.connect(path, isolation_level=None)
    host.execute("PRAGMA journal_mode = WAL")
    edited: list[int] = []

    async def write() -> None:
        number = len(edited) + 1
        host.execute("UPDATE messages SET content = upper(content) WHERE message_id = ?", (number,))
        edited.append(number)

    try:
        await check(path, tmp_path, pause=write)
        assert edited
        assert answers(await check(path, tmp_path)) == answers(await check(path))
        host.execute("UPDATE messages SET content = lower(content) WHERE message_id = 1")
        judged.clear()
        assert answers(await check(path, tmp_path)) == answers(await check(path))
        assert 0 < len(judged) - messages(path) < messages(path)
    finally:
        host.close()
