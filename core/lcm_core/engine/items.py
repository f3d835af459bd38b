"""Context items as they are read, what each becomes and weighs as sent, and which of them fit the budget.

docs/spec/assembly.md.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import tzinfo
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

from lcm_core.base.javascript import Json, stringify
from lcm_core.base.records import LargeFile, Message, MessageId, MessagePart, SummaryId, SummaryText
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import Estimator, as_engine_read, estimate, has_surrogates, quarters, utf16_length
from lcm_core.base.values import Record, field, replace
from lcm_core.engine.blocks import UNKNOWN_TOOL, RebuiltMessage, is_void, rebuild, text_block
from lcm_core.engine.messages import (
    BlockKind,
    Content,
    Identity,
    Origin,
    OriginKind,
    Role,
    SentMessage,
    counted_content,
)
from lcm_core.engine.pairing import Repair, is_blank, pair_tools
from lcm_core.engine.rules import AssemblyRules, ClampRules, EngineRules, fresh_tail
from lcm_core.engine.wrapper import FocusOverlay, wrap_summary

# -- what whole messages weigh as sent -------------------------------------------------------------------
# Step 7 of assembly (docs/spec/assembly.md, "The final clamp").

#: What a payload that is no text counts beside the words that replace it.
OPAQUE_TOKENS: Final = 1_600
_OPAQUE: Final = "[opaque binary payload]"
_OPAQUE_KEYS: Final = frozenset({"data", "image", "imageData", "image_data", "base64", "bytes", "source"})
_OPAQUE_LENGTH: Final = 4_096  #: UTF-16 units
_SAMPLE: Final = 512  #: likewise
_RESULT_OVERHEAD: Final = 12  #: tokens of a tool's result beside content and name
_BLOCK_OVERHEAD: Final = 6  #: tokens of a block in it beside what it says
_SENDER: Final = "__openclaw"
_BASE64: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=\r\n]+")


def clamp_tokens(message: SentMessage, rules: AssemblyRules) -> int:
    """What a message weighs for the last cut: the whole as JSON, or a tool's result by its own measure."""
    weighed = message if rules.counts_senders else _without_sender(message)
    whole = serialized_tokens(weighed, rules.estimator)
    if not rules.weighs_results or not _is_result(message):
        return whole
    return max(whole, _result_tokens(message, rules.estimator))


def _without_sender(message: SentMessage) -> SentMessage:
    """A message without what a host keeps of its own beside the content."""
    if message.given is not None and _SENDER in message.given:
        left = {name: value for name, value in message.given.items() if name != _SENDER}
        return replace(message, given=left)
    return message if message.sender is None else replace(message, sender=None)


def _is_result(message: SentMessage) -> bool:
    by_type = message.given is not None and message.given.get("type") == Role.TOOL_RESULT
    return by_type or message.role is Role.TOOL_RESULT


