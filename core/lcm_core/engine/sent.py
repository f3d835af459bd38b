"""An assembly seen from its context, and written out for other programs and for people. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict, cast

from lcm_core.base.diff import Diff, compare_lines
from lcm_core.base.javascript import Json, JsonObject, stringify
from lcm_core.base.records import LargeFile
from lcm_core.base.text import counted, fenced
from lcm_core.base.values import Record
from lcm_core.engine import markers as gist
from lcm_core.engine.assembly import Assembled, AssemblyStep, Evicted, Metadata
from lcm_core.engine.messages import Block, BlockKind, Origin, OriginKind, Role, SentMessage
from lcm_core.engine.pairing import Repair
from lcm_core.engine.wrapper import BRIEF_END, SUMMARY_END

# -- the ledger ------------------------------------------------------------------------------------------
# What becomes of each item, and what all of them add up to.

#: A message among those that are sent: what it represents, its id, and which of several of the same it is.
#: Stable from one assembly to the next, and for items that of the list of items, too.
MessageKey = tuple[str, int | str, int]


class ItemOutcome(Record, frozen=True):
    """What becomes of one item of a context."""

    number: int | None  #: among the messages, from 1; None: it is not sent
    tokens: int  #: what it weighs as it is sent, or would be; 0 when that is not known
    step: AssemblyStep | None  #: in which it was left out; None: it is sent
    why: str  #: for people, when it is left out
    item: int | str | None = None  #: id of the message or summary; None: its row is gone, or was not read
    repairs: tuple[Repair, ...] = ()
    read: bool = True  #: False: it is so old that it cannot fit, and was not even read
    score: float | None = None  #: the share of its words that the prompt names; None: no prompt chose it
    unseen: bool = False  #: it is a message, and no summary that is sent covers it either
    pasted: tuple[LargeFile, ...] = ()  #: what a user pasted is in these, and a reference is sent

    @property
    def sent(self) -> bool:
        """Whether the model gets it."""
        return self.number is not None


class Ledger(Record, frozen=True):
    """An assembly, by item and by message."""

    assembled: Assembled
    fates: Mapping[int, ItemOutcome]  #: by ordinal, of the items that were read
    keys: tuple[MessageKey, ...]  #: of the messages, in order
    places: Mapping[MessageKey, int]  #: of the messages, from 0
    left_out: Mapping[AssemblyStep, int]  #: items (and a focus brief) that are not sent, by step

    def fate(self, ordinal: int, item: int | str | None) -> ItemOutcome | None:
        """What becomes of an item; None when the assembly is of a context in which it was not there."""
        found = self.fates.get(ordinal)
        if found is not None and found.item != item and found.step is not AssemblyStep.RESOLVE:
            return None
        unread = self.assembled.unread
        if found is None and unread is not None and unread.first_ordinal <= ordinal <= unread.last_ordinal:
            why = "so much older than what fits that it was not read"
            raw = isinstance(item, int)
            return ItemOutcome(None, 0, AssemblyStep.BUDGET, why, read=False, unseen=raw)
        return found

    def message(self, key: MessageKey) -> SentMessage | None:
        """A message by its key."""
        place = self.places.get(key)
        return None if place is None else self.assembled.messages[place]

    def repairs_of(self, message: SentMessage) -> tuple[Repair, ...]:
        """What was repaired at the item that a message represents."""
        ordinal = message.origin.ordinal
        if ordinal is None or message.origin.kind is not OriginKind.MESSAGE:
            return ()
        fate = self.fates.get(ordinal)
        return fate.repairs if fate else ()

    def pasted_in(self, message: SentMessage) -> tuple[LargeFile, ...]:
        """The files with what a user pasted, of which a message holds references."""
        if message.origin.kind is not OriginKind.MESSAGE or message.origin.ordinal is None:
            return ()
        return self.assembled.pasted.get(message.origin.ordinal, ())

    def key_at(self, ordinal: int) -> MessageKey | None:
        """The message that is sent for the item at an ordinal, else the next one behind it, else the last."""
        if not self.keys:
            return None
        for key, message in zip(self.keys, self.assembled.messages, strict=True):
            at = message.origin.ordinal
            if at is not None and at >= ordinal:
                return key
        return self.keys[-1]


def ledger_of(assembled: Assembled) -> Ledger:
    """The ledger of an assembly."""
    repairs: dict[int, list[Repair]] = {}
    for repair in assembled.repairs:
        if repair.origin.ordinal is not None:
            repairs.setdefault(repair.origin.ordinal, []).append(repair)
    # A focus brief is no item: it has the ordinal of the first summary that it covers.
    items = [
        one
        for one in assembled.evicted
        if one.origin is None or one.origin.kind is not OriginKind.FOCUS_BRIEF
    ]
    scores = assembled.prompt_scores
    unseen = assembled.unseen.tokens
    fates = {
        one.ordinal: _gone(
            one, repairs.get(one.ordinal, ()), scores.get(one.ordinal), unseen=one.ordinal in unseen
        )
        for one in items
    }
    for at, (message, weight) in enumerate(zip(assembled.messages, assembled.weights, strict=True), 1):
        origin = message.origin
        if origin.ordinal is not None and origin.kind in (OriginKind.MESSAGE, OriginKind.SUMMARY):
            item_repairs = tuple(repairs.get(origin.ordinal, ()))
            item = origin.summary_id or origin.message_id
            score = scores.get(origin.ordinal)
            pasted = assembled.pasted.get(origin.ordinal, ())
            fates[origin.ordinal] = ItemOutcome(
                at, weight, None, "", item, item_repairs, score=score, pasted=pasted
            )
    keys = tuple(message_keys(assembled.messages))
    places = {key: at for at, key in enumerate(keys)}
    left_out = Counter(one.step for one in assembled.evicted)
    if assembled.unread is not None:
        left_out[AssemblyStep.BUDGET] += assembled.unread.items
    return Ledger(assembled, fates, keys, places, left_out)


def message_keys(messages: Iterable[SentMessage]) -> Iterator[MessageKey]:
    """A key for each message: what it represents, and which of those that represent the same it is."""
    seen: Counter[tuple[str, int | str]] = Counter()
    for message in messages:
        name = _named(message, message.origin)
        yield (*name, seen[name])
        seen[name] += 1


def _named(message: SentMessage, origin: Origin) -> tuple[str, int | str]:
    match origin.kind:
        case OriginKind.MESSAGE:
            return "message", int(origin.message_id or 0)
        case OriginKind.SUMMARY:
            return "summary", str(origin.summary_id)
        case OriginKind.FOCUS_BRIEF:
            return "brief", str(origin.brief_id)
        case _:
            return str(origin.kind), message.call_id or ""


def _gone(one: Evicted, repairs: Sequence[Repair], score: float | None, *, unseen: bool) -> ItemOutcome:
    item = None if one.origin is None else one.origin.summary_id or one.origin.message_id
    return ItemOutcome(None, one.tokens, one.step, one.why, item, tuple(repairs), score=score, unseen=unseen)


# -- export ----------------------------------------------------------------------------------------------
# What is sent, as JSON that an API call takes, and as Markdown.

#: What the API takes in the id of a tool call; others are written with underscores.
_NOT_IN_AN_ID: Final = re.compile(r"[^A-Za-z0-9_-]")
#: Texts by another name, which that API does not take.
_TEXTS: Final = frozenset({"input_text", "output_text"})


def host_messages(assembled: Assembled) -> list[JsonObject]:
    """The messages in the form in which the engine hands them to its host."""
    return [message.document() for message in assembled.messages]


class ApiRequest(TypedDict):
    """A call of Anthropic's Messages API: ``client.messages.create(**request)``."""

    system: str
    messages: list[Any]  #: turns, each with ``role`` and a list of blocks as ``content``
    model: NotRequired[str]  #: this and the rest are for the caller to set
    max_tokens: NotRequired[int]
    tools: NotRequired[list[Any]]


