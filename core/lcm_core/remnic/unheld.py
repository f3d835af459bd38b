"""What of a source does not come into Remnic, or not back out of it (docs/remnic.md, "What it cannot hold").

The rows of whole tables are counted; each row of a damaged file is noted with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from lcm_core.remnic.records import Unheld, Why
from lcm_core.remnic.source import Outline
from lcm_core.store.connecting import Rows, SqlValue, quoted
from lcm_core.store.schema import Schema
from lcm_core.store.typed import text
from lcm_core.text import safe_line

#: Tables of a conversation that an import reads.
_BROUGHT: Final = frozenset({"conversations", "messages", "summaries", "context_items"})
#: Tables whose numbers are told even when they are 0.
_ALWAYS: Final = frozenset({"large_files", "focus_briefs"})
#: Tables that hang on a row of one with a conversation: the column of both, and the other table.
_BELOW: Final = (
    ("focus_brief_sources", "brief_id", "focus_briefs"),
    ("pending_summary_node_messages", "node_id", "pending_summary_nodes"),
    ("pending_summary_node_children", "node_id", "pending_summary_nodes"),
)
#: What the columns of a turn and of a node promise.
_PROMISED: Final = (
    ("messages", "message_id", ("role", "content", "created_at"), ("token_count",)),
    ("summaries", "summary_id", ("content",), ("token_count",)),
)


def load_left_behind(rows: Rows, schema: Schema, conversations: Sequence[int]) -> dict[str, int]:
    """How many rows of some conversations Remnic has no table for, by table."""
    found: dict[str, int] = {}
    for table in sorted(schema.tables):
        if table in _BROUGHT or table.startswith("lcm_tui_") or not schema.has(table, "conversation_id"):
            continue
        sql = f"SELECT count(*) AS n FROM {quoted(table)} WHERE conversation_id IN (?*)"
        found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    for table, key, above in _BELOW:
        if schema.has(table, key) and schema.has(above, "conversation_id"):
            sql = f"""SELECT count(*) AS n FROM {above} AS above JOIN {table} AS below USING ({key})
                WHERE above.conversation_id IN (?*)"""
            found[table] = sum(row["n"] for row in rows.rows_in(sql, conversations))
    return {table: count for table, count in found.items() if count or table in _ALWAYS}


def unheld_in(outline: Outline, lost: Collection[str]) -> Iterator[Unheld]:
    """Links and context items of a session whose other end does not come along; pure.

    *lost*: ids of summaries that are no nodes.
    """
    held: dict[int | str, int] = {one.message_id: one.conversation_id for one in outline.messages}
    held |= {one.summary_id: one.conversation_id for one in outline.summaries if one.summary_id not in lost}
    for table, links in (("summary_messages", outline.links), ("summary_parents", outline.edges)):
        for link in links:
            owner = held.get(link.summary_id)
            if owner is None or held.get(link.target) != owner:
                yield _link(table, link.summary_id, link.target, Why.NO_END)
    for row in outline.context:
        ref = row["message_id"] if row["summary_id"] is None else row["summary_id"]
        if not isinstance(ref, int | str) or held.get(ref) != row["conversation_id"]:
            yield _item(row["conversation_id"], row["ordinal"], ref)


def load_strays(
    rows: Rows,
    schema: Schema,
    conversations: Sequence[int],
    sessions: Collection[str],
    *,
    whole: bool,
    unreadable: Sequence[int],
) -> list[Unheld]:
    """Rows that belong to no message, summary or conversation, and values of wrong types.

    *whole*: of the whole file, else of some *sessions*, which are those of *conversations*. *unreadable* are
    messages that cannot be turns.
    """
    found: list[Unheld] = []
    if whole:
        found += _without_conversation(rows, schema)
    found += _parts(rows, schema, sessions, unreadable, whole=whole)
    found += _odd_links(rows, schema, conversations, whole=whole)
    for row in rows.rows_in(
        """SELECT rowid AS id FROM summaries
        WHERE conversation_id IN (?*) AND typeof(summary_id) <> 'text'""",
        conversations,
    ):
        found.append(Unheld("summaries", Why.NO_ID, f"row {row['id']}"))
    for table, key, texts, numbers in _PROMISED:
        odd = [f"typeof({name}) <> 'text'" for name in texts if schema.has(table, name)]
        odd += [f"typeof({name}) <> 'integer'" for name in numbers if schema.has(table, name)]
        for row in rows.rows_in(
            f"SELECT {key} AS id FROM {table} WHERE conversation_id IN (?*) AND ({' OR '.join(odd)})",
            conversations,
        ):
            found.append(Unheld(table, Why.WRONG_TYPE, _said(row["id"])))
    return found


def _without_conversation(rows: Rows, schema: Schema) -> Iterator[Unheld]:
    missing = "NOT EXISTS (SELECT 1 FROM conversations AS c WHERE c.conversation_id IS t.conversation_id)"
    for table, key in (("messages", "message_id"), ("summaries", "summary_id")):
        for (ref,) in rows.tuples(f"SELECT t.{key} FROM {table} AS t WHERE {missing}"):
            yield Unheld(table, Why.NO_CONVERSATION, _said(ref))
    if schema.has("context_items", "conversation_id"):
        for owner, ordinal, ref in rows.tuples(
            f"""SELECT t.conversation_id, t.ordinal, coalesce(t.summary_id, t.message_id)
            FROM context_items AS t WHERE {missing}"""
        ):
            yield _item(owner, ordinal, ref)


def _parts(
    rows: Rows, schema: Schema, sessions: Collection[str], unreadable: Sequence[int], *, whole: bool
) -> Iterator[Unheld]:
    if not schema.has("message_parts"):
        return
    for row in rows.rows("""SELECT p.part_id, p.message_id, p.session_id FROM message_parts AS p
        WHERE NOT EXISTS (SELECT 1 FROM messages AS m JOIN conversations USING (conversation_id)
            WHERE m.message_id = p.message_id)"""):
        if whole or (text(row["session_id"]) or "").strip() in sessions:
            yield _part(row["part_id"], row["message_id"])
    sql = "SELECT part_id, message_id FROM message_parts WHERE message_id IN (?*)"
    for row in rows.rows_in(sql, unreadable):
        yield _part(row["part_id"], row["message_id"])


def _odd_links(rows: Rows, schema: Schema, conversations: Sequence[int], *, whole: bool) -> Iterator[Unheld]:
    """Links of summaries that are not there, and to what is no id."""
    for table, key in (("summary_messages", "message_id"), ("summary_parents", "parent_summary_id")):
        if not schema.has(table):
            continue
        if whole:
            for one, ref in rows.tuples(
                f"""SELECT t.summary_id, t.{key} FROM {table} AS t WHERE NOT EXISTS (
                SELECT 1 FROM summaries AS s JOIN conversations USING (conversation_id)
                WHERE s.summary_id = t.summary_id)"""
            ):
                yield _link(table, one, ref, Why.NO_SUMMARY)
        for row in rows.rows_in(
            f"""SELECT t.summary_id AS one, t.{key} AS ref FROM summaries AS s
            JOIN {table} AS t ON t.summary_id = s.summary_id
            WHERE s.conversation_id IN (?*) AND typeof(t.{key}) NOT IN ('integer', 'text')""",
            conversations,
        ):
            yield _link(table, row["one"], row["ref"], Why.NO_END)


# -- names -----------------------------------------------------------------------------------------------


def _link(table: str, one: SqlValue, ref: SqlValue, why: Why) -> Unheld:
    return Unheld(table, why, f"{_said(one)} to {_said(ref)}")


def _item(owner: SqlValue, ordinal: SqlValue, ref: SqlValue) -> Unheld:
    place = f"ordinal {_said(ordinal)} of conversation {_said(owner)}"
    return Unheld("context_items", Why.NO_TARGET, f"{_said(ref)} at {place}")


def _part(part: SqlValue, message: SqlValue) -> Unheld:
    return Unheld("message_parts", Why.NO_MESSAGE, f"{_said(part)} of message {_said(message)}")


def _said(value: SqlValue) -> str:
    return "NULL" if value is None else safe_line(text(value) or "''")