def _result_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A tool's result by the measure of the 1.x line: twice its content, its name, and a fifth more."""
    document = message.document()
    content, name = document.get("content"), document.get("toolName", document.get("tool_name"))
    if isinstance(content, str):
        tokens = 2 * estimate(content, estimator)
    elif isinstance(content, Sequence):
        tokens = sum(_block_tokens(block, estimator) for block in content)
    else:
        tokens = 2 * estimate(stringify(content), estimator)
    named = 0 if name is None else -(-4 * estimate(stringify(name), estimator) // 3)
    return math.ceil(1.2 * (_RESULT_OVERHEAD + tokens + named))


def _block_tokens(block: Json, estimator: Estimator) -> int:
    if isinstance(block, str):
        return 2 * estimate(block, estimator)
    says = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return _BLOCK_OVERHEAD + 2 * estimate(says if isinstance(says, str) else stringify(block), estimator)


def serialized_tokens(message: SentMessage, estimator: Estimator) -> int:
    """A whole message as JSON in tokens; payloads that are no text count a fixed amount each."""
    if message.quarters is not None and (around := _around(message, estimator)) is not None:
        return -(-(message.quarters + around) // 4)
    document = message.document()
    text = stringify(document)
    if not _may_hold_payload(text):
        return estimate(text, estimator)
    bare, payloads = _without_payloads(document)
    return estimate(stringify(bare) if payloads else text, estimator) + OPAQUE_TOKENS * payloads


def content_quarters(content: Content, estimator: Estimator) -> tuple[int, bool]:
    """What a content weighs in quarters of a token, and whether that is its part in the whole message, too.

    It is not where a text is written otherwise there, or a payload that is no text counts otherwise.
    """
    if isinstance(content, str):
        return quarters(content, estimator), False
    documents = [block.document for block in content]
    text = stringify(documents)
    payloads = _without_payloads(documents)[1] if _may_hold_payload(text) else 0
    return quarters(text, estimator), bool(text) and not payloads


def _may_hold_payload(text: str) -> bool:
    """Whether there is room in it for a payload that is no text."""
    return len(text) >= _OPAQUE_LENGTH // 2  # as many characters may be twice as many units


def _around(message: SentMessage, estimator: Estimator) -> int | None:
    """What a message weighs beside its content, in quarters; None when a payload may be there."""
    plain = message.reasoning is None and message.origin.kind is not OriginKind.LIVE
    if message.role is Role.ASSISTANT and plain:
        return _around_answer(message.identity, len(str(message.tokens)), estimator)
    text = stringify({"role": str(message.role), "content": [], **message.around()})
    return None if _may_hold_payload(text) else quarters(text, estimator) - len("[]")


@lru_cache(maxsize=256)
def _around_answer(identity: Identity | None, digits: int, estimator: Estimator) -> int | None:
    """The same of an answer of the assistant whose account has numbers of so many *digits*."""
    one = SentMessage(Role.ASSISTANT, (), Origin(OriginKind.MESSAGE), 10 ** (digits - 1), identity=identity)
    text = stringify(one.document())
    return None if _may_hold_payload(text) else quarters(text, estimator) - len("[]")


def _without_payloads(value: Json) -> tuple[Json, int]:
    """A value with a mark for each payload, and how many there are; none in what nests too deep to look."""
    found: list[None] = []
    try:
        return _marked(value, "", found), len(found)
    except RecursionError:
        return value, 0


def _marked(value: Json, key: str, found: list[None]) -> Json:
    if isinstance(value, str):
        if not _is_opaque(value, key):
            return value
        found.append(None)
        return _OPAQUE
    if isinstance(value, Mapping):
        return {name: _marked(inner, name, found) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_marked(inner, "", found) for inner in value]
    return value


def _is_opaque(text: str, key: str) -> bool:
    """Whether a text under a key of an object is a payload that is no text."""
    if not text.startswith("data:") and key not in _OPAQUE_KEYS:
        return False
    long = len(text) >= _OPAQUE_LENGTH or (
        len(text) >= _OPAQUE_LENGTH // 2 and utf16_length(text) >= _OPAQUE_LENGTH
    )
    return long and (text.startswith("data:") or _BASE64.fullmatch(text[:_SAMPLE]) is not None)


# -- the last cut ----------------------------------------------------------------------------------------


class CutReason(StrEnum):
    """Why the last cut takes a message away."""

    OLD = "too old"  #: the newest ones fill what is left of the budget
    RESULT_FIRST = "a result first"
    ORPHANED_TURN = "an orphaned turn"  #: a tool exchange before the first user, and what belongs to it
    UNPAIRED = "an unpaired result"
    ANSWER_LAST = "an answer last"


class Clamped(Record, frozen=True):
    """What the last cut leaves of a list of messages."""

    messages: tuple[SentMessage, ...]
    cut: Mapping[int, CutReason]  #: the others, by place
    repairs: tuple[Repair, ...] = ()  #: of what is left


def clamp(
    messages: Sequence[SentMessage],
    weights: Sequence[int],
    budget: int,
    rules: ClampRules,
    *,
    host_delivers_turn: bool = False,
) -> Clamped:
    """What is left when the whole is too much (docs/spec/assembly.md, "The final clamp").

    *host_delivers_turn*: the host hands the prompt over by itself, so that the list may end with the
    assistant.
    """
    goal = math.floor(budget * rules.share)
    cut: dict[int, CutReason] = {}
    kept = list(range(len(messages)))
    if rules.keeps_turns:
        kept = _without_orphans(messages, kept)
        cut.update(dict.fromkeys(set(range(len(messages))).difference(kept), CutReason.ORPHANED_TURN))
    if sum(weights[at] for at in kept) <= rules.limit(budget):
        return Clamped(tuple([messages[at] for at in kept]), cut)
    first = _newest_within([weights[at] for at in kept], max(1, goal))
    chosen = _with_turns(messages, kept, first) if rules.keeps_turns else _with_user(messages, first, cut)
    ends = _end(messages, chosen, host_delivers_turn=host_delivers_turn)
    cut.update(dict.fromkeys(set(kept).difference(chosen, cut), CutReason.OLD))
    cut.update(dict.fromkeys(chosen[ends:], CutReason.ANSWER_LAST))
    if rules.keeps_turns:
        return _paired(messages, chosen[:ends], cut)
    return Clamped(tuple([messages[at] for at in chosen[:ends]]), cut)


def _newest_within(weights: Sequence[int], goal: int) -> int:
    """The place of the oldest of the newest messages that weigh no more than *goal*; the newest always."""
    first = len(weights) - 1
    spent = weights[first]
    while first > 0 and spent + weights[first - 1] <= goal:
        first -= 1
        spent += weights[first]
    return first


def _with_user(messages: Sequence[SentMessage], first: int, cut: dict[int, CutReason]) -> list[int]:
    """The places from *first* on without results at their head, behind a user's message."""
    begin = first
    while begin < len(messages) - 1 and messages[begin].role is Role.TOOL_RESULT:
        cut[begin] = CutReason.RESULT_FIRST
        begin += 1
    chosen = list(range(begin, len(messages)))
    if not any(_is_user(messages[at]) for at in chosen):
        chosen[:0] = _user_before(messages, range(begin))
    return chosen


def _end(messages: Sequence[SentMessage], chosen: Sequence[int], *, host_delivers_turn: bool) -> int:
    """How many of the chosen places are left when answers at the end go."""
    ends = len(chosen)
    while ends and _goes_at_the_end(messages[chosen[ends - 1]], host_delivers_turn=host_delivers_turn):
        ends -= 1
    return ends if ends or host_delivers_turn else len(chosen)


def _goes_at_the_end(message: SentMessage, *, host_delivers_turn: bool) -> bool:
    if message.role is not Role.ASSISTANT:
        return False
    if not host_delivers_turn:
        return True
    if isinstance(message.content, str):
        return not message.content.strip(BLANKS)
    return all(block.kind is BlockKind.REASONING or is_blank(block) for block in message.content)


def _user_before(messages: Sequence[SentMessage], places: Sequence[int]) -> list[int]:
    """The last of some places that has a user's message; none where there is none."""
    return [at for at in places if _is_user(messages[at])][-1:]


def _is_user(message: SentMessage) -> bool:
    return _role(message) == Role.USER


def _role(message: SentMessage) -> str:
    """The role in the words of the host, which has more of them than a database."""
    said = None if message.given is None else message.given.get("role")
    return said if isinstance(said, str) else str(message.role)


# -- whole turns -------------------------------------------------------------------------------------------


#: Roles of the host whose messages stay wherever they stand before the first user.
_PROTECTED: Final = frozenset({"system", "developer"})


def _without_orphans(messages: Sequence[SentMessage], places: Sequence[int]) -> list[int]:
    """The places without a tool exchange before the first user, and the results of its calls behind it."""
    first = next((nth for nth, at in enumerate(places) if _is_user(messages[at])), 0)
    head = places[:first]
    if not any(_is_exchange(messages[at]) for at in head):
        return list(places)
    found = [at for at in head if _role(messages[at]) in _PROTECTED]
    gone = {name for at in head for name in _calls(messages[at])}
    for at in places[first:]:
        message = messages[at]
        gone.difference_update(_calls(message))  # called again: its results stay
        if message.role is not Role.TOOL_RESULT or message.call_id not in gone:
            found.append(at)
    return found


def _with_turns(messages: Sequence[SentMessage], places: Sequence[int], first: int) -> list[int]:
    """The places from the one numbered *first* on, with all calls and results that belong to theirs."""
    by_name: dict[str, list[int]] = {}
    for at in places:
        for name in _names(messages[at]):
            by_name.setdefault(name, []).append(at)
    chosen = set(places[first:])
    waiting = list(chosen)
    while waiting:
        for name in _names(messages[waiting.pop()]):
            partners = by_name.pop(name, ())
            waiting += [at for at in partners if at not in chosen]
            chosen.update(partners)
    found = sorted(chosen)
    head = next((found[:nth] for nth, at in enumerate(found) if _is_user(messages[at])), found)
    if len(head) == len(found) or any(_is_exchange(messages[at]) for at in head):
        chosen.update(_user_before(messages, [at for at in places if at < found[0]]))
    for at in places:
        if _role(messages[at]) not in _PROTECTED:
            break
        chosen.add(at)
    return sorted(chosen)


def _paired(messages: Sequence[SentMessage], places: Sequence[int], cut: dict[int, CutReason]) -> Clamped:
    """The chosen messages as a provider accepts them; an answer at the end as it is."""
    sent = [_as_result(messages[at]) for at in places]
    answer = [sent.pop()] if sent and sent[-1].role is Role.ASSISTANT else []
    repairs: list[Repair] = []
    sent = pair_tools(sent, repairs, calls_once=True) + answer
    left = [sent[at] for at in _without_orphans(sent, range(len(sent)))]
    # Two messages of a host may have equal origins: each has its own.
    paired, kept = ({id(one.origin) for one in some} for some in (sent, left))
    for at in places:
        own = id(messages[at].origin)
        if own not in kept:
            cut[at] = CutReason.ORPHANED_TURN if own in paired else CutReason.UNPAIRED
    return Clamped(tuple(left), cut, tuple(repairs))


def _is_exchange(message: SentMessage) -> bool:
    """Whether a message calls a tool, or answers a call."""
    return message.role is Role.TOOL_RESULT or bool(message.calls)


def _calls(message: SentMessage) -> list[str]:
    return [call.call_id for call in message.calls if call.call_id]


def _names(message: SentMessage) -> list[str]:
    """The ids of the calls that a message makes or answers."""
    if message.role is Role.TOOL_RESULT:
        return [message.call_id] if message.call_id else []
    return _calls(message)


def _as_result(message: SentMessage) -> SentMessage:
    """A result of the host under the role and with the id by which results are known."""
    if message.role is not Role.TOOL_RESULT or message.given is None:
        return message
    given = {**message.given, "role": str(Role.TOOL_RESULT), "toolCallId": message.call_id or ""}
    return replace(message, given=given)


class LoadedMessage(Record, frozen=True):
    """A raw message in a context, whole."""

    ordinal: int
    message: Message
    parts: tuple[MessagePart, ...]
    payload: LargeFile | None = None  #: that ``large_content`` names, read only when stubs are wanted

    def as_engine_read(self) -> LoadedMessage:
        """The same with U+FFFD for bytes that are no UTF-8: so the engine has them, and sends them."""
        texts: list[str | None] = [self.message.content]
        for part in self.parts:
            texts += _texts_of(part)
        for text in texts:
            if text and not text.isascii() and has_surrogates(text):
                break
        else:
            return self
        message = replace(self.message, content=as_engine_read(self.message.content))
        return replace(self, message=message, parts=tuple(map(part_as_engine_read, self.parts)))


#: Columns of a part that hold what somebody wrote.
_TEXTS: Final = (
    *("text", "tool_call_id", "tool_name", "tool_input", "tool_output", "tool_error", "file_name"),
    *("file_url", "metadata"),
)
_texts_of: Final[Callable[[MessagePart], tuple[str | None, ...]]] = attrgetter(*_TEXTS)


def part_as_engine_read(part: MessagePart) -> MessagePart:
    """A part whose texts hold U+FFFD for bytes that are no UTF-8."""
    held = zip(_TEXTS, _texts_of(part), strict=True)
    changed: dict[str, Any] = {
        name: as_engine_read(text) for name, text in held if text and has_surrogates(text)
    }
    return replace(part, **changed) if changed else part


class LoadedSummary(Record, frozen=True):
    """A summary in a context, whole."""

    ordinal: int
    text: SummaryText
    sources: tuple[SummaryId, ...]  #: that have a row, in the order of condensation

    def as_engine_read(self) -> LoadedSummary:
        """The same with U+FFFD for bytes that are no UTF-8."""
        if not has_surrogates(self.text.content):
            return self
        return replace(self, text=replace(self.text, content=as_engine_read(self.text.content)))


class DanglingItem(Record, frozen=True):
    """A context item whose row is gone: the engine skips it silently."""

    ordinal: int
    name: str  #: of what is gone: ``message 7`` or the id of a summary


LoadedItem: TypeAlias = "LoadedMessage | LoadedSummary | DanglingItem"


# -- as they are sent --------------------------------------------------------------------------------------


class ResolvedItem(Record, frozen=True):
    """A context item as the message it would be sent as."""

    ordinal: int
    sent: SentMessage
    is_message: bool  #: a raw message
    role: str | None  #: of a raw message, as stored
    tokens: int  #: as sent
    stored_tokens: int
    payload: LargeFile | None = None  #: the file that holds a tool's large answer
    own_text: str | None = None  #: of what is sent wrapped, or refers to a file: what it says by itself

    @property
    def said(self) -> str:
        """The text in which the words of a prompt are counted: of a list of blocks its whole JSON."""
        return counted_content(self.sent.content) if self.own_text is None else self.own_text

    @property
    def is_brief(self) -> bool:
        """Whether it is a focus brief, which is sent whatever the budget."""
        return self.sent.origin.kind is OriginKind.FOCUS_BRIEF


class UnreadItems(Record, frozen=True):
    """The oldest items of a long context, which cannot fit and were not even read."""

    items: int
    summaries: int  #: among them, those under a focus brief as well
    covered: int  #: summaries among them that a focus brief covers
    first_ordinal: int
    last_ordinal: int
    deepest: int = 0  #: depth of its summaries; 0 where no rule asks for it
    condensed: int = 0  #: summaries among them that are no leaves, likewise

    @property
    def messages(self) -> int:
        """Raw messages among them."""
        return self.items - self.summaries


class ContextMessages(Record, frozen=True):
    """A context as messages, before any budget: whole, or its end when the rest cannot fit."""

    items: tuple[ResolvedItem, ...]  #: by ordinal
    covered: tuple[ResolvedItem, ...] = ()  #: summaries that a focus brief replaces
    dangling: tuple[DanglingItem, ...] = ()
    void: tuple[Origin, ...] = ()  #: answers with neither text nor parts, which the engine does not see
    brief_id: str | None = None  #: of the active brief that covers something
    unread: UnreadItems | None = None
    #: Of calls in what was read, those whose result is in what was not.
    answered_unread: frozenset[str] = frozenset()
    #: By raw message, the summaries of this context that were made from it, too: none in a sound file.
    above: Mapping[MessageId, frozenset[SummaryId]] = field(default_factory=dict)
    #: By ordinal, the files with what a user pasted, of which a reference is sent.
    pasted: Mapping[int, tuple[LargeFile, ...]] = field(default_factory=dict)

    def behind(self, older: ContextMessages) -> ContextMessages:
        """The same context with a piece that comes before it."""
        return ContextMessages(
            older.items + self.items,
            older.covered + self.covered,
            older.dangling + self.dangling,
            older.void + self.void,
            self.brief_id or older.brief_id,
            older.unread,
        )


def resolve_items(
    items: Iterable[LoadedItem], overlay: FocusOverlay | None, rules: EngineRules, zone: tzinfo | None
) -> ContextMessages:
    """What stored items are sent as, without those that a focus brief covers. Times in *zone*.

    The brief itself is one item more (`resolve_brief`), wherever its place in a long context is.
    """
    found: list[ResolvedItem] = []
    covered: list[ResolvedItem] = []
    dangling: list[DanglingItem] = []
    void: list[Origin] = []
    for item in items:
        match item:
            case LoadedMessage() if not item.parts and is_void(item.message, rules.assembly):
                void.append(_origin(item))
            case LoadedMessage():
                found.append(_message_as_sent(item.as_engine_read(), rules))
            case LoadedSummary():
                one = _summary_as_sent(item.as_engine_read(), rules, zone)
                under = overlay is not None and one.sent.origin.summary_id in overlay.covered
                (covered if under else found).append(one)
            case DanglingItem():
                dangling.append(item)
    brief_id = overlay.brief.brief_id if overlay is not None else None
    return ContextMessages(tuple(found), tuple(covered), tuple(dangling), tuple(void), brief_id)


#: A reference to a payload as the engine writes it (docs/spec/ingest.md, "Payloads"), and the file's id.
FILE_REFERENCE: Final = re.compile(
    r"(?:\[LCM (?:File|Tool Output|Raw Payload): |\| LCM file: )(file_[a-f0-9]{16})\b", re.IGNORECASE
)


def references(context: ContextMessages) -> dict[int, tuple[str, ...]]:
    """By ordinal, the ids of the files that users' raw messages refer to, each once."""
    found: dict[int, tuple[str, ...]] = {}
    for item in context.items:
        if item.role == "user" and (names := FILE_REFERENCE.findall(item.sent.text)):
            found[item.ordinal] = tuple(dict.fromkeys(name.lower() for name in names))
    return found


def turn_summaries(context: ContextMessages) -> tuple[MessageId, tuple[SummaryId, ...]] | None:
    """The last raw message of a user and the summaries behind it; None: there is no such pair."""
    behind: list[SummaryId] = []
    for item in reversed(context.items):
        origin = item.sent.origin
        if origin.message_id is not None and item.role == "user":
            return (origin.message_id, tuple(behind)) if behind else None
        if origin.summary_id is not None:
            behind.append(origin.summary_id)
    return None


def with_answers(context: ContextMessages, proven: Collection[SummaryId]) -> ContextMessages:
    """The same context with some summaries as messages of the assistant; what they weigh stays.

    Source: docs/spec/assembly.md, "Summaries inside the current turn".
    """
    items = [_as_answer(item) if item.sent.origin.summary_id in proven else item for item in context.items]
    return replace(context, items=tuple(items))


def _as_answer(item: ResolvedItem) -> ResolvedItem:
    sent = item.sent
    return replace(item, sent=replace(sent, role=Role.ASSISTANT, content=(text_block(sent.text),)))


#: The last line of a reference; the engine writes it so, without the id.
_FETCHING: Final = (
    'Call lcm_describe(id="<file_id above>", expandFile=true) to fetch the full output content from disk.'
)


def stub(item: ResolvedItem, rules: EngineRules) -> ResolvedItem:
    """A tool's answer whose payload is in a file as a reference to that; anything else as it is.

    Also where the reference weighs more (docs/spec/assembly.md, "References to payloads").
    """
    sent, payload = item.sent, item.payload
    if payload is None or sent.role is not Role.TOOL_RESULT or not payload.file_id.startswith("file_"):
        return item
    tool = (sent.tool_name or "").strip(BLANKS) or UNKNOWN_TOOL
    digest = (payload.exploration_summary or "").strip(BLANKS) or "(no summary available)"
    text = (
        f"[LCM Tool Output: {payload.file_id} | tool={tool} | {payload.byte_size or 0:,} bytes]\n\n"
        f"Exploration Summary:\n{digest}\n\n"
        f"{_FETCHING}"
    )
    content: Content = text if isinstance(sent.content, str) else (text_block(text),)
    tokens = estimate(text, rules.assembly.estimator)
    stubbed = replace(sent.with_content(content), tokens=tokens)
    return replace(item, sent=stubbed, tokens=tokens, own_text=text)


def _message_as_sent(item: LoadedMessage, rules: EngineRules) -> ResolvedItem:
    message, how = item.message, rules.assembly
    built = rebuild(message, item.parts, how)
    if how.trusts_stored_tokens and message.tokens > 0:
        tokens, counted = message.tokens, None
    else:
        weight, adds_up = content_quarters(built.content, how.estimator)
        counted = weight if adds_up else None
        if built.reasoning is not None or built.sender is not None:
            weight += _beside(built, how)
        tokens = -(-weight // 4)
    sent = SentMessage(
        built.role,
        built.content,
        _origin(item),
        tokens,
        built.call_id,
        built.tool_name,
        built.is_error,
        built.identity,
        built.reasoning,
        built.sender,
        quarters=counted,
    )
    return ResolvedItem(item.ordinal, sent, True, message.role, tokens, message.tokens, item.payload)


def _origin(item: LoadedMessage) -> Origin:
    message = item.message
    return Origin(
        OriginKind.MESSAGE, item.ordinal, message_id=message.message_id, stored_tokens=message.tokens
    )


def _beside(built: RebuiltMessage, rules: AssemblyRules) -> int:
    """What the fields beside a content weigh, in quarters of a token: each has a line of its own."""
    texts = [built.reasoning or "", "" if built.sender is None else stringify(built.sender)]
    found = [quarters(text, rules.estimator) for text in texts if text]
    lines = len(found) if built.content != "" else max(0, len(found) - 1)
    return sum(found) + lines


def _summary_as_sent(item: LoadedSummary, rules: EngineRules, zone: tzinfo | None) -> ResolvedItem:
    summary = item.text.summary
    text = wrap_summary(summary, item.text.content, item.sources, rules, zone)
    tokens = _tokens(text, rules)
    origin = Origin(
        OriginKind.SUMMARY,
        item.ordinal,
        summary_id=summary.summary_id,
        depth=summary.depth,
        stored_tokens=summary.tokens,
    )
    sent = SentMessage(Role.USER, text, origin, tokens)
    return ResolvedItem(item.ordinal, sent, False, None, tokens, summary.tokens, own_text=item.text.content)


def resolve_brief(overlay: FocusOverlay, rules: EngineRules) -> ResolvedItem:
    """A focus brief as it is sent, at the place of the first summary that it covers."""
    brief, tokens = overlay.brief, _tokens(overlay.text, rules)
    origin = Origin(
        OriginKind.FOCUS_BRIEF, overlay.at_ordinal, brief_id=brief.brief_id, stored_tokens=brief.tokens
    )
    sent = SentMessage(Role.USER, overlay.text, origin, tokens)
    return ResolvedItem(overlay.at_ordinal, sent, False, None, tokens, brief.tokens)


def _tokens(content: Content, rules: EngineRules) -> int:
    return estimate(counted_content(content), rules.assembly.estimator)


# -- the budget ------------------------------------------------------------------------------------------
# The always-sent newest items, and how much of the rest fits the budget (docs/spec/assembly.md, "What is
# sent").


class SelectionRule(StrEnum):
    """How the items before the tail were chosen."""

    FULL_FIT = "full-fit"  #: all of them fit
    CHRONOLOGICAL = "chronological"  #: from the newest back, to the first that does not fit
    PROMPT_AWARE = "prompt-aware"  #: those that match the prompt best

    @property
    def words(self) -> str:
        """The rule for people; the value is what programs get."""
        return _RULE_WORDS[self]


_RULE_WORDS: Final = {
    SelectionRule.FULL_FIT: "everything fits",
    SelectionRule.CHRONOLOGICAL: "the newest that fit",
    SelectionRule.PROMPT_AWARE: "chosen by the prompt",
}


class Tail(Record, frozen=True):
    """The protected end of a context as the assembler sees it."""

    count: int  #: what the rule or the operator asked for
    max_tokens: int | None
    first_ordinal: int | None  #: None: nothing is protected
    items: tuple[ResolvedItem, ...]

    @property
    def tokens(self) -> int:
        """Tokens as sent."""
        return sum(item.tokens for item in self.items)


class Fill(Record, frozen=True):
    """What was chosen, in order of ordinal."""

    kept: tuple[ResolvedItem, ...]  #: of what may be evicted
    evicted: tuple[ResolvedItem, ...]
    selection: SelectionRule
    remaining: int  #: of the budget beside tail and brief, 0 when they take it all
    stopped_at: int | None  #: ordinal of the first item that did not fit
    #: By ordinal, of what may be evicted, when a prompt chose: the share of the words that it names.
    scores: Mapping[int, float] = field(default_factory=dict)


def protected_tail(
    items: Sequence[ResolvedItem], rules: EngineRules, count: int | None, max_tokens: int | None
) -> Tail:
    """The items that are sent whatever they weigh; *count* and *max_tokens* are an operator's settings."""
    limit = rules.tail.fresh_tail_count if count is None else count
    if rules.assembly.tail_of_items:
        kept = tuple(items[max(0, len(items) - limit) :]) if limit > 0 else ()
        return Tail(limit, None, kept[0].ordinal if kept else None, kept)
    found = fresh_tail(
        items, replace(rules.tail, fresh_tail_count=limit, fresh_tail_max_tokens=max_tokens)
    )  # by their weight as sent
    first = found.first_ordinal
    kept = () if first is None else tuple([item for item in items if item.ordinal >= first])
    return Tail(limit, max_tokens, first, kept)


def fill_budget(
    evictable: Sequence[ResolvedItem], room: int, prompt: str | None, *, unread: bool = False
) -> Fill:
    """Choose among *evictable* what fits *room*, the budget beside what is protected.

    *prompt* chooses by what it asks for; *unread*: older items come before these, which cannot fit.
    """
    remaining = max(0, room)
    if not unread and sum(item.tokens for item in evictable) <= remaining:
        return Fill(tuple(evictable), (), SelectionRule.FULL_FIT, remaining, None)
    terms = tuple(dict.fromkeys(_terms(prompt or "")))
    stopped: int | None = None
    scores: Mapping[int, float] = {}
    if terms:
        named = [_score(item.said, terms) for item in evictable]
        chosen, selection = _by_prompt(evictable, remaining, named), SelectionRule.PROMPT_AWARE
        scores = {item.ordinal: score for item, score in zip(evictable, named, strict=True)}
    else:
        first = _newest(evictable, remaining)
        chosen, selection = frozenset(range(first, len(evictable))), SelectionRule.CHRONOLOGICAL
        stopped = evictable[first - 1].ordinal if first else None
    return Fill(
        tuple(item for at, item in enumerate(evictable) if at in chosen),
        tuple(item for at, item in enumerate(evictable) if at not in chosen),
        selection,
        remaining,
        stopped,
        scores,
    )


def _newest(items: Sequence[ResolvedItem], remaining: int) -> int:
    """From the newest back to the first that does not fit."""
    first, spent = len(items), 0
    while first > 0 and spent + items[first - 1].tokens <= remaining:
        spent += items[first - 1].tokens
        first -= 1
    return first


def _by_prompt(items: Sequence[ResolvedItem], remaining: int, scores: Sequence[float]) -> frozenset[int]:
    """The best by what they say of the prompt, newer before older, as many as fit."""
    chosen: set[int] = set()
    for at in sorted(range(len(items)), key=lambda at: (-scores[at], -at)):
        if items[at].tokens <= remaining:
            remaining -= items[at].tokens
            chosen.add(at)
    return frozenset(chosen)


#: A word of letters and digits of ASCII: an accent or an ideograph parts two of them.
_WORD: Final = re.compile(r"[a-z0-9]{2,}")


def _terms(text: str) -> list[str]:
    """The words that count: a single letter or digit is none."""
    return _WORD.findall(text.lower())


def _score(text: str, terms: Sequence[str]) -> float:
    """The share of a text's words that the prompt names, added up in the order of the prompt."""
    words = _terms(text)
    if not words:
        return 0.0
    counts, score = Counter(words), 0.0
    for term in terms:
        score += counts[term] / len(words)
    return score
