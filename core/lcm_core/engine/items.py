"""Context items as they are read, what each becomes and weighs as sent, and which of them fit the budget.

docs/spec/assembly.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import tzinfo
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, TypeAlias

from lcm_core.base.javascript import stringify
from lcm_core.base.records import LargeFile, Message, MessageId, MessagePart, SummaryId, SummaryText
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import as_engine_read, estimate, has_surrogates, quarters
from lcm_core.base.values import Record, field, replace
from lcm_core.engine.blocks import UNKNOWN_TOOL, RebuiltMessage, is_void, rebuild, text_block
from lcm_core.engine.clamp import content_quarters
from lcm_core.engine.messages import Content, Origin, OriginKind, Role, SentMessage, counted_content
from lcm_core.engine.rules import AssemblyRules, EngineRules, fresh_tail
from lcm_core.engine.wrapper import FocusOverlay, wrap_summary


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
