"""Makes the demonstration database: ``python -m tests.demonstration`` writes ``lcm_tui/data/demo.db.gz``.

It is the recorded database of 0.15.3, titles, a session that a rollover split, and damages that the doctor
finds and `--fix` fixes. Whoever changes it runs ``pytest tests/test_sample_outputs.py`` and takes the
snapshots again.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from tests.databases import Builder, building, run
from tests.support import ROOT, unpack_database

SHIPPED = ROOT / "lcm_tui" / "data" / "demo.db.gz"
TITLES = {
    1: "Schema migration before Friday",
    3: "Why the nightly export is slow",
    7: "Staging cluster for the demo",
}
#: The conversations that a rollover made of one session.
SPLIT_FROM, SPLIT_TO = 9, 10
SESSION = "agent:support:slack:channel:incidents"
TITLE = "Checkout is slow"
BEFORE = datetime(2026, 3, 3, 9, 2)
AFTER = datetime(2026, 3, 3, 11, 40)
#: Messages that the engine summarised before the rollover, eight to a leaf.
LEAF = 8
LEAVES = (
    """Incident 4711, 2026-03-03 09:02–09:16 UTC: checkout answers in 4.2 s instead of 300 ms.
- Finding: it began at 08:47 with release 2026.03.1; errors are not up, only the time is.
- Finding: `orders_by_customer` is read without its index since the release; EXPLAIN shows a sequential scan.
- Constraint: do not roll the release back: it holds the fix for double charges.
Expand for details about: the traces of pay-7, the query plan, who was paged""",
    """Incident 4711, 2026-03-03 09:18–09:32 UTC: the index is made again.
