"""What recall reads of conversations, summaries, files and messages, row by row, within one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lcm_core.records import (
    Conversation,
    ConversationId,
    Edge,
    LargeFile,
    Message,
    MessageId,
    Summary,
    SummaryId,
    SummaryText,
)
from lcm_core.store.connecting import Rows, SqlValue
from lcm_core.store.conversations import COLUMNS as CONVERSATION_COLUMNS
from lcm_core.store.conversations import conversation_of
from lcm_core.store.files import COLUMNS as FILE_COLUMNS
from lcm_core.store.files import file_of
from lcm_core.store.messages import COLUMNS as MESSAGE_COLUMNS
from lcm_core.store.messages import message_of
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import COLUMNS as SUMMARY_COLUMNS
from lcm_core.store.summaries import summary_of
from lcm_core.store.typed import typed


@dataclass(frozen=True, slots=True)
class Links:
    """What a summary stands between."""

    sources: tuple[SummaryId, ...]
    consumers: tuple[SummaryId, ...]
    messages: tuple[MessageId, ...]


class RecalledRows:
    """The rows of one file that the tools of recall ask for, one question at a time."""

    def __init__(self, db: Rows, schema: Schema) -> None:
        self.db = db
        self.schema = schema

    # -- conversations -------------------------------------------------------------------------------------

    def conversation(self, conversation_id: int) -> Conversation | None:
        """One by its id."""
        found = self._conversations("c.conversation_id = ?", (conversation_id,))
        return found[0] if found else None

    def active_of_key(self, session_key: str) -> Conversation | None:
        """The active one of a session key; of several the newest."""
        if not self.schema.has("conversations", "session_key"):
            return None
        active = " AND c.active = 1" if self.schema.has("conversations", "active") else ""
        found = self._conversations(f"c.session_key = ?{active}", (session_key,))
        return found[0] if found else None

    def of_session(self, session_id: str) -> Conversation | None:
        """The one of a session id: an active one before the others, then the newest."""
        found = self._conversations("c.session_id = ?", (session_id,))
        return found[0] if found else None

    def family(self, of: Conversation) -> list[Conversation]:
        """All conversations of the same session key, or where there is none of the same session id."""
        if of.session_key:
            return self.family_of_key(of.session_key)
        return self._conversations("c.session_id = ?", (of.session_id,))

    def family_of_key(self, session_key: str) -> list[Conversation]:
        """All conversations of a session key; none in a file that has no keys."""
        if not self.schema.has("conversations", "session_key"):
            return []
        return self._conversations("c.session_key = ?", (session_key,))

    def _conversations(self, where: str, arguments: Sequence[SqlValue]) -> list[Conversation]:
        columns = self.schema.select("conversations", CONVERSATION_COLUMNS, "c")
        active = "c.active DESC, " if self.schema.has("conversations", "active") else ""
        rows = self.db.rows(
            f"""SELECT {columns} FROM conversations AS c WHERE {where}
            ORDER BY {active}c.created_at DESC, c.conversation_id DESC""",
            arguments,
        )
        return [conversation_of(row) for row in typed(rows)]

    def deepest(self, conversations: Sequence[ConversationId] | None) -> int:
        """The greatest depth of a summary of some conversations (None: of all); 0 without any."""
        if not self.schema.has("summaries", "depth"):
            return 0
        asked = "SELECT max(depth) AS depth FROM summaries"
        if conversations is None:
            rows = self.db.rows(asked)
        else:
            rows = self.db.rows_in(f"{asked} WHERE conversation_id IN (?*)", conversations)
        return max((row["depth"] or 0 for row in typed(rows)), default=0)

    # -- summaries -----------------------------------------------------------------------------------------

    def summary(self, summary_id: SummaryId) -> SummaryText | None:
        """One with its text."""
        return next(iter(self.summaries([summary_id])), None)

    def summaries(self, summary_ids: Iterable[SummaryId]) -> list[SummaryText]:
        """Some with their texts, in the order asked; those that are not there are left out."""
        if not self.schema.has("summaries"):
            return []
        wanted = list(dict.fromkeys(summary_ids))
        columns = self.schema.select("summaries", (*SUMMARY_COLUMNS, "content"), "s")
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM summaries AS s WHERE s.summary_id IN (?*)", wanted)
        )
        found = {row["summary_id"]: SummaryText(summary_of(row), row["content"] or "") for row in rows}
        return [found[one] for one in wanted if one in found]

    def without_texts(self, summary_ids: Iterable[SummaryId]) -> list[Summary]:
        """The same, without their texts."""
        if not self.schema.has("summaries"):
            return []
        wanted = list(dict.fromkeys(summary_ids))
        columns = self.schema.select("summaries", SUMMARY_COLUMNS, "s")
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM summaries AS s WHERE s.summary_id IN (?*)", wanted)
        )
        found = {row["summary_id"]: summary_of(row) for row in rows}
        return [found[one] for one in wanted if one in found]

    def links(self, summary_id: SummaryId) -> Links:
        """The summaries and messages right beside one."""
        sources = [edge.source for edge in self.edges("summary_id", summary_id)]
        consumers = [edge.consumer for edge in self.edges("parent_summary_id", summary_id)]
        return Links(tuple(sources), tuple(consumers), tuple(self.message_ids(summary_id)))

    def edges(self, side: str, summary_id: SummaryId) -> list[Edge]:
        """The edges that a summary is at one *side* of, by their ordinal."""
        if not self.schema.has("summary_parents"):
            return []
        rows = self.db.rows(
            f"""SELECT summary_id, parent_summary_id, ordinal FROM summary_parents
            WHERE {side} = ? ORDER BY ordinal, parent_summary_id""",
            (summary_id,),
        )
        return [
            Edge(SummaryId(row["summary_id"]), SummaryId(row["parent_summary_id"]), row["ordinal"])
            for row in typed(rows)
        ]

    def message_ids(self, summary_id: SummaryId) -> list[MessageId]:
        """The messages that a leaf was made from, in order, also those whose row is gone."""
        if not self.schema.has("summary_messages"):
            return []
        rows = self.db.rows(
            "SELECT message_id FROM summary_messages WHERE summary_id = ? ORDER BY ordinal", (summary_id,)
        )
        return [MessageId(row["message_id"]) for row in typed(rows)]

    def leaves_of(self, message_ids: Iterable[MessageId]) -> dict[MessageId, list[SummaryId]]:
        """The leaves that were made from some messages."""
        if not self.schema.has("summary_messages"):
            return {}
        rows = self.db.rows_in(
            "SELECT message_id, summary_id FROM summary_messages WHERE message_id IN (?*)", message_ids
        )
        found: dict[MessageId, list[SummaryId]] = {}
        for row in typed(rows):
            found.setdefault(MessageId(row["message_id"]), []).append(SummaryId(row["summary_id"]))
        return found

    # -- messages and files --------------------------------------------------------------------------------

    def messages(self, message_ids: Sequence[MessageId]) -> list[Message]:
        """Some with their whole texts, in the order asked; those that are not there are left out."""
        columns = self.schema.select("messages", (*MESSAGE_COLUMNS, "content"), "m")
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM messages AS m WHERE m.message_id IN (?*)", message_ids)
        )
        found = {row["message_id"]: message_of(row) for row in rows}
        return [found[one] for one in message_ids if one in found]

    def message_tokens(
        self, message_ids: Iterable[MessageId], within: Collection[ConversationId] | None = None
    ) -> dict[MessageId, int]:
        """The stored tokens of some messages, 0 where none are recorded; missing messages are left out.

        *within*: only messages of these conversations; None: of all.
        """
        columns = self.schema.select("messages", ("message_id", "conversation_id", "token_count"), "m")
        rows = typed(
            self.db.rows_in(f"SELECT {columns} FROM messages AS m WHERE m.message_id IN (?*)", message_ids)
        )
        return {
            MessageId(row["message_id"]): row["token_count"] or 0
            for row in rows
            if within is None or row["conversation_id"] in within
        }

    def file(self, file_id: str) -> LargeFile | None:
        """One large file by its id."""
        found = self._files("f.file_id = ?", (file_id,))
        return found[0] if found else None

    def files(self, conversations: Sequence[ConversationId] | None) -> list[LargeFile]:
        """The large files of some conversations (None: of all), newest first."""
        if conversations is None:
            return self._files("1", ())
        marks = ", ".join("?" * len(conversations))
        return self._files(f"f.conversation_id IN ({marks})", conversations)

    def _files(self, where: str, arguments: Sequence[SqlValue]) -> list[LargeFile]:
        if not self.schema.has("large_files"):
            return []
        columns = self.schema.select("large_files", FILE_COLUMNS, "f")
        rows = self.db.rows(
            f"SELECT {columns} FROM large_files AS f WHERE {where} ORDER BY f.created_at DESC", arguments
        )
        return [file_of(row) for row in typed(rows)]

    def text_of_file(self, file_id: str) -> str | None:
        """The text of the message that stands for a file, for when the file itself is lost."""
        if not self.schema.has("messages", "large_content"):
            return None
        rows = typed(
            self.db.rows(
                f"""SELECT {self.schema.select("messages", ("content",), "m")} FROM messages AS m
                WHERE m.large_content = ? ORDER BY m.message_id LIMIT 1""",
                (file_id,),
            )
        )
        return rows[0]["content"] if rows else None
