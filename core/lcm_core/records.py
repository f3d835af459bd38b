"""The rows of an LCM database as frozen values.

Every record names the table it comes from. A field is None when the row holds NULL or when this version
of the schema does not record it; `Schema.has` distinguishes the two. Token counts are the stored estimates
of the engine. Text is kept as stored (invalid UTF-8 as surrogate escapes): make it safe before showing it.
"""

from __future__ import annotations

from typing import Final, NewType

from lcm_core.frozen import dataclass

ConversationId = NewType("ConversationId", int)
MessageId = NewType("MessageId", int)
SummaryId = NewType("SummaryId", str)
FileId = NewType("FileId", str)

#: A stored time in either of the engine's two formats (docs/format.md, "Times"); `times.parse_utc` reads it.
Timestamp = NewType("Timestamp", str)

#: Characters of a title that a name has: a title may be of any length.
LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session of an agent as the engine knows it. Source: table ``conversations``."""

    conversation_id: ConversationId
    session_id: str
    session_key: str | None  #: ``agent:<agent>:<lane>...``; recorded since 0.4.0
    active: bool | None  #: recorded since 0.6.0
    archived_at: Timestamp | None
    archive_cause: str | None  #: free text such as ``manual-reset``; recorded since 0.14.0
    title: str | None
    bootstrapped_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp

    @property
    def agent(self) -> str | None:
        """The agent's name, when the session key is of the form ``agent:<agent>:...``."""
        parts = (self.session_key or "").split(":")
        return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None

    @property
    def lane(self) -> str:
        """What distinguishes the session for a person: the rest of its key, else its id."""
        parts = (self.session_key or "").split(":", 2)
        if len(parts) == 3 and parts[0] == "agent":
            return parts[2]
        return self.session_key or self.session_id

    @property
    def channel(self) -> str:
        """Agent and lane as the session key has them; empty without a key."""
        if not self.session_key:
            return ""
        return self.lane if self.agent in (None, self.lane) else f"{self.agent} {self.lane}"

    @property
    def name(self) -> str:
        """What a person tells it by, on every screen and in every table: title, else agent and channel.

        Without either it is the session's id; a list that has read the first words of the user shows them.
        """
        return self.told_title or self.channel or self.session_id

    @property
    def told_title(self) -> str:
        """The title as a name: without blanks around it, and no more of it than a line has."""
        return (self.title or "").strip()[:LONGEST_TITLE]

    @property
    def called(self) -> str:
        """Number and name, as in titles: ``3  Why the nightly export fails``."""
        return f"{self.conversation_id}  {self.name}"


@dataclass(frozen=True, slots=True)
class Message:
    """One stored message. Source: table ``messages``."""

    message_id: MessageId
    conversation_id: ConversationId
    seq: int  #: the engine starts at 1 (docs/format.md, "Numbering"); gaps are legitimate
    role: str  #: system, user, assistant or tool
    content: str  #: extracted text; may be empty when the parts hold everything
    tokens: int  #: stored estimate (docs/engine/tokens.md, "What is counted")
    created_at: Timestamp
    large_content: str | None  #: the id of the file that holds the payload; recorded since 0.10.0
    sender: str | None  #: JSON of the sender; recorded since 0.15.2


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One block of a message. Source: table ``message_parts``; only the columns the engine writes."""

    message_id: MessageId
    ordinal: int
    part_type: str
    text: str | None
    tool_call_id: str | None
    tool_name: str | None
    tool_status: str | None
    tool_input: str | None
    tool_output: str | None
    tool_error: str | None
    file_name: str | None
    file_mime: str | None
    file_url: str | None
    metadata: str | None  #: JSON; ``raw`` holds the block as the host sent it
    part_id: str = ""  #: of which the engine makes the id of a tool call that has none


@dataclass(frozen=True, slots=True)
class Summary:
    """A node of the summary DAG without its text. Source: table ``summaries``."""

    summary_id: SummaryId
    conversation_id: ConversationId
    kind: str  #: leaf or condensed
    depth: int  #: 0 for a leaf, 1 + depth of the sources for a condensed summary
    tokens: int  #: stored estimate of the content
    earliest_at: Timestamp | None  #: coverage; recorded since 0.1.2
    latest_at: Timestamp | None
    descendant_count: int | None  #: below it, repeats counted (docs/format.md, "Numbers beside a summary")
    descendant_tokens: int | None  #: recorded since 0.3.0
    source_message_tokens: int | None  #: recorded since 0.3.0
    created_at: Timestamp
    file_ids: str  #: JSON array of strings, as stored
    model: str | None  #: recorded since 0.5.0


@dataclass(frozen=True, slots=True)
class SummaryText:
    """What a summary says. Source: ``summaries.content``."""

    summary: Summary
    content: str


@dataclass(frozen=True, slots=True)
class Edge:
    """One line of the DAG. Source: table ``summary_parents``."""

    consumer: SummaryId  #: ``summary_parents.summary_id``: the node that was made
    source: SummaryId  #: ``summary_parents.parent_summary_id``: what it was made from
    ordinal: int  #: place among the consumer's sources, from 0


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One entry of what the model sees, in order. Source: table ``context_items``."""

    ordinal: int  #: from 0; gaps are legitimate after a host prune
    item_type: str  #: message or summary
    message_id: MessageId | None
    summary_id: SummaryId | None
    created_at: Timestamp


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A payload that the engine took out of a message. Source: table ``large_files``."""

    file_id: FileId
    conversation_id: ConversationId
    file_name: str | None
    mime_type: str | None
    byte_size: int | None
    line_count: int | None  #: recorded since 0.14.0
    storage_uri: str  #: absolute path on the host that wrote it
    exploration_summary: str | None
    created_at: Timestamp


@dataclass(frozen=True, slots=True)
class FocusBrief:
    """A text that replaces the summaries it covers. Source: table ``focus_briefs`` (since 0.11.0)."""

    brief_id: str
    conversation_id: ConversationId
    prompt: str
    content: str
    status: str  #: draft, active, superseded, failed or inactive
    tokens: int
    target_tokens: int
    covered_latest_at: Timestamp | None
    covered_message_seq: int | None
    generator_run_id: str | None
    generator_session_key: str | None
    created_at: Timestamp
    updated_at: Timestamp
    source_context_hash: str = ""  #: of the summaries that it was made from (`lcm_core.dag.focus`)
    error: str | None = None  #: why a failed one has no text
    superseded_at: Timestamp | None = None