def api_request(assembled: Assembled) -> ApiRequest:
    """``system`` and ``messages`` for a call of Anthropic's Messages API; the caller adds ``model``.

    Results of tools become blocks of the user; reasoning without a signature and OpenAI's own items, which
    that API refuses, are left out.
    """
    turns: list[tuple[str, list[JsonObject]]] = []
    for message in assembled.messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = list(_api_blocks(message))
        if not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    messages = [{"role": role, "content": blocks} for role, blocks in turns]
    return {"system": assembled.system.text, "messages": messages}


def request_text(assembled: Assembled) -> str:
    """`api_request` as JSON, laid out."""
    written = stringify(cast(JsonObject, api_request(assembled)))
    return json.dumps(json.loads(written), indent=2, ensure_ascii=False) + "\n"


def markdown(assembled: Assembled, title: str = "") -> str:
    """The messages for a reader: one section each, with where it came from and what it weighs."""
    lines = [f"# {title or 'What the model sees'}", ""]
    kept, budget = len(assembled.messages), assembled.budget
    size = f"{assembled.sent_tokens:,} of {budget:,} tokens"
    lines.append(f"{counted(kept, 'message')}, {size}, rules {assembled.rules}.")
    for number, (message, tokens) in enumerate(zip(assembled.messages, assembled.weights, strict=True), 1):
        lines += ["", f"## {number}. {message.role.word} · {message.origin.name} · {tokens:,} tokens", ""]
        lines += _markdown_body(message)
    if assembled.evicted:
        lines += ["", "## Not sent", ""]
        lines += [f"- ordinal {one.ordinal}: {one.step}, {one.why}" for one in assembled.evicted]
    if assembled.unread is not None:
        unread = assembled.unread
        lines.append(f"- ordinals {unread.first_ordinal} to {unread.last_ordinal}: budget, not read")
    return "\n".join(lines) + "\n"


