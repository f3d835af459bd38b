"""What is said of sessions of the host and of conversations that share one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from lcm_core.base.records import Conversation, ConversationId
from lcm_host.ingestion import Ingestion
from lcm_host.rows import OutboxRow
from lcm_host.sessions import HostSession, HotPlace, SessionProblem, Storage

from lcm_tui.kit.spans import text_of
from lcm_tui.tables.conversation_rows import chain_line, session_name, session_state
from lcm_tui.tables.status import Ingesting, ingestion_line, overview

THEN = datetime(2026, 3, 6, 12, tzinfo=UTC)


def one(number: int, cause: str | None = None, *, active: bool = True) -> Conversation:
    return Conversation(
        ConversationId(number), "s", "agent:main:main", active, None, cause, None, None, "2026", "2026"
    )


def session(
    storage: Storage = Storage.HOT, key: str | None = "agent:main:main", *, current: bool = True
) -> HostSession:
    return HostSession("main", "s", key, storage, current, None, THEN, HotPlace(Path("x")))


def when(moment: datetime | None) -> str:
    return "–" if moment is None else moment.strftime("%H:%M")


def lagging(behind: int, *outbox: OutboxRow, in_flight: bool = False) -> Ingestion:
    return Ingestion(
        session(), ConversationId(1), None, None, behind, THEN if behind else None, in_flight, outbox
    )


TURN = OutboxRow("k", 3, "database is locked", int(THEN.timestamp() * 1000))


@pytest.mark.parametrize(
    ("storage", "current", "state"),
    [
        (Storage.HOT, True, "living"),
        (Storage.HOT, False, "earlier"),
        (Storage.COLD, True, "cold"),
        (Storage.DELETED, False, "deleted"),
        (Storage.ARCHIVED, False, "archived"),
        (Storage.JSONL, True, "on disk"),
    ],
)
def test_a_session_says_where_it_is(storage: Storage, current: bool, state: str) -> None:
    assert session_state(session(storage, current=current)) == state


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("agent:main:main", "main"),
        ("agent:ops:discord:channel:x", "ops discord:channel:x"),
        ("other", "other"),
        ("agent:", "agent:"),
        (None, "s"),
    ],
)
def test_a_session_is_called_as_a_conversation_is(key: str | None, name: str) -> None:
    assert session_name(session(key=key)) == name


def test_the_line_of_a_conversation_says_what_is_missing_first() -> None:
    said = text_of(ingestion_line(lagging(12, TURN), when))
    assert said.startswith(
        " ✗ 12 messages missing since 12:00  1 turn waits (3 attempts: database is locked)"
    )
    assert text_of(ingestion_line(lagging(0, TURN), when)).startswith(" ✗ not committed  1 turn waits")
    assert text_of(ingestion_line(lagging(0, in_flight=True), when)).startswith(
        " ✓ ingesting  a turn is running"
    )


def test_the_line_of_all_says_the_worst_first() -> None:
    problem = SessionProblem(Path("x"), "It is damaged.")
    assert text_of(overview(Ingesting(), when)) == ""
    assert text_of(overview(Ingesting([lagging(0)]), when)) == "✓ up to date with 1 session of the host"
    said = text_of(overview(Ingesting([lagging(0), lagging(2), lagging(3)], [problem]), when))
    assert (
        said == "✗ 5 messages missing since 12:00  (2 of 3 sessions)  ? 1 place not read: x: It is damaged."
    )
    assert text_of(overview(Ingesting([lagging(0, TURN)]), when)).startswith(
        "✗ turns are not committed since 12:00"
    )


def test_a_split_session_is_explained_at_both_ends() -> None:
    before, behind = one(1, "rollover-fallback", active=False), one(4)
    said = text_of(chain_line(before, [before, behind], "V"))
    assert said == (
        " archived by a rollover: the old transcript was missing, so the host started a new one; the "
        "session continues in conversation 4; V in the list rejoins them"
    )
    said = text_of(chain_line(behind, [before, behind], "V"))
    assert said.startswith(" the previous one is conversation 1, archived by a rollover")
    assert said.endswith("V in the list rejoins them")


def test_what_no_rollover_split_is_not_offered_to_be_rejoined() -> None:
    before, behind = one(1, "manual-reset", active=False), one(2)
    said = text_of(chain_line(before, [before, behind], "V"))
    assert said == " archived by /reset; the session continues in conversation 2"
    assert text_of(chain_line(one(7, None, active=False), [one(7)], "V")) == (
        " archived for a reason that was not recorded"
    )
    assert chain_line(behind, [behind], "V") == ()