- Decision: CREATE INDEX CONCURRENTLY on orders(customer_id), outside of the release; Amara watches the locks.
- Constraint: no deploys before 12:00 UTC.
- Finding: the index was dropped by migration 0187, which renamed the column.
- Status: p95 fell from 4.2 s to 340 ms at 09:29; the incident stays open until the report is written.
Expand for details about: migration 0187, p95 by region, the text for customers""",
)
SAID_BEFORE = (
    ("user", "Checkout is slow since a quarter to nine. p95 is 4.2 s, normally 300 ms. Can you look?"),
    ("assistant", "Yes. I open incident 4711 and compare the traces of before and after 08:47."),
    ("tool", "trace pay-7: 4193 ms, of it 4011 ms in SELECT … FROM orders WHERE customer_id = $1"),
    ("assistant", "It is one query: orders by customer takes 4.0 of 4.2 s. It began with release 2026.03.1."),
    ("user", "Do not roll it back: that release has the fix for the double charges."),
    ("assistant", "Understood, no rollback. I look at the plan of the query instead."),
    ("tool", "Seq Scan on orders (cost=0.00..814233.20 rows=41 width=212) Filter: (customer_id = 88123)"),
    (
        "assistant",
        "The index orders_by_customer is not used, or is gone. Amara is on call; I have paged her.",
    ),
    ("user", "Amara here. What do you need?"),
    ("assistant", "Please confirm that the index orders_by_customer is missing in production."),
    ("user", "It is missing. Migration 0187 renamed customer to customer_id and dropped it."),
    ("assistant", "Then it is made again: CREATE INDEX CONCURRENTLY, which locks no writes. Do you agree?"),
    ("user", "Agreed. I watch the locks. And no deploys before 12:00 UTC, please."),
    ("tool", "CREATE INDEX\nTime: 402113.507 ms (06:42.114)"),
    ("assistant", "The index is there. p95 fell from 4.2 s to 340 ms at 09:29."),
    ("user", "Good. Leave the incident open until the report is written."),
    ("assistant", "It stays open. I draft the report: what happened, why no test saw it, what we change."),
    ("user", "Put in that we lost about 120 orders between 08:47 and 09:29."),
    ("assistant", "Added: about 120 orders lost. Source: the dashboard of abandoned carts."),
    ("user", "And ask the data team whether the customers can be written to."),
    ("assistant", "Asked in #data: they answer after lunch."),
)
SAID_AFTER = (
    ("user", "Is the report done?"),
    ("assistant", "Which report? I see nothing of one in this conversation."),
    ("user", "The one for incident 4711, the slow checkout. We worked on it all morning."),
    ("assistant", "I do not have that. Can you tell me what was decided?"),
    ("user", "Never mind. Can we deploy now? It is a quarter to twelve."),
    ("assistant", "I know of nothing that stands against it. Shall I start the deploy?"),
    ("user", "Wait: there was an agreement with Amara. No deploys before twelve."),
    ("assistant", "Then I wait until 12:00 UTC."),
    ("user", "The data team says yes: we may write to the 120 customers."),
    ("assistant", "I draft the mail and show it to you first."),
)


def build(target: Path) -> Path:
    """Write the demonstration database to *target*; *target* again."""
    unpack_database("0.15.3", target)
    with building(target) as rows:
        for conversation_id, title in TITLES.items():
            rows.execute(
                "UPDATE conversations SET title = ? WHERE conversation_id = ?", title, conversation_id
            )
        _split(rows)
        _damage(rows)
    return run(target, "VACUUM")


def _split(rows: Builder) -> None:
    """A session whose second conversation knows nothing of the first: what `merge` is for."""
    for conversation_id, session, began in (
        (SPLIT_FROM, "5b0c9e57-51a7-4f39-9d5c-2f7c1a64e0b1", BEFORE),
        (SPLIT_TO, "c8f6a1d2-0e4b-4b7a-8a53-7d19e2b6f3c4", AFTER),
    ):
        archived = conversation_id == SPLIT_FROM
        rows.conversation(
            conversation_id,
            session_id=session,
            session_key=SESSION,
            title=TITLE,
            active=int(not archived),
            archived_at=_sql(AFTER - timedelta(minutes=1)) if archived else None,
            archive_cause="rollover-fallback" if archived else None,
            created_at=_sql(began),
            updated_at=_sql(began),
        )
    said = _say(rows, SPLIT_FROM, SAID_BEFORE, BEFORE)
    rows.execute("DELETE FROM context_items WHERE conversation_id = ?", SPLIT_FROM)
    for number, text in enumerate(LEAVES):
        covered = said[number * LEAF : (number + 1) * LEAF]
        first, last, tokens = rows.execute(
            """SELECT min(created_at), max(created_at), sum(token_count) FROM messages
            WHERE message_id BETWEEN ? AND ?""",
            covered[0],
            covered[-1],
        ).fetchone()
        summary_id = f"sum_4711c0ffee{number:06x}"
        rows.summary(
            SPLIT_FROM,
            summary_id,
            text,
            messages=covered,
            in_context=True,
            model="claude-haiku-4-5",
            earliest_at=_iso(first),
            latest_at=_iso(last),
            source_message_token_count=tokens,
            created_at=_sql(BEFORE + timedelta(minutes=50)),
        )
        for table in ("summaries_fts", "summaries_fts_cjk"):
            rows.insert(table, summary_id=summary_id, content=text)
    for message_id in said[len(LEAVES) * LEAF :]:
        rows.item(SPLIT_FROM, message_id)
    _say(rows, SPLIT_TO, SAID_AFTER, AFTER)
    rows.execute(
        "UPDATE context_items SET created_at = ? WHERE conversation_id IN (?, ?)",
        _sql(AFTER),
        SPLIT_FROM,
        SPLIT_TO,
    )


def _say(rows: Builder, conversation_id: int, said: Sequence[tuple[str, str]], began: datetime) -> list[int]:
    """Messages two minutes apart, each with its part and its row of the search table; their ids."""
    ids = []
    for number, (role, content) in enumerate(said):
        moment = _sql(began + timedelta(minutes=2 * number))
        ids.append(rows.message(conversation_id, content, role=role, created_at=moment))
        rows.part(ids[-1], metadata=f'{{"originalRole":"{role}"}}')
        rows.insert("messages_fts", rowid=ids[-1], content=content)
    return ids


def _damage(rows: Builder) -> None:
    """What an interrupted write and a manual deletion leave, where no page needs a conversation whole."""
    # A message that was deleted by hand, with its parts and its search row: the context still names it.
    [gone] = rows.execute("SELECT message_id FROM messages WHERE conversation_id = 7 AND seq = 19").fetchone()
    rows.execute("DELETE FROM message_parts WHERE message_id = ?", gone)
    rows.execute("DELETE FROM messages_fts WHERE rowid = ?", gone)
    rows.execute("DELETE FROM messages WHERE message_id = ?", gone)
    # Counters that a consumer was left with when its source was written anew.
    rows.execute("UPDATE summaries SET descendant_count = 5 WHERE summary_id = 'sum_a9293ba83e71ce65'")
    # A message that was stored, and its search row was not.
    [unfound] = rows.execute(
        "SELECT max(message_id) FROM messages WHERE conversation_id = ?", SPLIT_TO
    ).fetchone()
    rows.execute("DELETE FROM messages_fts WHERE rowid = ?", unfound)
    # A compaction that the engine owes the busiest conversation since the host stopped.
    rows.execute(
        """INSERT OR REPLACE INTO conversation_compaction_maintenance (conversation_id, pending, requested_at,
        reason, token_budget, current_token_count, context_threshold, context_threshold_source,
        maintenance_revision, updated_at)
        VALUES (2, 1, '2026-03-02T23:26:47.000Z', 'threshold', 128000, 2235, 0.6, 'global', 1,
        '2026-03-02 23:26:47')"""
    )


def _sql(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _iso(stored: str) -> str:
    return stored.replace(" ", "T") + ".000Z"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        SHIPPED.write_bytes(gzip.compress(build(Path(folder) / "demo.db").read_bytes(), 9, mtime=0))
