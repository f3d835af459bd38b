"""Messages as they are sent to the model, and where each of them came from."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from lcm_core.base.javascript import Json, JsonObject, stringify
from lcm_core.base.records import MessageId, SummaryId
from lcm_core.base.values import Record, replace


class Role(StrEnum):
    """Who speaks, in the words of the host."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "toolResult"

    @property
    def word(self) -> str:
        """The word for people, which is the one of the database; JSON has the host's."""
        return "tool" if self is Role.TOOL_RESULT else str(self)


class BlockKind(StrEnum):
    """What a block of content is to the assembler."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool call"
    TOOL_RESULT = "tool result"
    IMAGE = "image"
    FILE = "file"
    OTHER = "other"


#: By a name of its own: to look up the member of an enum takes as long as all else that is asked of a block.
_TOOL_CALL: Final = BlockKind.TOOL_CALL


class Block(Record, frozen=True):
    """One block of a message's content."""

    kind: BlockKind
    document: Json  #: as it is sent: an object, or what else a host (or 0.1) put into the list
    says: str = ""  #: for reading; of a call nothing (see `text`)
    call_id: str | None = None  #: of a tool call
    tool_name: str | None = None

    @property
    def text(self) -> str:
        """What it says, for reading; of a tool call what the tool is called with, as JSON."""
        if self.kind is not _TOOL_CALL or not isinstance(self.document, dict):
            return self.says
        given = self.document.get("arguments")
        return stringify(self.document.get("input") if given is None else given)


Content: TypeAlias = "str | tuple[Block, ...]"

#: The members of a result that the engine makes up, as it writes them.
_ORDER_WHEN_MADE_UP: Final = ("role", "toolCallId", "toolName", "content", "isError")


class OriginKind(StrEnum):
    """What a sent message represents."""

    MESSAGE = "message"
    SUMMARY = "summary"
    FOCUS_BRIEF = "focus brief"
    SYNTHETIC = "synthetic"  #: made here: the error result of a tool call that has none
    LIVE = "live"  #: from the host's own list of messages
    CUE = "recall cue"  #: what history says of identifiers in the prompt


class Origin(Record, frozen=True):
    """Where a sent message comes from."""

    kind: OriginKind
    ordinal: int | None = None  #: of the context item
    message_id: MessageId | None = None
    summary_id: SummaryId | None = None
    brief_id: str | None = None
    depth: int | None = None  #: of a summary
    stored_tokens: int | None = None  #: what the row says it weighs

    @property
    def name(self) -> str:
        """For people: of a message, a summary or a brief always the same; else what kind of message it is."""
        match self.kind:
            case OriginKind.MESSAGE:
                return f"message {self.message_id}"
            case OriginKind.SUMMARY:
                return f"{self.summary_id} d{self.depth}"
            case OriginKind.FOCUS_BRIEF:
                return str(self.brief_id)
            case _:
                return str(self.kind)


class Identity(Record, frozen=True):
    """The model that wrote an assistant message; recorded since 0.15.2."""

    provider: str
    api: str
    model: str
    response_model: str | None = None  #: as the provider named it in its answer

    def document(self) -> JsonObject:
        """The fields of a message that say it."""
        fields: dict[str, Json] = {"provider": self.provider, "api": self.api, "model": self.model}
        if self.response_model is not None:
            fields["responseModel"] = self.response_model
        return fields


class SentMessage(Record, frozen=True):
    """One message as the model gets it."""

    role: Role
    content: Content
    origin: Origin
    tokens: int = 0  #: as the assembler counts it, before it was repaired
    call_id: str | None = None  #: of a tool result
    tool_name: str | None = None  #: of a tool result
    is_error: bool | None = None  #: of a tool result; None: not said
    identity: Identity | None = None  #: of an assistant message
    reasoning: str | None = None  #: of an assistant message: what its provider keeps beside the content
    sender: JsonObject | None = None  #: of a user's message: who in a group said it
    given: JsonObject | None = None  #: as the host holds it; sent as it is
    #: What the JSON of its blocks weighs, in quarters of a token, once it was counted; None: not counted, or
    #: a payload may be in it.
    quarters: int | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the content; none when it is a plain text."""
        return () if isinstance(self.content, str) else self.content

    @property
    def calls(self) -> tuple[Block, ...]:
        """The tool calls that name an id."""
        if self.role is not Role.ASSISTANT or isinstance(self.content, str):
            return ()
        return tuple([one for one in self.content if one.kind is _TOOL_CALL and one.call_id])

    @property
    def text(self) -> str:
        """What the message says, without markup of blocks."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(block.text for block in self.content if block.text)

    def with_content(self, content: Content) -> SentMessage:
        """The same message with other content; what the assembler counted stays."""
        return replace(self, content=content, quarters=None, given=None)

    def document(self) -> JsonObject:
        """The message as JSON, in the form that the host takes."""
        if self.given is not None:
            return self.given
        found = {"role": str(self.role), "content": content_document(self.content), **self.around()}
        if self.origin.kind is OriginKind.SYNTHETIC:
            return {name: found[name] for name in _ORDER_WHEN_MADE_UP}
        return found

    def around(self) -> JsonObject:
        """The fields of the document beside role and content."""
        found: dict[str, Json] = {}
        if self.role is Role.TOOL_RESULT:
            found["toolCallId"] = self.call_id or ""
            if self.tool_name is not None:
                found["toolName"] = self.tool_name
            if self.is_error is not None:
                found["isError"] = self.is_error
        elif self.role is Role.ASSISTANT and self.origin.kind is OriginKind.MESSAGE:
            if self.identity is not None:
                found |= self.identity.document()
            if self.reasoning is not None:
                found["reasoning_content"] = self.reasoning
            found["usage"] = usage(self.tokens)
        elif self.sender is not None:
            found["__openclaw"] = self.sender
        return found


def usage(tokens: int) -> JsonObject:
    """The account that the engine adds to an assistant message: nothing but an output of *tokens*."""
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {
        "input": 0,
        "output": tokens,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": tokens,
        "cost": cost,
    }


def content_document(content: Content) -> Json:
    """A content as JSON: the text, or the list of its blocks."""
    return content if isinstance(content, str) else [block.document for block in content]


def counted_content(content: Content) -> str:
    """The text by which a content is counted: itself, or the JSON of its blocks."""
    return content if isinstance(content, str) else stringify(content_document(content))
