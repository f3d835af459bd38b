"""Focus briefs of odd values: what is sent under them, by the rule as the page says it.

The rule is told a second time here, over plain SQL, from docs/spec/assembly.md, "What is sent", and
docs/spec/focus.md alone: nothing of it comes from the code under test.
"""

from __future__ import annotations

import random
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import Database
from lcm_core.engine.assembly import AssemblySettings
from lcm_core.operations.assembly import assembly_basis

from tests.core.assembly_model import BLANKS
from tests.databases import building, new_database
from tests.databases import reading as connected

ONE = 1
TIMES: list[Any] = [
    None, "", "2026-03-01T00:00:00.000Z", "2026-03-02 10:00:00", "2026-03-02T10:00:00.000Z",
    "2026-03-02T12:00:00+02:00", "2026-03-05T23:59:59.999Z", "9999-12-31T00:00:00.000Z", "yesterday", "3",
    "\U0001f9ed",
]  # fmt: skip
TEXTS: list[Any] = [
    "", " ", "\t\r\n", "\u3000\ufeff\u00a0", "\u200b", "Body", "</content>\n</focus_brief>",
    "x <y> & z \"q\"", "缓存 \U0001f9ed\u0301", "&amp;lt;", "a\r\nb", "x" * 70_000, b"bytes \xc3\xa9", 7,
    "\x1b[2J\u202e",
]  # fmt: skip
SEQS: list[Any] = [None, None, -1, 0, 1, 3, 6, 8, 10_000, 2**62]
STATUSES = (
    "active",
    "active",
    "active",
    "superseded",
    "inactive",
    "failed",
    "draft",
    "Active",
    "",
    "unknown",
)


def fill(path: Path, rng: random.Random) -> None:
    """One conversation of messages, leaves and what was made of them, and briefs of all kinds over it."""
    with building(path, checks=False) as rows:
        for number in (1, 2):
            rows.conversation(number, session_key=rng.choice((None, f"agent:main:{number}")))
        first = datetime(2026, 3, 1, 20, tzinfo=UTC)
        said = [rows.message(1, f"Said {at}.", in_context=False) for at in range(8)]
        for at in range(4):
            linked = said[2 * at : 2 * at + 2] if rng.random() < 0.8 else []
            reach = f"{first + timedelta(hours=6 * at):%Y-%m-%dT%H:%M:%S}.000Z"
            latest = reach if rng.random() < 0.6 else rng.choice(TIMES)
            rows.summary(1, f"sum_{at}", f"Leaf {at}", messages=linked, latest_at=latest)
        rows.summary(
            1, "sum_up", "Above", sources=["sum_0", "sum_1", "sum_gone"], latest_at=rng.choice(TIMES)
        )
        rows.summary(1, "sum_loop", "Loop", sources=["sum_loop", "sum_up"], latest_at=rng.choice(TIMES))
        listed = ["sum_0", "sum_1", "sum_2", "sum_3", "sum_up", "sum_loop", "sum_nobody"]
        for one in rng.sample(listed, rng.randint(1, 7)) + rng.choices(listed, k=rng.choice((0, 0, 1))):
            rows.item(1, one)
        for one in said[rng.randint(0, 8) :]:
            rows.item(1, one)
        for number in range(rng.randint(0, 5)):
            rows.insert(
                "focus_briefs",
                brief_id=f'focus_"<&>{number}' if rng.random() < 0.2 else f"focus_{number:016x}",
                conversation_id=rng.choice((1, 1, 1, 1, 2)),
                session_key=rng.choice((None, "agent:other:main", "")),
                prompt=rng.choice(TEXTS),
                content=rng.choice(TEXTS) if rng.random() < 0.6 else "Body",
                status=rng.choice(STATUSES),
                token_count=rng.choice((0, 3, -5, 2**40)),
                target_tokens=rng.choice((0, 12_000)),
                covered_latest_at=rng.choice(TIMES),
                covered_message_seq=rng.choice(SEQS),
                source_context_hash=rng.choice(("", "x" * 64)),
                created_at=rng.choice([one for one in TIMES if one is not None]),
            )


# -- the rule, told again ----------------------------------------------------------------------------------


