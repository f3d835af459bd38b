"""The rows that the engine writes for one message: the message, its parts, its token count.

Like the engine at 0.15: the text stands in ``messages.content``, again in the part and, unless the host sent
a plain string, a third time in the part's ``metadata.raw``; the token count is that of the JSON of the raw
array (docs/spec/format.md, "message_parts", and docs/spec/tokens.md, "What is counted").
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

from benchmarks.passages import Passage, Pool, quarters, tokens

TURN = ("user", "assistant", "tool", "assistant", "tool", "assistant")  #: roles, over and over
_WITH_CALL = (1, 3)  #: places in a turn where the assistant calls a tool
_SHARES = {"user": 0.12, "assistant": 0.52, "tool": 2.16}  #: length over the mean; one turn comes to its mean
_TOOLS = ("exec", "read", "grep", "edit")
_PROVIDER = '"modelProvider":"anthropic","modelApi":"anthropic-messages","modelId":"claude-opus-4-5",'

MESSAGE_SQL = """INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count,
    identity_hash, transcript_entry_id, created_at, stable_event_key) VALUES (?,?,?,?,?,?,?,?,?,?)"""
PART_SQL = """INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, text_content,
    tool_call_id, tool_name, tool_input, metadata) VALUES (?,?,?,?,?,?,?,?,?,?)"""

MessageRow = tuple[int, int, int, str, str, int, str, str, str, str | None]
PartRow = tuple[str, int, str, str, int, str | None, str | None, str | None, str | None, str]


@dataclass(slots=True)
class Session:
    """Where the messages of one conversation come from, and what its next one needs to know."""

    conversation_id: int
    session_id: str
    mean_length: float  #: characters of a message
    seq: int = 0
    call: tuple[str, str] = ("", "")  #: id and name of the newest tool call


class Rows:
    """Makes the rows of messages; the same seed makes the same rows."""

    def __init__(self, rng: random.Random, prose: Pool, output: Pool) -> None:
        self._rng = rng
        self._prose = prose
        self._output = output

    def message(self, session: Session, message_id: int, at: str) -> tuple[MessageRow, list[PartRow]]:
        """The next message of *session* and its parts."""
        place = session.seq % len(TURN)
        role = TURN[place]
        session.seq += 1
        length = self._rng.expovariate(1.0) * session.mean_length * _SHARES[role]
        passage = (self._output if role == "tool" else self._prose).passage(self._rng, length)
        if role == "user":
            weight, parts = passage.weight, [self._user_part(session, message_id, passage)]
        elif role == "tool":
            weight, parts = self._tool_part(session, message_id, passage)
        else:
            weight, parts = self._assistant_parts(session, message_id, passage, place in _WITH_CALL)
        stable = f"tool-result:{session.call[0]}" if role == "tool" else None
        digest = hashlib.sha256(f"{role}\0{passage.text}".encode()).hexdigest()
        entry = f"{message_id:08x}"
        row = (
            message_id, session.conversation_id, session.seq, role, passage.text,
            tokens(weight), digest, entry, at, stable,
        )  # fmt: skip
        return row, parts

    def part_id(self) -> str:
        """A random identifier in the form of a version 4 UUID."""
        text = f"{self._rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def _user_part(self, session: Session, message_id: int, passage: Passage) -> PartRow:
        return self._text_part(session, message_id, passage, '{"originalRole":"user"}')

    def _tool_part(self, session: Session, message_id: int, passage: Passage) -> tuple[int, list[PartRow]]:
        call, name = session.call
        raw, weight = _raw_text(passage)
        metadata = (
            f'{{"originalRole":"toolResult","toolCallId":"{call}","toolName":"{name}","isError":false,'
            f'"rawType":"text","raw":{raw}}}'
        )
        return weight, [self._text_part(session, message_id, passage, metadata, session.call)]

    def _assistant_parts(
        self, session: Session, message_id: int, passage: Passage, with_call: bool
    ) -> tuple[int, list[PartRow]]:
        raw, weight = _raw_text(passage)
        metadata = f'{{"originalRole":"assistant",{_PROVIDER}"rawType":"text","raw":{raw}}}'
        parts = [self._text_part(session, message_id, passage, metadata)]
        if with_call:
            session.call = (f"toolu_01{self._rng.getrandbits(88):022x}", self._rng.choice(_TOOLS))
            call, name = session.call
            arguments = f'{{"path":"src/part_{self._rng.randrange(4000)}.py"}}'
            raw = f'{{"type":"toolCall","id":"{call}","name":"{name}","arguments":{arguments}}}'
            weight += quarters(raw) + 1
            metadata = f'{{"originalRole":"assistant","rawType":"toolCall","raw":{raw}}}'
            owner = (self.part_id(), message_id, session.session_id)
            parts.append((*owner, "tool", 1, None, call, name, arguments, metadata))
        return weight, parts

    def _text_part(
        self,
        session: Session,
        message_id: int,
        passage: Passage,
        metadata: str,
        call: tuple[str | None, str | None] = (None, None),
    ) -> PartRow:
        return (
            self.part_id(), message_id, session.session_id, "text", 0, passage.text, *call, None, metadata,
        )  # fmt: skip


def _raw_text(passage: Passage) -> tuple[str, int]:
    """A text block as the host sent it, and the weight of an array that holds nothing else."""
    raw = f'{{"type":"text","text":"{passage.escaped}"}}'
    return raw, len(raw) - len(passage.escaped) + passage.escaped_weight + 2
