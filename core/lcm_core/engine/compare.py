"""What is different between two contexts as they were sent: message by message, line by line. Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from lcm_core.base.diff import Diff, compare_lines
from lcm_core.base.javascript import stringify
from lcm_core.base.values import Record
from lcm_core.engine.assembly import Assembled, Metadata
from lcm_core.engine.messages import BlockKind, OriginKind, SentMessage
from lcm_core.engine.sent import MessageKey, message_keys

#: JSON longer than this is compared as one line.
_PRETTY: Final = 200_000


class SnapshotOrigin(Record, frozen=True):
    """How a side of a comparison came from a snapshot."""

    snapshot_id: str
    created_at: str  #: as stored
    exact: bool  #: its messages are those that were sent then
    gone: int  #: messages whose rows are gone
    not_kept: int  #: messages of the host's own list


class SentContext(Record, frozen=True):
    """One side of a comparison: assembled now, or what is left of a snapshot."""

    messages: tuple[SentMessage, ...]
    budget: int
    sent_tokens: int
    evicted_items: int
    rules: str
    messages_hash: str
    metadata: Metadata | None = None  #: None: it is a snapshot
    taken: SnapshotOrigin | None = None  #: None: it was assembled

    @property
    def stored_tokens(self) -> int:
        """What the rows of the messages say they weigh."""
        return sum(one.origin.stored_tokens or 0 for one in self.messages)


def sent_now(one: Assembled) -> SentContext:
    """An assembly as one side of a comparison."""
    return SentContext(
        one.messages,
        one.budget,
        one.sent_tokens,
        one.evicted_items,
        one.rules,
        one.messages_hash,
        one.metadata,
    )


class MessageLines(Record, frozen=True):
    """Messages as lines of text."""

    lines: tuple[str, ...]
    starts: tuple[int, ...]  #: the line with which each message begins; it names the message
    keys: tuple[MessageKey, ...]  #: of the messages

    def heading_at(self, line: int) -> str:
        """The line that names the message to which a line belongs."""
        at = bisect_right(self.starts, line) - 1
        return self.lines[self.starts[at]] if at >= 0 else ""


class ContextDiff(Record, frozen=True):
    """Two contexts and how to get from one to the other."""

    old: SentContext
    new: SentContext
    old_text: MessageLines
    new_text: MessageLines
    diff: Diff  #: of the lines
    only_old: tuple[MessageKey, ...]  #: messages that the new one has not, in order
    only_new: tuple[MessageKey, ...]
    changed: tuple[MessageKey, ...]  #: messages that both have, and that say something else
    same: int  #: messages that are alike


def compare_contexts(old: SentContext, new: SentContext) -> ContextDiff:
    """Compare what two contexts send."""
    left, right = write_lines(old.messages), write_lines(new.messages)
    held = dict(zip(left.keys, old.messages, strict=True))
    coming = dict(zip(right.keys, new.messages, strict=True))
    both = [key for key in left.keys if key in coming]
    changed = tuple(key for key in both if _unlike(held[key], coming[key]))
    return ContextDiff(
        old,
        new,
        left,
        right,
        compare_lines(left.lines, right.lines),
        tuple(key for key in left.keys if key not in coming),
        tuple(key for key in right.keys if key not in held),
        changed,
        len(both) - len(changed),
    )


def _unlike(one: SentMessage, other: SentMessage) -> bool:
    return (one.role, one.content, one.call_id) != (other.role, other.content, other.call_id)


def write_lines(messages: Sequence[SentMessage]) -> MessageLines:
    """Messages as text: a line that names each message, then what it says, then a blank line."""
    lines: list[str] = []
    starts: list[int] = []
    for message in messages:
        starts.append(len(lines))
        lines += (_heading_of(message), *_lines_of(message), "")
    return MessageLines(tuple(lines), tuple(starts), tuple(message_keys(messages)))


def _heading_of(message: SentMessage) -> str:
    """The line that names a message: the same for the same message of any assembly."""
    stored = message.origin.kind not in (OriginKind.SYNTHETIC, OriginKind.LIVE)
    call_id = "" if stored else f" {message.call_id or ''}".rstrip()
    return f"== {message.role.word} · {message.origin.name}{call_id}"


def _lines_of(message: SentMessage) -> Iterator[str]:
    if isinstance(message.content, str):
        yield from message.content.split("\n")
        return
    if message.call_id is not None:
        yield f"-- result of {message.tool_name or 'a tool'} {message.call_id}"
    for block in message.content:
        if block.kind is BlockKind.TEXT:
            yield from block.text.split("\n")
            continue
        yield " ".join(word for word in (f"-- {block.kind}", block.tool_name, block.call_id) if word)
        written = stringify(block.document)
        if len(written) > _PRETTY:
            yield written
        else:
            yield from json.dumps(json.loads(written), indent=2, ensure_ascii=False).split("\n")


def names_of(keys: Sequence[MessageKey]) -> tuple[str, ...]:
    """Keys as a person names them."""
    return tuple(f"message {key[1]}" if key[0] == "message" else str(key[1] or key[0]) for key in keys)
