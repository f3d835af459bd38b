"""Messages as they are sent to the model, and where each of them came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from lcm_core.assemble.js import stringify
from lcm_core.frozen import dataclass
from lcm_core.javascript import Json, JsonObject
from lcm_core.records import MessageId, SummaryId


class Role(StrEnum):
    """Who speaks, in the words of the host."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "toolResult"


class BlockKind(StrEnum):
    """What a block of content is to the assembler."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool call"
    IMAGE = "image"
    FILE = "file"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a message's content."""

    kind: BlockKind
    document: JsonObject  #: as it is sent
    text: str = ""  #: what it says, for reading and for choosing by the prompt
    call_id: str | None = None  #: of a tool call
    tool_name: str | None = None


#: By a name of its own: to look up the member of an enum takes as long as all else that is asked of a block.
_TOOL_CALL: Final = BlockKind.TOOL_CALL

Content: TypeAlias = "str | tuple[Block, ...]"


class OriginKind(StrEnum):
    """What a sent message stands for."""

    MESSAGE = "message"
    SUMMARY = "summary"
    FOCUS_BRIEF = "focus brief"
    SYNTHETIC = "synthetic"  #: made here: the error result of a tool call that has none
    LIVE = "live"  #: from the host's own list of messages


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a sent message comes from."""

    kind: OriginKind
    ordinal: int | None = None  #: of the context item
    message_id: MessageId | None = None
    summary_id: SummaryId | None = None
    brief_id: str | None = None
    depth: int | None = None  #: of a summary
    stored_tokens: int | None = None  #: what the row says it weighs


@dataclass(frozen=True, slots=True)
class Identity:
    """The model that wrote an assistant message; recorded since 0.15.2."""

    provider: str | None
    api: str | None
    model: str | None

    def document(self) -> JsonObject:
        """The fields that are recorded."""
        fields: Mapping[str, Json] = {"provider": self.provider, "api": self.api, "model": self.model}
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message as the model gets it."""

    role: Role
    content: Content
    origin: Origin
    tokens: int = 0  #: as the assembler counts it, before it was mended
    call_id: str | None = None  #: of a tool result
    tool_name: str | None = None  #: of a tool result
    is_error: bool | None = None  #: of a tool result; None: not said
    identity: Identity | None = None  #: of an assistant message
    failed: bool = False  #: an assistant's turn that ended in an error or was aborted
    given: JsonObject | None = field(default=None, repr=False)  #: as the host holds it; sent as it is
    #: What the JSON of its blocks weighs, in quarters of a token, once it was counted; None: not counted, or
    #: a payload may stand in it.
    quarters: int | None = field(default=None, compare=False, repr=False)

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
        content: Json = self.content if isinstance(self.content, str) else [b.document for b in self.content]
        return {"role": str(self.role), "content": content, **self.around()}

    def around(self) -> JsonObject:
        """The fields of the document beside role and content."""
        found: dict[str, Json] = {}
        if self.role is Role.TOOL_RESULT:
            found["toolCallId"] = self.call_id or ""
            if self.tool_name is not None:
                found["toolName"] = self.tool_name
            if self.is_error is not None:
                found["isError"] = self.is_error
        elif self.role is Role.ASSISTANT and self.origin.kind is not OriginKind.LIVE:
            if self.identity is not None:
                found |= self.identity.document()
            found["usage"] = usage(self.tokens)
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


def content_text(content: Content) -> str:
    """The text by which a content is counted: itself, or the JSON of its blocks."""
    if isinstance(content, str):
        return content
    return stringify([block.document for block in content])
