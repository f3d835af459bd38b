"""The checks of what the host has and the engine has not (H1 and H2; docs/host.md, "Is it ingesting?")."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from lcm_core.checks.asking import Run
from lcm_core.checks.check import SUSPICIOUS, WARNING, Hit, Limits, Rule, conversation_row, hit
from lcm_core.findings import CheckScope
from lcm_core.host.ingestion import Ingestion, ingestions
from lcm_core.host.listing import list_sessions
from lcm_core.times import iso_z
from lcm_core.wording import counted


def _behind(compared: Sequence[Ingestion], limits: Limits) -> Iterator[Hit]:
    for one in compared:
        if one.behind:
            since = "" if one.behind_since is None else f", since {iso_z(one.behind_since)}"
            yield _hit(
                one, f"{counted(one.behind, 'message')} of {_named(one)} {_are(one.behind)} missing{since}."
            )


def _waiting(compared: Sequence[Ingestion], limits: Limits) -> Iterator[Hit]:
    for one in compared:
        if one.outbox:
            count = len(one.outbox)
            tried = max(row.attempts for row in one.outbox)
            said = next((row.last_error for row in one.outbox if row.last_error), None)
            why = "" if said is None else f"; the last error is: {said[:200]}"
            turns = f"{counted(count, 'turn')} of {_named(one)} {'waits' if count == 1 else 'wait'}"
            yield _hit(one, f"{turns} for the engine, tried {counted(tried, 'time')}{why}.")


def _hit(one: Ingestion, sentence: str) -> Hit:
    owner = one.conversation_id
    rows = () if owner is None else (conversation_row(owner),)
    return hit(SUSPICIOUS, sentence, *rows, owner=owner)


def _named(one: Ingestion) -> str:
    return f"session {one.session.session_key or one.session.session_id}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


CHECKS: Final[tuple[Rule[Sequence[Ingestion]], ...]] = (
    Rule(
        "H1",
        WARNING,
        "engine behind its host",
        "Did a turn of the host end whose messages the engine has not stored?",
        why="The engine stores what was said when a turn ends. Messages it has not stored cannot be "
        "summarised, found or recalled; `backfill` imports them.",
        scope=CheckScope.CONVERSATION,
        find=_behind,
    ),
    Rule(
        "H2",
        WARNING,
        "turns wait in the host",
        "Does the host keep turns that the engine has not committed?",
        why="The host hands a turn over until the engine commits it. A turn that stays was refused each "
        "time, and its messages are missing.",
        scope=CheckScope.CONVERSATION,
        find=_waiting,
    ),
)


async def read_host_sessions(run: Run) -> None:
    """H1 and H2: what the host's databases say, beside the conversations."""
    folder = run.folders.sessions
    if folder is None or not run.wants(("H1", "H2")):
        return
    listing = await asyncio.to_thread(list_sessions, folder)
    compared = await run.database.read(ingestions, listing.sessions, run.folders.engine)
    run.ask(CHECKS, compared)
