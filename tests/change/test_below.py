"""The messages below a condensed summary: all of them, each once, unless there are too many."""

from __future__ import annotations

import pytest
from lcm_core.operations.drafting import draft as drafts
from lcm_core.records import MessageId, SummaryId
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Database
from lcm_core.summarize.source import source_of_messages

from tests.change.drafting import setting_of
from tests.change.support import column
from tests.conftest import DatabaseFactory

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
        summary = (await database.read(summary_store.get_summary, SummaryId(top))).summary
        text = await database.read(drafts.text_below, summary, rendering)
        whole = await database.read(source_of_messages, list(map(MessageId, ids)), rendering)
        assert text == whole.text
        assert len(ids) > 1
        monkeypatch.setattr(drafts, "MOST_MESSAGES", len(ids) - 1)
        assert await database.read(drafts.text_below, summary, rendering) is None
        monkeypatch.undo()
        monkeypatch.setattr(drafts, "MOST_TOKENS", 10)
        assert await database.read(drafts.text_below, summary, rendering) is None