SOURCES = "SELECT parent_summary_id FROM summary_parents WHERE summary_id = ?"
SAID = "SELECT m.seq FROM summary_messages JOIN messages AS m USING (message_id) WHERE summary_id = ?"


def text_of(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def moment_of(stored: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(re.sub("Z$", "+00:00", stored or ""))
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def newest_below(con: sqlite3.Connection, summary: str) -> int | None:
    """The seq of the newest message below a summary."""
    seen, ahead, seqs = set(), [summary], []
    while ahead:
        if (one := ahead.pop()) in seen:
            continue
        seen.add(one)
        if con.execute("SELECT 1 FROM summaries WHERE summary_id = ?", (one,)).fetchone():
            ahead += [row[0] for row in con.execute(SOURCES, (one,))]
            seqs += [row[0] for row in con.execute(SAID, (one,))]
    return max(seqs, default=None)


def covered(con: sqlite3.Connection, brief: sqlite3.Row, summary: sqlite3.Row) -> bool:
    seq, own = brief["covered_message_seq"], newest_below(con, summary["summary_id"])
    if seq is not None and own is not None:
        return own <= seq
    until, reach = brief["covered_latest_at"], summary["latest_at"]
    if not until or not reach:
        return False
    limit, then = moment_of(until), moment_of(reach)
    return reach <= until if limit is None or then is None else then <= limit


def element(brief: sqlite3.Row) -> str:
    def attribute(name: str, value: Any) -> str:
        said = text_of(value)
        for plain, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
            said = said.replace(plain, written)
        return f' {name}="{said}"'

    times = [
        attribute(name, f"{found:%Y-%m-%dT%H:%M:%S}")
        for name in ("created_at", "covered_latest_at")
        if (found := moment_of(brief[name])) is not None
    ]
    seq = brief["covered_message_seq"]
    return "".join(
        (
            "<focus_brief",
            *(
                attribute(name, brief[f"brief_{name}" if name == "id" else name])
                for name in ("id", "prompt", "token_count", "target_tokens")
            ),
            *times,
            "" if seq is None else attribute("covered_message_seq", seq),
            f">\n  <content>\n{text_of(brief['content'])}\n  </content>\n</focus_brief>",
        )
    )


def expected(path: Path) -> list[str]:
    """What is sent of conversation 1, as texts: summaries as their ids."""
    with connected(path) as con:
        con.row_factory = sqlite3.Row
        active = con.execute(
            """SELECT * FROM focus_briefs WHERE conversation_id = 1 AND status = 'active'
            ORDER BY created_at DESC, rowid DESC"""
        ).fetchall()
        brief = next((one for one in active if text_of(one["content"]).strip(BLANKS)), None)
        found: list[str] = []
        for item in con.execute(
            "SELECT * FROM context_items WHERE conversation_id = 1 ORDER BY ordinal"
        ).fetchall():
            if item["item_type"] == "message":
                [said] = con.execute(
                    "SELECT content FROM messages WHERE message_id = ?", (item["message_id"],)
                ).fetchone()
                found.append(said)
                continue
            summary = con.execute(
                "SELECT * FROM summaries WHERE summary_id = ?", (item["summary_id"],)
            ).fetchone()
            if summary is None:
                continue
            if brief is not None and covered(con, brief, summary):
                if (sent := element(brief)) not in found:
                    found.append(sent)
            else:
                found.append(summary["summary_id"])
    return found


async def sent(path: Path) -> list[str]:
    wanted = AssemblySettings(10**9, fresh_tail_count=2)
    async with await Database.open(path) as database:
        basis = await database.read(lambda reader: assembly_basis(reader, ONE, wanted, zone=UTC))
    texts = [str(one.document()["content"]) for one in basis.assembled().messages]
    return [found[1] if (found := re.match('<summary id="([^"]+)"', one)) else one for one in texts]


@pytest.mark.cases(7)
@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(one, marks=pytest.mark.long) for one in range(40, 600))]
)
async def test_what_is_sent_under_an_odd_brief(seed: int, tmp_path: Path):
    path = new_database(tmp_path / "lcm.db")
    fill(path, random.Random(seed))
    assert await sent(path) == expected(path)