def spoken(message: SentMessage) -> str:
    """What a message says without its wrapper, and the tools that it calls, on one line or more."""
    if message.origin.kind in (OriginKind.SUMMARY, OriginKind.FOCUS_BRIEF):
        said = message.text.partition("<content>\n")[2]
        return said.removesuffix(SUMMARY_END).removesuffix(BRIEF_END)
    if isinstance(message.content, str):
        return message.content
    words = [
        f"{block.tool_name}({block.text})" if block.kind is BlockKind.TOOL_CALL else block.text
        for block in message.content
        if block.text or block.kind is BlockKind.TOOL_CALL
    ]
    return " ".join(words)


def beginning(message: SentMessage) -> str:
    """What tells a message from others in a list: of a summary or brief, what its element holds."""
    said = spoken(message)
    if message.origin.kind not in (OriginKind.SUMMARY, OriginKind.FOCUS_BRIEF):
        return said
    return gist.beginning(said)


# -- the API ---------------------------------------------------------------------------------------------


def _api_blocks(message: SentMessage) -> Iterator[JsonObject]:
    if message.role is Role.TOOL_RESULT:
        found: list[Json] = [one for block in message.blocks if (one := _api_block(block)) is not None]
        result: dict[str, Json] = {
            "type": "tool_result",
            "tool_use_id": _api_id(message.call_id),
            "content": found or message.text,
        }
        if message.is_error:
            result["is_error"] = True
        yield result
    elif isinstance(message.content, str):
        if message.content.strip():
            yield {"type": "text", "text": message.content}
    else:
        for block in message.content:
            if (one := _api_block(block)) is not None:
                yield one


def _api_block(block: Block) -> JsonObject | None:
    document = block.document if isinstance(block.document, Mapping) else {}
    match block.kind:
        case BlockKind.TEXT:
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case BlockKind.TOOL_CALL:
            given = next((document[key] for key in ("arguments", "input", "args") if key in document), None)
            arguments = given if isinstance(given, Mapping) else {}
            return {
                "type": "tool_use",
                "id": _api_id(block.call_id),
                "name": block.tool_name or "unknown",
                "input": arguments,
            }
        case BlockKind.REASONING:
            signature = document.get("thinkingSignature") or document.get("signature")
            if document.get("type") != "thinking" or not isinstance(signature, str) or signature[:1] == "{":
                return None
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case BlockKind.IMAGE:
            return _api_image(document)
        case _ if document.get("type") in _TEXTS or (block.kind is BlockKind.TOOL_RESULT and block.text):
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case _:
            return {"type": "text", "text": stringify(block.document)}


def _api_image(document: JsonObject) -> JsonObject:
    data, mime = document.get("data"), document.get("mimeType") or document.get("mime_type")
    if isinstance(data, str) and isinstance(mime, str):
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
    return document


def _api_id(call_id: str | None) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id or "")


# -- Markdown --------------------------------------------------------------------------------------------


def _markdown_body(message: SentMessage) -> Iterator[str]:
    if isinstance(message.content, str):
        yield from fenced(message.content)
        return
    if message.role is Role.TOOL_RESULT:
        failed = ", an error" if message.is_error else ""
        tool = f" ({message.tool_name})" if message.tool_name else ""
        yield f"Result of `{message.call_id}`{tool}{failed}:"
        yield ""
    for at, block in enumerate(message.content):
        if at:
            yield ""
        if block.kind is BlockKind.TEXT:
            yield from fenced(block.text)
            continue
        name = f" `{block.tool_name}` `{block.call_id}`" if block.kind is BlockKind.TOOL_CALL else ""
        yield f"{block.kind}{name}:"
        yield ""
        yield from fenced(block.text or stringify(block.document))


# -- two contexts compared -------------------------------------------------------------------------------

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
